"""A run may end between any two writes: what comes after goes on from there, and no event is lost or counted twice."""

from __future__ import annotations

from datetime import timedelta

import pytest

from etl.adapters import ledger
from etl.errors import Busy, TerminalError
from etl.pipeline.microbatch import InputRestless
from tests.support.site import Ended, Site, order

BEFORE_THE_DECISION = ("before input is fixed", "after input is fixed", "before the note", "before the decision")
AFTER_THE_DECISION = (
    "after the decision",
    "before the verdict",
    "after the verdict",
    "before fact is published",
    "after fact is published",
    "before quarantine is published",
    "after quarantine is published",
    "before backlog is published",
    "after backlog is published",
    "after the mart is loaded",
)
TABLES = ("fact", "quarantine", "backlog")


@pytest.mark.parametrize("checkpoint", BEFORE_THE_DECISION + AFTER_THE_DECISION)
def test_a_run_that_ends_between_two_writes_is_taken_up_and_every_event_is_in_one_place(
    site: Site, checkpoint: str
) -> None:
    site.land("a.jsonl", order(1), order(1), order(2, quantity=-1), order(3, customer_id=77))
    with pytest.raises(Ended):
        site.ending(checkpoint).run()
    again = site.restarted()
    again.land("b.jsonl", order(4))
    while again.run() is not None:
        pass
    assert [again.rows(table).num_rows for table in TABLES] == [2, 1, 1]
    assert again.execute("select count(*), count(distinct order_id) from mart.orders") == [(2, 2)]
    totals = again.totals()
    assert (totals["lines"], totals["duplicates"], totals["batches"]) == (5, 1, 2 if _fixed(checkpoint) else 1)
    assert again.inventory().faults == []


def _fixed(checkpoint: str) -> bool:
    """Whether the batch had its input before the other file came."""
    return checkpoint != "before input is fixed"


def test_the_mart_shows_a_batch_whole_or_not_at_all(site: Site) -> None:
    site.land("a.jsonl", order(1), order(2))
    with pytest.raises(Ended):
        site.ending("after fact is published").run()
    assert site.rows("fact").num_rows == 2
    assert site.execute("select count(*) from mart.orders") == [(0,)]
    assert site.run() == 1
    assert site.execute("select count(*) from mart.orders") == [(2,)]


def test_publishing_a_loaded_batch_again_changes_nothing(site: Site) -> None:
    site.land("a.jsonl", order(1))
    batch = site.run()
    versions = [site.table(table).version() for table in TABLES]
    site.step("audit", batch)
    site.step("publish", batch)
    assert site.totals()["fact"] == 1
    assert [site.table(table).version() for table in TABLES] == versions


def test_a_repeated_batch_sees_the_master_rows_it_began_with(site: Site) -> None:
    site.execute("update master.customers set name = 'as it was' where customer_id = 1")
    site.land("a.jsonl", order(1))
    with pytest.raises(Ended):
        site.ending("before the decision").decide()
    site.execute("update master.customers set name = 'changed meanwhile' where customer_id = 1")
    assert site.run() == 1
    assert site.execute("select customer_name from mart.orders") == [("as it was",)]
    site.close()
    pins = site.settings.master_pages / "postgres.master.customers" / "pins"
    assert list(pins.iterdir()) == [], "the pin went with the batch"


def test_a_second_writer_is_told_who_is_writing(site: Site) -> None:
    with ledger.writing(site.dsn, "orders", "somebody else"), pytest.raises(Busy, match="somebody else"):
        site.decide()
    assert site.decide() is None, "the lock is free again"


def test_a_second_database_cannot_write_the_same_warehouse(site: Site, database: str) -> None:
    other = Site.under(site.settings.home, database, site.steps.executor)
    with site.writing(), pytest.raises(Busy, match=r"orders/\.writer"):
        other.decide()


def test_a_writer_that_was_overtaken_commits_nothing(site: Site) -> None:
    site.land("a.jsonl", order(1))
    take_over = "update etl.pipeline set epoch = epoch + 1, holder = 'a faster one' where name = 'orders'"
    slow = site.meanwhile("before the decision", lambda: site.execute(take_over))
    with pytest.raises(ledger.Fenced, match="written by a faster one now"):
        slow.decide()
    assert site.record(1).state == "reading"
    assert site.run() == 1


def test_a_batch_that_waits_its_turn_is_not_published_first(site: Site) -> None:
    with pytest.raises(TerminalError, match="needs a batch"):
        site.step("audit")
    with pytest.raises(TerminalError, match="batch 7 of orders is not in the ledger"):
        site.step("publish", 7)
    site.land("a.jsonl", order(1))
    batch = site.decide()
    with pytest.raises(TerminalError, match="is decided; only one that passed is published"):
        site.step("publish", batch)


def test_a_file_that_keeps_changing_is_left_for_the_next_batch(site: Site) -> None:
    site.land("a.jsonl", order(1))
    restless = site.land("b.jsonl", order(2))
    assert site.meanwhile("after input is fixed", lambda: restless.write_bytes(b"")).run() == 1
    assert site.totals()["lines"] == 1
    site.land("b.jsonl", order(2))
    assert site.run() == 2
    assert site.totals()["fact"] == 2


def test_a_batch_whose_only_file_vanishes_never_was(site: Site) -> None:
    vanishing = site.land("a.jsonl", order(1))
    assert site.meanwhile("after input is fixed", vanishing.unlink).decide() is None
    site.land("b.jsonl", order(2))
    assert site.run() == 1, "its number is free again"
    assert str(InputRestless("orders", ("a.jsonl",))).startswith("files of orders keep changing")


def test_loaded_files_are_put_away_once_they_are_quiet_and_their_names_are_free(site: Site) -> None:
    site.land("same.jsonl", order(1))
    assert site.run() == 1
    assert (site.landing / "same.jsonl").exists(), "its writer may not be done"
    site.later(timedelta(minutes=2)).land("other.jsonl", order(2))
    assert site.later(timedelta(minutes=2)).run() == 2
    assert not list(site.landing.glob("*.jsonl"))
    site.land("same.jsonl", order(3))
    assert site.run() == 3
    assert site.later(timedelta(minutes=2)).decide() is None
    site.later(timedelta(minutes=2)).step("publish", 3)
    names = sorted(path.name for path in site.settings.archive.rglob("*.jsonl*"))
    assert names == ["other.jsonl", "same.jsonl", "same.jsonl~1"]
    assert site.totals()["fact"] == 3
    assert site.inventory().faults == []


def test_a_name_may_hold_any_bytes_and_a_growing_file_is_read_on(site: Site) -> None:
    name = b"caf\xe9 \n'; drop table x; --.jsonl"
    path = site.land(name, order(1))
    assert site.run() == 1
    with path.open("ab") as file:
        file.write(b'{"order_id": 2}\n')
    assert site.run() == 2
    totals = site.totals()
    assert (totals["fact"], totals["quarantine"], totals["lines"]) == (1, 1, 2)
    (refused,) = site.rows("quarantine").to_pylist()
    assert refused["source_file"] == "caf\\xe9 \n'; drop table x; --.jsonl"
    assert site.inventory().faults == []


def test_a_batch_takes_what_the_limit_allows_and_the_rest_waits_its_turn(site: Site) -> None:
    small = site.changed(batch_bytes=250)
    small.land("a.jsonl", *[order(number) for number in range(1, 7)])
    batches = 0
    while small.run() is not None:
        batches += 1
    assert batches > 2
    assert site.totals()["fact"] == 6
