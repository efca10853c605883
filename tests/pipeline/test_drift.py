"""Events whose schema changes: what is added is kept and told, what is lost stops the run before it decides."""

from __future__ import annotations

import json
from typing import Any

import pytest

from etl.pipeline.decision import SchemaDrift
from etl.pipeline.review.quarantine import Selection
from tests.support.desk import release
from tests.support.site import Site, order


def renamed(number: int) -> dict[str, Any]:
    changed = order(number, customer=1)
    del changed["customer_id"]
    return changed


def test_an_added_field_is_kept_and_told(site: Site) -> None:
    site.land("a.jsonl", order(1, mood="fine"), order(2), order(3, **{"<b>\x00": [1]}))
    batch = site.run()
    told = site.step("report", batch)
    assert told["added_fields"] == {"mood": 1, "<b>\\x00": 1}
    extra = dict(zip(*(site.rows("fact")[name].to_pylist() for name in ("order_id", "extra")), strict=True))
    assert (json.loads(extra[1]), extra[2]) == ({"mood": "fine"}, None)
    page = (site.settings.reports / "orders" / "1" / "index.html").read_text()
    assert "Fields nobody declared" in page
    assert "&lt;b&gt;" in page
    assert "<b>\\x00" not in page


def test_a_required_field_that_is_gone_stops_the_run_before_anything_is_decided(site: Site) -> None:
    site.land("a.jsonl", order(9999))
    site.run()
    site.land("b.jsonl", *[renamed(number) for number in range(1, 121)])
    with pytest.raises(SchemaDrift) as stopped:
        site.run()
    assert str(stopped.value).startswith(
        "events of orders have changed, so batch 2 is not decided: customer_id is missing in 120 of 120 lines "
        "(not declared: 'customer'); declare what they are now in orders.toml"
    )
    assert site.totals()["lines"] == 1
    assert site.rows("quarantine").num_rows == 0
    assert site.inventory().faults == []


def test_a_required_field_of_another_type_stops_the_run_too(site: Site) -> None:
    site.land("a.jsonl", order(9999))
    site.run()
    site.land("b.jsonl", *[order(number, quantity="many") for number in range(1, 121)])
    with pytest.raises(SchemaDrift, match=r"quantity is not a int\d* in 120 of 120 lines"):
        site.run()
    assert (site.totals()["lines"], site.rows("quarantine").num_rows) == (1, 0)
    assert site.inventory().faults == []


def test_the_same_files_are_read_by_a_declaration_that_was_corrected(site: Site) -> None:
    site.land("b.jsonl", *[renamed(number) for number in range(1, 121)])
    with pytest.raises(SchemaDrift):
        site.run()
    corrected = site.redeclared(('customer_id = "bigint"', 'customer_id = { type = "bigint", from = "customer" }'))
    assert corrected.run() == 1
    assert corrected.rows("fact").num_rows == 120


def test_a_run_goes_on_when_the_files_are_taken_away(site: Site) -> None:
    path = site.land("b.jsonl", *[renamed(number) for number in range(1, 121)])
    with pytest.raises(SchemaDrift):
        site.run()
    path.unlink()
    site.land("c.jsonl", order(1))
    site.run()
    assert site.rows("fact").num_rows == 1


def test_lines_are_refused_one_by_one_where_that_is_wanted_and_when_people_send_them_again(site: Site) -> None:
    site.land("b.jsonl", *[order(number, quantity="many") for number in range(1, 121)])
    lenient = site.redeclared(('schedule = "on_arrival"', 'schedule = "on_arrival"\nschema_drift = "quarantine"'))
    lenient.run()
    assert lenient.rows("quarantine").num_rows == 120
    strict = lenient.redeclared(('schema_drift = "quarantine"', 'schema_drift = "stop"'))
    release(strict, Selection(batch=1))
    strict.run()
    assert strict.rows("quarantine").num_rows == 240, "what was refused before is no sign of a new schema"
    assert strict.inventory().faults == []
