"""A batch whose audit failed: a person releases or rejects it, and nothing is lost or there twice meanwhile."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import timedelta

import pytest

from etl.adapters import ledger
from etl.errors import AuditFailed
from etl.pipeline.input.arrival import Arrival
from etl.pipeline.inspection.event_trace import Tracer
from etl.pipeline.inspection.outcome import unsettled
from etl.pipeline.prepare import Preparer
from etl.pipeline.review.aside import EventsNotFound
from tests.support.backups import Backup
from tests.support.desk import says
from tests.support.site import COPY_CUSTOMER, STRICT, Ended, Site, order, quiet

GO_ON = ("grace =", 'held = "go_on"\ngrace =')


def going_on(site: Site) -> Site:
    """The site with an expectation that most batches fail; later batches go on."""
    return site.redeclared(GO_ON, add=STRICT)


def places(site: Site) -> tuple[int, ...]:
    counted = site.inventory()
    assert counted.faults == []
    return counted.fact, counted.quarantine, counted.backlog_open, counted.held


def held_batch(site: Site) -> Site:
    """Batch 1: two accepted orders fail the audit; one line is refused, one repeats, one order waits."""
    strict = going_on(site)
    strict.land("a.jsonl", order(1), b"{", order(2), order(2), order(3, customer_id=77))
    assert strict.run() == 1
    return strict


def test_later_batches_go_on_while_accepted_events_of_a_held_one_wait_aside(site: Site) -> None:
    strict = held_batch(site)
    record = strict.record(1)
    assert (record.state, record.aside, record.counts.held, record.counts.accepted) == ("loaded", 2, 2, 0)
    assert unsettled(strict.steps.report("orders", 1, quiet)) == "batch 1: 2 events wait for a decision"
    assert places(strict) == (0, 1, 1, 2)
    strict.land("b.jsonl", order(4, quantity=1))
    assert strict.run() == 2, "nothing waits for batch 1"
    assert places(strict) == (1, 1, 1, 2)


def test_an_event_aside_is_explained_as_held(site: Site) -> None:
    strict = held_batch(site)
    declared = Preparer(strict.settings, strict.dsn).declared("orders")
    with ledger.reading(strict.dsn, "orders") as book:
        found = Tracer(declared, strict.places, book, strict.dsn, ["1"]).trace(strict.steps.clock())
    assert (found.place, found.fact, found.claim["batch"]) == ("held", None, 1)


def test_released_events_become_facts_with_the_next_batch(site: Site) -> None:
    strict = held_batch(site)
    strict.land("b.jsonl", order(4, quantity=1))
    strict.run()
    assert strict.decide() is None, "nobody has decided: nothing can go on"
    assert says(strict, 1, "released")
    assert not says(strict, 1, "rejected"), "the first word stands"
    assert strict.run() == 3
    assert places(strict) == (3, 1, 1, 0)
    assert sorted(strict.rows("fact")["order_id"].to_pylist()) == [1, 2, 4]
    assert strict.execute("select count(*), sum(orders) from mart.orders, mart.daily_sales")[0][0] >= 3
    assert strict.execute("select sum(orders) from mart.daily_sales") == [(3,)]
    assert strict.record(3).counts.lines == 0


def test_rejected_events_are_refused_lines_with_their_bytes_and_their_keys_are_free(site: Site) -> None:
    strict = held_batch(site)
    says(strict, 1, "rejected")
    strict.land("b.jsonl", order(4, quantity=1))
    assert strict.run() == 2
    assert places(strict) == (1, 3, 1, 0)
    refused = [row for row in strict.rows("quarantine").to_pylist() if "audit_rejected" in row["reasons"]]
    assert [(row["line"], row["batch"]) for row in refused] == [(1, 2), (3, 2)]
    assert refused[0]["reasons"] == ["audit_rejected", "expect_column_max_to_be_between"]
    assert b'"order_id": 1' in refused[0]["raw"]
    strict.land("c.jsonl", order(1, quantity=1))
    strict.run()
    assert sorted(strict.rows("fact")["order_id"].to_pylist()) == [1, 4], "it was corrected and sent again"


def test_batches_that_are_rejected_at_once_are_refused_in_files_of_their_own(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict = held_batch(site)
    last = ledger.Ledger.last
    with monkeypatch.context() as patch:  # ten thousand batches later
        patch.setattr(ledger.Ledger, "last", lambda book: replace(last(book), batch=10_000))
        strict.land("b.jsonl", order(4))
        assert strict.run() == 10_001
    for batch in (1, 10_001):
        says(strict, batch, "rejected")
    assert strict.run() == 10_002
    assert places(strict) == (0, 4, 1, 0)


def test_an_event_that_had_waited_and_is_rejected_is_refused_with_its_bytes(site: Site) -> None:
    strict = going_on(site)
    strict.land("a.jsonl", order(1, customer_id=77))
    strict.run()
    strict.execute(COPY_CUSTOMER, 77)
    assert strict.run() == 2
    assert places(strict) == (0, 0, 0, 1)
    says(strict, 2, "rejected")
    strict.run()
    (row,) = strict.rows("quarantine").to_pylist()
    assert (row["from_backlog"], b'"order_id": 1' in row["raw"]) == (True, True)
    assert places(strict) == (0, 1, 0, 0)


def test_rejecting_a_batch_that_holds_the_line_lets_it_and_the_next_ones_go_on(site: Site) -> None:
    strict = site.redeclared(add=STRICT)
    strict.land("a.jsonl", order(1), b"{")
    with pytest.raises(AuditFailed):
        strict.run()
    strict.land("b.jsonl", order(2, quantity=1))
    assert not due(strict)
    assert unsettled(strict.steps.report("orders", 1, quiet)) is not None, "somebody has to decide"
    says(strict, 1, "rejected")
    assert due(strict)
    assert strict.run() == 1
    assert unsettled(strict.steps.report("orders", 1, quiet)) is None, "somebody has decided: this run is done"
    assert strict.run() == 2
    assert places(strict) == (1, 2, 0, 0)


def due(site: Site) -> bool:
    """Whether the watcher would start a run."""
    arrival = Arrival(site.pipeline, site.landing, "jsonl", lambda: site.dsn, site.steps.clock() - site.steps.clock())
    return arrival.look(arrival.listing(), site.steps.clock()).due


def test_a_run_says_that_somebody_has_to_decide_and_the_watcher_notices_when_they_have(site: Site) -> None:
    strict = going_on(site)
    strict.land("a.jsonl", order(1))
    with pytest.raises(AuditFailed, match="batch 1 of orders is held"):
        strict.steps.whole("orders", "run", quiet)
    assert strict.record(1).state == "loaded"
    assert not due(strict)
    says(strict, 1, "released")
    assert due(strict)


@pytest.mark.parametrize(
    ("point", "word"),
    [
        ("before events are set aside", "released"),
        ("after events are set aside", "rejected"),
        ("before the decision", "rejected"),
        ("after the decision", "released"),
        ("after fact is published", "released"),
    ],
)
def test_whatever_ends_where_every_event_is_in_one_place(site: Site, point: str, word: str) -> None:
    strict = going_on(site)
    strict.land("a.jsonl", order(1), order(2))
    _until_it_works(strict.ending(point), strict)
    says(strict, 1, word)
    strict.land("b.jsonl", order(3, quantity=1))
    _until_it_works(strict.ending(point), strict)
    assert places(strict) == ((3, 0, 0, 0) if word == "released" else (1, 2, 0, 0))
    assert strict.decide() is None


def _until_it_works(ending: Site, site: Site) -> None:
    try:
        ending.run()
    except Ended:
        site.run()


def test_a_ledger_restored_from_before_puts_held_events_back_as_they_were(site: Site, backup: Backup) -> None:
    strict = going_on(site)
    strict.land("0.jsonl", order(9, quantity=1))
    strict.run()
    restore = backup(strict)
    strict.land("a.jsonl", order(1))
    strict.run()
    strict.land("b.jsonl", order(2, quantity=1))
    strict.run()
    older = restore()
    older.decide()
    assert places(older) == (2, 0, 0, 1)
    says(older, 2, "released")
    older.run()
    assert places(older) == (3, 0, 0, 0)


def test_a_ledger_restored_from_before_puts_held_events_back_whatever_came_after_them(
    site: Site, backup: Backup
) -> None:
    strict = going_on(site)
    strict.land("0.jsonl", order(9, quantity=1))
    strict.run()
    restore = backup(strict)
    strict.land("a.jsonl", order(1))
    strict.run()
    strict.later(timedelta(minutes=5)).decide()
    assert list(strict.landing.iterdir()) == [], "the held line is in the archive, where no batch looks for input"
    older = restore()
    older.decide()
    assert places(older) == (1, 0, 0, 1)
    says(older, 2, "released")
    older.run()
    assert places(older) == (2, 0, 0, 0)


@pytest.mark.parametrize("refused", [(), (b"{",)])
@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("word", ["released", "rejected"])
def test_a_ledger_restored_from_while_a_batch_was_held_knows_what_became_of_it(
    site: Site, backup: Backup, word: str, more: bool, refused: tuple[bytes, ...]
) -> None:
    strict = site.redeclared(add=STRICT)
    strict.land("0.jsonl", order(9, quantity=1))
    strict.run()
    strict.land("a.jsonl", order(1), *refused)
    with pytest.raises(AuditFailed):
        strict.run()
    restore = backup(strict)
    says(strict, 2, word)
    assert strict.run() == 2
    if more:
        strict.land("b.jsonl", order(2, quantity=1))
        assert strict.run() == 3
    older = restore()
    assert older.decide() is None, "nobody is asked once more, and nothing is left to do"
    accepted, lines = word == "released", len(refused)
    if more:
        assert places(older) == ((3, lines, 0, 0) if accepted else (2, lines + 1, 0, 0))
    else:
        assert places(older) == ((2, lines, 0, 0) if accepted else (1, lines, 0, 1))
    older.land("c.jsonl", order(1))
    with contextlib.suppress(AuditFailed):
        older.run()
    assert older.inventory().faults == []


def test_events_that_were_nearly_set_aside_and_then_released_are_facts_after_a_restore(
    site: Site, backup: Backup, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore = backup(site)
    strict = going_on(site)
    strict.land("a.jsonl", order(1))

    def end(*_: object) -> None:
        raise Ended("between the note and the commit")

    with monkeypatch.context() as patch:
        patch.setattr(ledger.Ledger, "set_aside", end)
        with pytest.raises(Ended):
            strict.run()
    waiting = strict.redeclared(('held = "go_on"\n', ""))
    with pytest.raises(AuditFailed):
        waiting.run()
    says(waiting, 1, "released")
    waiting.run()
    older = restore().changed(pipelines=waiting.settings.pipelines)
    older.land("b.jsonl", order(2, quantity=1))
    older.run()
    assert places(older) == (2, 0, 0, 0)


def test_a_batch_that_takes_up_released_events_can_be_set_aside_itself(site: Site) -> None:
    strict = going_on(site)
    strict.land("a.jsonl", order(1), order(2, customer_id=2))
    strict.run()
    says(strict, 1, "released")
    strict.land("b.jsonl", order(3))
    assert strict.run() == 2
    assert places(strict) == (2, 0, 0, 1), "what was released is published, and the batch's own events wait"
    assert strict.execute("select order_id from mart.orders order by 1") == [(1,), (2,)]
    assert strict.execute("select sum(orders) from mart.daily_sales") == [(2,)]
    says(strict, 2, "rejected")
    strict.land("c.jsonl", order(4, quantity=1))
    assert strict.run() == 3
    assert places(strict) == (3, 1, 0, 0)
    assert strict.execute("select sum(orders) from mart.daily_sales") == [(3,)]


@pytest.mark.parametrize("edit", [("grace =", "grace ="), GO_ON])
def test_a_batch_whose_lines_are_gone_is_held_and_can_be_released(site: Site, edit: tuple[str, str]) -> None:
    strict = site.redeclared(edit, add=STRICT)
    file = strict.land("a.jsonl", order(1))
    batch = strict.decide()
    if edit is not GO_ON:
        with pytest.raises(AuditFailed):
            strict.step("audit", batch)
        says(strict, 1, "rejected")
    file.unlink()
    with pytest.raises(EventsNotFound, match="put the files back, or release the batch"):
        strict.run()
    assert (strict.record(1).state, strict.record(1).verdict) == ("held", None)
    assert says(strict, 1, "released")
    assert strict.run() == 1
    assert strict.rows("fact")["order_id"].to_pylist() == [1]
