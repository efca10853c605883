"""Lines of orders with every kind of dirt, and the reason that each must be refused for; None: it is accepted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.site import order

TOMORROW = f"{datetime.now(UTC) + timedelta(days=2):%Y-%m-%dT%H:%M:%SZ}"

DIRT: list[tuple[dict[str, Any] | bytes, str | None]] = [
    (order(1), None),
    (order(2, customer_id="3"), None),
    (b'{"order_id": 3', "malformed_json"),
    (b"not json at all <script>alert(1)</script>", "malformed_json"),
    (b"[1, 2]", "malformed_json"),
    (b'{"order_id": 4}{"order_id": 5}', "malformed_json"),
    (b'{"order_id": 6, "note": "caf\xe9"}', "bad_utf8"),
    (b"\x00\xff\xfe", "bad_utf8"),
    (order(25, note="x" * 70_000), "line_too_long"),
    (b"\xff" * 70_000, "line_too_long"),
    ({k: v for k, v in order(7).items() if k != "quantity"}, "quantity_missing"),
    (order(None), "order_id_missing"),
    (order(9, customer_id=None), "customer_id_missing"),
    (order(10, quantity=-1), "quantity_in_range"),
    (order(11, quantity=0), "quantity_in_range"),
    (order(12, quantity=2.5), "quantity_invalid"),
    (order(13, quantity="many"), "quantity_invalid"),
    (order(14, quantity=10**30), "quantity_invalid"),
    (order(15, unit_price=float("nan")), "malformed_json"),
    (b'{"order_id":16,"customer_id":1,"product_id":1,"quantity":1,"unit_price":1e400,"ordered_at":"2026-11-01"}',
     "unit_price_invalid"),
    (order(17, unit_price=-0.01), "unit_price_in_range"),
    (order(18, ordered_at="1819-02-28T00:00:00Z"), "ordered_at_not_too_old"),
    (order(23, ordered_at="0000-01-01T00:00:00Z"), "ordered_at_invalid"),
    (order(24, ordered_at="-0001-01-01T00:00:00Z"), "ordered_at_invalid"),
    (order(19, ordered_at=TOMORROW), "ordered_at_not_in_future"),
    (order(20, ordered_at="the day before yesterday"), "ordered_at_invalid"),
    (order(-21), "order_id_positive"),
    (order(22, customer_id=10**30), "customer_id_invalid"),
]  # fmt: skip
