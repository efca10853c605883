"""JSON lines: what is an event, what is not, and what is kept of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from etl.contract.model import Field
from etl.contract.words.types import arrow_type
from etl.ingest.events import EXTRA, reason_names
from tests.support.event_lines import ORDER, one, parsed
from tests.support.site import order

DIRT: list[tuple[dict[str, Any] | bytes, list[str]]] = [
    (order(1), []),
    (order(2, customer_id="3"), []),
    (
        b'\xef\xbb\xbf{"order_id":27,"customer_id":1,"product_id":1,"quantity":1,"unit_price":1,"ordered_at":"2026-11-01"}',
        [],
    ),
    (b'{"order_id": 3', ["malformed_json"]),
    (b"not json at all <script>alert(1)</script>", ["malformed_json"]),
    (b"[1, 2]", ["malformed_json"]),
    (b"7", ["malformed_json"]),
    (b'{"order_id": 4}{"order_id": 5}', ["malformed_json"]),
    (b'{"order_id": 4,}', ["malformed_json"]),
    (b'{"order_id": 6, "note": "caf\xe9"}', ["bad_utf8"]),
    (b"\x00\xff\xfe", ["bad_utf8"]),
    (order(25, note="x" * 70_000), ["line_too_long"]),
    (b"\xff" * 70_000, ["line_too_long"]),
    ({k: v for k, v in order(7).items() if k != "quantity"}, ["quantity_missing"]),
    (order(None), ["order_id_missing"]),
    (order(9, customer_id=None), ["customer_id_missing"]),
    (order(12, quantity=2.5), ["quantity_invalid"]),
    (order(13, quantity="many"), ["quantity_invalid"]),
    (order(14, quantity=10**30), ["quantity_invalid"]),
    (order(15, unit_price=float("nan")), ["malformed_json"]),
    (order(15, unit_price="NaN"), ["unit_price_invalid"]),
    (
        b'{"order_id":16,"customer_id":1,"product_id":1,"quantity":1,"unit_price":1e400,"ordered_at":"2026-11-01"}',
        ["unit_price_invalid"],
    ),
    (order(20, ordered_at="the day before yesterday"), ["ordered_at_invalid"]),
    (order(22, customer_id=10**30, quantity=None), ["customer_id_invalid", "quantity_missing"]),
    (order(23, ordered_at="0000-01-01T00:00:00Z"), ["ordered_at_invalid"]),
    (order(24, ordered_at="-0001-01-01T00:00:00Z"), ["ordered_at_invalid"]),
]


def test_every_kind_of_dirt_has_its_reason_and_keeps_its_bytes() -> None:
    texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line, _ in DIRT]
    events = parsed(b"\n".join([*texts, b"   "]))
    assert events.reasons.to_pylist() == [reasons for _, reasons in DIRT]
    assert events.line.tolist() == list(range(1, len(DIRT) + 1))
    assert [len(raw) for raw in events.raw.to_pylist()] == [
        min(len(text), 65_536) if len(text) <= 65_536 else 1_024 for text in texts
    ]
    assert {reason for _, reasons in DIRT for reason in reasons} <= set(reason_names(ORDER))


def test_a_good_line_has_all_its_values() -> None:
    events = parsed(json.dumps(order(2, customer_id="3", unit_price=0.1)).encode())
    assert events.batch.to_pylist() == [
        {
            "order_id": 2,
            "customer_id": 3,
            "product_id": 1,
            "quantity": 2,
            "unit_price": Decimal("0.1000"),
            "ordered_at": datetime(2026, 11, 1, 10, tzinfo=UTC),
            EXTRA: None,
        }
    ]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"}",
        b"{}{}",
        b"{} x",
        b"{,}",
        b'{"x"}',
        b'{"x":}',
        b'{"x":1 2}',
        b'{"x":01}',
        b'{"x":+1}',
        b'{"x":.5}',
        b'{"x":5.}',
        b'{"x":1e}',
        b'{"x":-}',
        b'{"x":tru}',
        b'{"x":True}',
        b'{"x":nul',
        b'{"x":"a}',
        b"{'x':1}",
        b'{"x":"\\x"}',
        b'{"x":"\\u12g4"}',
        b'{"x":"a\tb"}',
        b'{"x":[1,]}',
        b'{"x":[1}',
        b'{"x":{"y":1]}',
        b'{"x":[}',
        b'{"x":{"y"}}',
        b'{"x":{1:2}}',
        b'{"x":Infinity}',
        b'{"x":1}\x00',
        b"{x:1}",
        b'{"x":1,"x":1}',
        b'{"x":null,"x":null}',
        b'{"x":1,"\\u0078":2}',
        b'{"x":"\\"}',
        b'{"x":"\\',
    ],
)
def test_what_is_not_exactly_one_object_is_malformed(line: bytes) -> None:
    events = parsed(b"7\n" + line, Field("x", arrow_type("string"), required=False))
    assert events.reasons.to_pylist()[1:] == ([["malformed_json"]] if line else [])
    assert events.batch.to_pylist()[-1] == {"x": None, EXTRA: None}


def test_a_name_may_be_written_with_escapes() -> None:
    field = Field("id", arrow_type("bigint"), source='ä"x')
    assert parsed(b'{"\\u00E4\\"\\u0078":7}', field).batch.column(0).to_pylist() == [7]


def test_what_is_not_declared_is_kept_as_it_was_written() -> None:
    field = Field("x", arrow_type("int"))
    events = parsed(b'{"a": [1, {"b":"\\u0000"}], "x":1 , "c" : null}\n{"x":2}\n{"x":3,"a":1,"a":2}', field)
    assert events.batch.column(EXTRA).to_pylist() == ['{"a": [1, {"b":"\\u0000"}],"c" : null}', None, '{"a":1,"a":2}']


def test_nesting_is_bounded() -> None:
    def nested(depth: int) -> bytes:
        return b'{"x":' + b"[" * depth + b"]" * depth + b"}"

    events = parsed(b"\n".join(nested(depth) for depth in (64, 65, 100, 30_000)), Field("x", arrow_type("string")))
    assert events.reasons.to_pylist() == [[], ["malformed_json"], ["malformed_json"], ["malformed_json"]]


@pytest.mark.parametrize(
    ("lexeme", "value"),
    [
        (b'"a\\u00e9\\n\\/\\"\\\\"', 'aé\n/"\\'),
        (b'"\\ud83d\\ude00"', "😀"),
        ('"grün"'.encode(), "grün"),
        (b'""', ""),
        (b"1.50", "1.50"),
        (b"true", "true"),
        (b'{"a": 1}', '{"a": 1}'),
    ],
)
def test_strings_are_unescaped_and_other_values_kept_as_they_stand(lexeme: bytes, value: str) -> None:
    assert one(lexeme, "string") == (value, [])


@pytest.mark.parametrize("lexeme", [b'"a\\u0000b"', b'"\\ud800"', b'"\\udc00"', b'"\\ud800\\ud800"', b'"\\ud800x"'])
def test_what_postgres_cannot_hold_is_not_text(lexeme: bytes) -> None:
    assert one(lexeme, "string", required=False) == (None, ["x_invalid"])
    assert one(lexeme, "int") == (None, ["x_invalid"])


def test_fields_may_come_in_any_order() -> None:
    fields = [Field(name, arrow_type("int")) for name in "abc"]
    events = parsed(b'{"c":3,"a":1,"b":2}\n{"b":2,"c":3,"a":1}', *fields)
    assert events.batch.select(["a", "b", "c"]).to_pylist() == [{"a": 1, "b": 2, "c": 3}] * 2


def test_a_field_of_megabytes_is_a_line_too_long() -> None:
    events = parsed(b'{"x":"' + b"y" * 10_000_000 + b'"}\n{"x":"z"}', Field("x", arrow_type("string")))
    assert events.reasons.to_pylist() == [["line_too_long"], []]
    assert events.batch.column("x").to_pylist() == [None, "z"]
