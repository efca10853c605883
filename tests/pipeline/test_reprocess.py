"""Days are processed again: what was refused or waits is tried with what is declared now, and is in one place."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from etl.adapters import ledger
from etl.errors import Busy
from etl.pipeline.input.arrival import Arrival
from etl.pipeline.process_state import process_state
from etl.pipeline.review.days import Days, NotDays
from etl.pipeline.review.desk import open_desk
from etl.pipeline.review.quarantine import Selection
from etl.pipeline.review.release import Person
from etl.pipeline.review.reprocess import Reprocessed
from etl.pipeline.review.run_form import RunForm
from tests.support.invoke import invoke
from tests.support.site import COPY_CUSTOMER, STRICT, Ended, Site, order, quiet

TODAY = datetime.now(UTC).date()
TODAYS = Days(TODAY - timedelta(days=1), TODAY + timedelta(days=1))
PAST = Days(TODAY - timedelta(days=9), TODAY - timedelta(days=8))
ANN = Person("ann", datetime.now(UTC), "rules are wider")
WIDER = ("max = 100_000", "max = 1_000_000")


def asked(site: Site, days: Days = TODAYS) -> Reprocessed:
    with open_desk(site.settings, site.dsn, site.pipeline) as desk:
        return desk.reprocess(days, ANN)


def places(site: Site) -> tuple[int, int, int]:
    counted = site.inventory()
    assert counted.faults == []
    return counted.fact, counted.quarantine, counted.backlog_open


def settled(site: Site) -> Site:
    """The site after as many batches as it takes: on a busy machine one takes in less."""
    while site.run() is not None:
        pass
    return site


def due(site: Site) -> bool:
    """Whether the watcher would start a run."""
    arrival = Arrival(site.pipeline, site.landing, "jsonl", lambda: site.dsn, timedelta(days=7))
    return arrival.look(arrival.listing(), site.steps.clock()).due


def first_batch(site: Site) -> Site:
    """Batch 1: one accepted, one out of range, one that is no JSON, one that waits."""
    site.land("a.jsonl", order(1), order(2, quantity=500_000), b"{", order(3, customer_id=77))
    assert site.run() == 1
    assert places(site) == (1, 2, 1)
    return site


def test_lines_refused_on_these_days_are_tried_with_todays_rules(site: Site) -> None:
    wide = first_batch(site).redeclared(WIDER)
    assert asked(wide, PAST).lines == 0, "on other days"
    assert not due(wide)
    done = asked(wide)
    assert (done.lines, done.waiting, done.impossible) == (2, 1, 0)
    assert due(wide)
    assert places(settled(wide)) == (2, 3, 1), "one is accepted now, the other one is refused once more"
    assert sorted(wide.rows("fact")["order_id"].to_pylist()) == [1, 2]
    assert wide.execute("select sum(orders) from mart.daily_sales") == [(2,)]


def test_asking_twice_does_not_bring_a_line_back_twice(site: Site) -> None:
    wide = first_batch(site).redeclared(WIDER)
    assert [asked(wide).lines, asked(wide).lines] == [2, 0]
    assert places(settled(wide)) == (2, 3, 1)


def test_what_waits_is_looked_up_again_whatever_is_known_of_the_masters(site: Site) -> None:
    first_batch(site)
    with site.writing() as run, run.engine.pinned("test", run.clock(), quiet) as masters:
        assert run._waiting(masters, run.clock()) == (), "nothing has changed, so nobody looks"
        assert run.ledger.retry_waiting(TODAYS.begin, TODAYS.end, run.writer.epoch) == (1, 0)
        assert [file.waiting for file in run._waiting(masters, run.clock())] == [1]
    assert due(site)
    assert site.run() == 2, "a batch of its own"
    assert places(site) == (1, 2, 1), "its row has not come"
    assert not due(site), "once was asked for"


def test_a_row_that_came_unseen_is_found(site: Site) -> None:
    first_batch(site)
    site.execute(COPY_CUSTOMER, 77)
    assert asked(site).waiting == 1
    process_state().decided.clear()
    fact, _, waiting = places(settled(site))
    assert (fact, waiting) == (2, 0)


def test_what_a_person_rejected_stays_out(site: Site) -> None:
    strict = site.redeclared(("grace =", 'held = "go_on"\ngrace ='), add=STRICT)
    strict.land("a.jsonl", order(1), order(2, quantity=500_000))
    assert strict.run() == 1
    with strict.writing() as run:
        run.ledger.judge(1, {"word": "rejected", "by": "ann", "at": "2026-11-18T00:00:00Z", "note": "why"})
    assert strict.run() == 2
    with open_desk(strict.settings, strict.dsn, "orders") as desk:
        desk.reject(Selection(reason="quantity_in_range"), replace(ANN, note="wrong"))
    assert asked(strict).lines == 0, "one was rejected with its batch, the other one by itself"


def test_a_run_with_the_form_asks_and_reads_at_once_and_its_retry_adds_nothing(site: Site) -> None:
    wide = first_batch(site).redeclared(WIDER)
    form = RunForm(reprocess=TODAYS)
    again = replace(wide, steps=wide.steps.asked(RunForm.model_validate(form.model_dump(mode="json"))))
    assert again.run() == 2
    assert places(settled(wide)) == (2, 3, 1)
    assert again.run() is not None, "what was refused anew was refused today: it is tried once more"
    assert places(settled(wide))[0] == 2


@pytest.mark.parametrize("point", ["after events are marked", "after the release is decided"])
def test_a_process_that_ends_in_the_middle_loses_nothing(site: Site, point: str) -> None:
    wide = first_batch(site).redeclared(WIDER)

    def end(at: str) -> None:
        if at == point:
            raise Ended(at)

    with pytest.raises(Ended), open_desk(wide.settings, wide.dsn, "orders", end) as desk:
        desk.reprocess(TODAYS, ANN)
    asked(wide)
    assert places(settled(wide)) == (2, 3, 1)


def test_while_a_batch_is_under_way_nothing_is_asked(site: Site) -> None:
    first_batch(site)
    with open_desk(site.settings, site.dsn, "orders") as desk, site.writing(), pytest.raises(Busy):
        desk.reprocess(TODAYS, ANN, patience_s=0)
    with ledger.reading(site.dsn, "orders") as book:
        assert not any(file.retry for file in book.backlog_files())
    assert asked(site).lines == 2


def test_reprocessing_beside_the_live_schedule_never_races_it(site: Site) -> None:
    """Batches run as fast as they can while somebody asks again and again: every event is in one place."""
    wide = first_batch(site).redeclared(WIDER)
    done = threading.Event()
    faults: list[BaseException] = []

    def ask() -> None:
        try:
            while not done.is_set():
                asked(wide)
        except BaseException as error:
            faults.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    landed = 0
    try:
        for number in range(10, 16):
            wide.land(f"{number}.jsonl", order(number), order(number + 100, quantity=5_000_000))
            while True:
                try:
                    if wide.steps.whole("orders", "live", quiet)["batch"] is not None:
                        break
                except Busy:
                    continue
            landed += 1
    finally:
        done.set()
        asking.join()
    assert (faults, landed) == ([], 6)
    fact, _, waiting = places(settled(wide))
    assert (fact, waiting) == (8, 1)


def test_the_command_says_how_much_it_is_and_does_it(told: Site) -> None:
    words = ("reprocess", "orders", "--from", TODAYS.first.isoformat(), "--to", TODAYS.last.isoformat(), "--json")
    expected = {"lines": 1, "impossible": 0, "waiting": 1, "unknown": 0}
    for dry in (("--dry-run",), ()):
        done = invoke(*words, *dry)
        assert done.exception is None, repr(done.exception)
        found = json.loads(done.stdout)
        assert {name: found[name] for name in expected} == expected
    assert json.loads(invoke(*words).stdout)["lines"] == 0
    assert places(settled(told)) == (1, 2, 1)


@pytest.mark.parametrize("days", [("2026-11-03", "2026-11-01"), ("yesterday", None), ("2026-02-30", None)])
def test_what_names_no_days_is_refused_with_a_sentence(days: tuple[str, str | None]) -> None:
    with pytest.raises(NotDays, match="such as 2026-11-01"):
        Days.parse(*days)


def test_one_day_alone_is_that_day() -> None:
    day = Days.parse(None, "2026-11-03")
    assert day is not None
    assert (str(day), day.begin, day.end) == (
        "2026-11-03", datetime(2026, 11, 3, tzinfo=UTC), datetime(2026, 11, 4, tzinfo=UTC),
    )  # fmt: skip
    assert Days.parse(None, None) is None
