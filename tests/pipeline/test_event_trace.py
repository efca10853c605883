"""One event, followed from the lines that landed to the rows of the mart."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from etl.cli import app
from etl.pipeline.inspection.event_trace import EventTrace, KeyInvalid
from etl.pipeline.prepare import Preparer
from etl.samples.examples import EXAMPLES
from tests.support.desk import WIDER, release, rows
from tests.support.event_traces import trace
from tests.support.site import COPY_CUSTOMER, Ended, Site, order


def landed(found: EventTrace) -> list[tuple[str, int, int | None, str]]:
    return [(one.file, one.line, one.batch, one.role) for one in found.landed]


def test_an_accepted_event_has_its_line_its_batch_its_master_versions_and_its_row_in_the_mart(site: Site) -> None:
    site.land("a.jsonl", order(7), order(1), order(1))
    site.run()
    site.land("b.jsonl", order(1))
    site.later(timedelta(minutes=5)).run()
    found = trace(site, "1")
    assert (found.place, found.claim) == ("fact", {"state": "accepted", "batch": 1})
    assert landed(found) == [("a.jsonl", 2, 1, "event"), ("a.jsonl", 3, 1, "duplicate"), ("b.jsonl", 1, 2, "duplicate")]
    assert found.fact is not None
    assert found.fact["quantity"] == 2
    assert found.masters["customer"] == {
        "version": site.record(1).master_versions["customer"],
        "dimension_key": found.fact["customer_key"],
    }
    row = found.mart["orders"]
    assert row is not None
    assert row["batch"] == 1
    assert found.batches[1]["state"] == found.batches[2]["state"] == "loaded"


def test_an_event_is_followed_through_quarantine_release_and_backlog_into_the_fact(site: Site) -> None:
    site.land("a.jsonl", order(1, quantity=500_000, customer_id=77))
    assert trace(site, "1").place == "landing"
    site.run()
    assert trace(site, "1").place == "quarantine"
    wide = site.redeclared(WIDER)
    release(wide, rows("1-1"))
    wide.run()
    waiting = trace(wide, "1")
    assert (waiting.place, [one["open"] for one in waiting.backlog]) == ("backlog", [True])
    wide.execute(COPY_CUSTOMER, 77)
    wide.run()
    found = trace(wide, "1")
    assert (found.place, found.claim["batch"]) == ("fact", 3)
    assert [(one[2], one[3]) for one in landed(found)] == [(1, "refused"), (2, "waited")]
    assert [(one["row"], one["state"]) for one in found.quarantine] == [("1-1", "released")]
    assert sorted(found.batches) == [1, 2, 3]


def test_an_event_of_a_batch_that_is_not_published_yet_is_said_to_be_on_its_way(site: Site) -> None:
    site.land("a.jsonl", order(1))
    with pytest.raises(Ended):
        site.ending("after the decision").run()
    found = trace(site, "1")
    assert (found.place, found.fact, found.batches[1]["state"]) == ("fact", None, "decided")


def test_keys_of_several_fields_in_parquet_are_found(site: Site) -> None:
    trips = site.of("trips")
    EXAMPLES["trips"].seed(trips.dsn, trips.settings.var)
    EXAMPLES["trips"].generate(trips.landing, 40, 1, datetime.now(UTC))
    trips.run()
    row = trips.rows("fact").slice(0, 1).to_pylist()[0]
    declared = Preparer(trips.settings, trips.dsn).declared("trips")
    found = trace(trips, *[str(row[name]) for name in declared.stream.key])
    assert found.place == "fact"
    assert next(role for *_, role in landed(found)) == "event"


def test_what_is_no_key_is_a_sentence(site: Site) -> None:
    with pytest.raises(KeyInvalid, match="'x' is no key of orders: 'x' is not a int64; give order_id"):
        trace(site, "x")
    with pytest.raises(KeyInvalid, match="it has 1 parts, not 2"):
        trace(site, "1", "2")


def test_the_command_says_it_in_words_and_in_json(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("FRONTSTAGE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FRONTSTAGE_HOME", str(site.settings.home))
    monkeypatch.setenv("FRONTSTAGE_POSTGRES_DSN", site.dsn)
    site.land("a\x1b[1m.jsonl", order(1))
    site.run()
    text = CliRunner().invoke(app, ["explain-event", "orders", "1"]).stdout
    assert "orders 1 is in the fact table" in text
    assert "\x1b" not in text
    told = json.loads(CliRunner().invoke(app, ["explain-event", "orders", "1", "--json"]).stdout)
    assert (told["place"], told["landed"][0]["role"]) == ("fact", "event")
    absent = CliRunner().invoke(app, ["explain-event", "orders", "5"])
    assert (absent.exit_code, "is not known here" in absent.stdout) == (1, True)
