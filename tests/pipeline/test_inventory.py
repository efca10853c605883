"""Counting every event in the raw files and in the tables, independently of what batches said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from etl.adapters.ledger import Ledger
from etl.pipeline.inspection import inventory
from etl.pipeline.inspection.inventory import Inventory
from etl.samples.examples import EXAMPLES
from tests.support.site import Ended, Site, order

SAID = {"lines": 10, "fact": 4, "quarantine": 3, "backlog_open": 2}
BALANCED = Inventory("p", 10, 4, 4, 3, 2, 1, {"rows": 4}, {"rows": 4}, SAID)


def test_what_adds_up_has_no_faults() -> None:
    assert BALANCED.faults == []
    assert BALANCED.as_json()["balanced"]


def test_every_sum_that_does_not_hold_is_said() -> None:
    wrong = Inventory("p", 11, 5, 4, 3, 2, 0, {"rows": 4}, {"rows": 5}, {"lines": 10, "fact": 5, "quarantine": 3})
    assert wrong.faults == [
        "11 lines are in the raw files, 10 events are in a place",
        "1 events are in the fact table more than once",
        "mart.rows has 4 rows, the fact table 5",
        "the ledger says 10 lines, 11 were counted",
        "the ledger says 0 backlog_open, 2 were counted",
    ]


def test_events_are_counted_where_they_are_and_a_row_that_is_lost_is_noticed(site: Site) -> None:
    site.land("a.jsonl", order(1), order(1), order(-2), order(3, customer_id=77), b"  ", b"{")
    site.run()
    site.land("b.jsonl", order(4))
    counted = site.inventory()
    assert counted.faults == [], "a file that no batch has read is in no place"
    assert (counted.raw_lines, counted.fact, counted.quarantine, counted.backlog_open) == (5, 1, 2, 1)
    site.execute("delete from mart.orders")
    assert site.inventory().faults == ["mart.orders has 0 rows, the fact table 1"]
    site.table("quarantine").delete("line = 6")
    assert "the ledger says 2 quarantine, 1 were counted" in site.inventory().faults


@pytest.mark.parametrize("checkpoint", ["after the decision", "after fact is published", "after the mart is loaded"])
def test_a_batch_that_is_under_way_is_no_fault(site: Site, checkpoint: str) -> None:
    site.land("a.jsonl", order(1), order(2, customer_id=11))
    site.run()
    site.execute(
        "insert into master.customers select 11, name, address, nation, region, market_segment, phone, "
        "account_balance from master.customers where customer_id = 1"
    )
    site.land("b.jsonl", order(3), order(4, customer_id=77), order(-5))
    with pytest.raises(Ended):
        site.ending(checkpoint).run()
    counted = site.inventory()
    assert counted.faults == []
    assert (counted.fact, counted.backlog_open) == ((3, 1) if "mart" in checkpoint else (1, 1))


def test_files_are_counted_wherever_they_are_by_now(site: Site) -> None:
    site.land("a.jsonl", order(1))
    path = site.land("b.jsonl", order(2))
    site.run()
    with path.open("ab") as file:
        file.write(b'{"order_id": 9}\n{"half')
    site.later(timedelta(minutes=2)).run()
    assert site.inventory().faults == []
    assert site.totals()["lines"] == 3, "the half line may still get its end"
    site.later(timedelta(hours=2)).run()
    assert site.inventory().faults == []
    assert site.totals()["lines"] == 4, "after an hour it counts as it is"
    assert sorted(path.name for path in site.settings.archive.rglob("*.jsonl")) == ["a.jsonl", "b.jsonl"]


def test_a_file_that_nobody_can_read_is_one_event_in_quarantine(site: Site) -> None:
    trips = site.of("trips")
    EXAMPLES["trips"].seed(trips.dsn, trips.settings.var)
    expected = EXAMPLES["trips"].generate(trips.landing, 50, 1, datetime.now(UTC) - timedelta(minutes=5))
    (trips.landing / "broken.parquet").write_bytes(b"PAR1 this is no Parquet PAR1")
    keyless = pa.table({"service_day": pa.array([None], pa.date32()), "meter": pa.array([1], pa.int32())})
    pq.write_table(keyless, trips.landing / "keyless.parquet")
    trips.run()
    counted = trips.inventory()
    assert counted.faults == []
    assert counted.raw_lines == expected.lines + 2
    assert trips.record(1).counts.reasons["malformed_parquet"] == 1
    assert trips.record(1).counts.reasons["service_day_missing"] >= 1


@pytest.mark.parametrize("moment", ["archive_removed", "consumed"])
def test_files_that_are_put_away_while_they_are_counted_are_counted_once(
    site: Site, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    site.land("a.jsonl", order(1), order(2))
    site.run()
    site.land("b.jsonl", order(3))
    site.run()
    asked = getattr(Ledger, moment)

    def put_away_meanwhile(self: Ledger, *names: Any) -> Any:
        answer = asked(self, *names)
        monkeypatch.setattr(Ledger, moment, asked)
        assert site.later(timedelta(minutes=1)).run() is None
        return answer

    monkeypatch.setattr(Ledger, moment, put_away_meanwhile)
    counted = site.inventory()
    assert list(site.landing.glob("*.jsonl")) == [], "the files were put away while they were counted"
    assert (counted.raw_lines, counted.faults) == (3, [])


def test_files_that_are_put_away_between_landing_folder_and_archive_are_counted_once(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.land("a.jsonl", order(1), order(2))
    site.run()
    count = inventory._count_landed

    def put_away_then(*given: Any) -> Any:
        counted = count(*given)
        assert site.later(timedelta(minutes=1)).run() is None
        return counted

    monkeypatch.setattr(inventory, "_count_landed", put_away_then)
    counted = site.inventory()
    assert list(site.landing.glob("*.jsonl")) == [], "the files were put away while they were counted"
    assert (counted.raw_lines, counted.faults) == (2, [])
