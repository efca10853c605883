"""More events than a batch can serve in time: the dearest wait, none is lost, and all come back."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from etl.adapters import ledger
from etl.pipeline.input.deadline import first_control
from tests.support.site import Ended, Site, order

ORDERS = 400
DEADLINE = ('deadline = "30s"', 'deadline = "2s"')


def busy(site: Site, *, lookup_s: float, shedding: str = "consider") -> Site:
    """The site after a first batch, its ledger rewritten: every lookup took so long."""
    told = site.redeclared(DEADLINE, ("grace =", f'shedding = "{shedding}"\ngrace ='))
    small = told.changed(tactic="cinlj")
    small.land("first.jsonl", *[order(number, customer_id=1, product_id=1) for number in range(900, 1000)])
    small.run()
    many = 10_000
    seconds = {"ingest": 0.01 + 2 * many * lookup_s}
    counted = {"tasks": 1, "tuples": many, "shed": 0, "pages": 0, "lookups": many, "seconds": many * lookup_s}
    small.execute(
        "update etl.batch set seconds = %s, joins = %s",
        json.dumps(seconds),
        json.dumps({"customer": counted, "product": counted}),
    )
    return small


def land_many(site: Site) -> None:
    """Half of the orders are of one customer, the others of as many customers as there are."""
    hot = [order(number, customer_id=1, product_id=1) for number in range(1, ORDERS // 2 + 1)]
    cold = [
        order(number, customer_id=2 + number % 9, product_id=1 + number % 5)
        for number in range(ORDERS // 2 + 1, ORDERS)
    ]
    site.land("wave.jsonl", *hot, *cold, order(ORDERS, customer_id=2))


def control(site: Site, batch: int) -> dict[str, Any]:
    found = site.record(batch).control
    assert found is not None
    return found


def test_a_first_batch_takes_what_usual_costs_say_fits_and_the_rest_stays_landed(site: Site) -> None:
    hasty = site.redeclared(('deadline = "30s"', 'deadline = "1s"'))
    path = hasty.land("a.jsonl", *[order(number, note="x" * 60_000) for number in range(1, 201)])
    hasty.run()
    told, counts = control(hasty, 1), hasty.record(1).counts
    landed = path.stat().st_size
    assert told["take_bytes"] == first_control(landed, 0, timedelta(seconds=1), "consider", "jsonl").take_bytes
    assert told["taken_bytes"] == pytest.approx(told["take_bytes"], abs=100_000)
    assert told["waiting"] == landed // 200
    assert 0 < counts.lines < 200
    assert (counts.shed, counts.accepted) == (0, counts.lines)
    while hasty.run() is not None:
        pass
    assert hasty.totals()["fact"] == 200
    assert hasty.inventory().faults == []


def test_shed_events_come_back_while_a_large_file_is_still_being_written(site: Site) -> None:
    hasty = site.redeclared(('deadline = "30s"', 'deadline = "1s"'))
    small = hasty.changed(task_lookups=1, tactic="inlj")
    small.land("a.jsonl", *[order(number, customer_id=number, product_id=1) for number in range(1, 11)])
    small.run()
    assert small.totals()["backlog_open"] > 0
    (small.landing / "b.jsonl").write_bytes(b" " * 5_000_000)
    fixed: list[int] = []

    def fix() -> None:
        fixed.append(1)
        assert len(fixed) < 4, "batches of nothing, one after the other"

    assert hasty.meanwhile("before input is fixed", fix).run() is not None
    assert hasty.totals()["backlog_open"] == 0


def test_under_overload_what_many_wait_for_is_served_and_the_rest_is_shed(site: Site) -> None:
    crowded = busy(site, lookup_s=0.5)
    land_many(crowded)
    batch = crowded.run() or 0
    told, counts = control(crowded, batch), crowded.record(batch).counts
    assert told["overloaded"]
    assert told["budgets"]["customer"]["lookups"] <= 2
    assert counts.lines == ORDERS, "to consider an order is cheap"
    assert counts.accepted >= ORDERS // 2, "the customer of half of the orders is looked up, or known"
    assert counts.shed == counts.backlog_added > 0
    assert crowded.inventory().faults == []


def test_what_was_shed_comes_back_when_reading_is_cheap_again(site: Site) -> None:
    crowded = busy(site, lookup_s=0.5)
    land_many(crowded)
    crowded.run()
    assert crowded.totals()["backlog_open"] > 0
    crowded.execute("update etl.batch set joins = '{}', seconds = '{\"ingest\": 0.01}'")
    while crowded.run() is not None:
        pass
    totals = crowded.totals()
    assert (totals["fact"], totals["backlog_open"]) == (ORDERS + 100, 0)
    assert crowded.inventory().faults == []


def test_keep_serves_the_first_orders_and_sheds_the_others_unseen(site: Site) -> None:
    crowded = busy(site, lookup_s=0.01, shedding="keep")
    land_many(crowded)
    batch = crowded.run() or 0
    told, counts = control(crowded, batch), crowded.record(batch).counts
    assert told["overloaded"]
    assert counts.accepted == told["first"]
    assert counts.shed == counts.lines - told["first"] > 0


def test_without_shedding_a_batch_takes_as_long_as_it_takes(site: Site) -> None:
    crowded = busy(site, lookup_s=0.5, shedding="none")
    land_many(crowded)
    batch = crowded.run() or 0
    assert crowded.record(batch).counts.accepted == ORDERS
    assert control(crowded, batch)["budgets"] == {}


def test_between_one_and_two_batches_worth_the_rest_stays_landed(site: Site) -> None:
    crowded = busy(site, lookup_s=0.005)  # about 300 orders in time
    land_many(crowded)
    batch = crowded.run() or 0
    told, counts = control(crowded, batch), crowded.record(batch).counts
    assert not told["overloaded"]
    assert 0 < counts.lines < ORDERS
    assert counts.shed == 0
    while crowded.run() is not None:
        pass
    assert crowded.totals()["fact"] == ORDERS + 100


@pytest.mark.parametrize("point", ["after input is fixed", "before the decision"])
def test_a_second_try_does_what_the_first_was_allowed_to(site: Site, point: str) -> None:
    crowded = busy(site, lookup_s=0.5)
    land_many(crowded)

    def end(name: str) -> None:
        if name == point:
            raise Ended(name)

    with pytest.raises(Ended):
        replace(crowded, steps=replace(crowded.steps, checkpoint=end)).run()
    crowded.execute("update etl.batch set joins = '{}' where state = 'loaded'")  # nothing is dear by now
    batch = crowded.run() or 0
    assert control(crowded, batch)["overloaded"], "what was fixed before counts"
    assert crowded.record(batch).counts.shed > 0


def waiting(site: Site) -> list[tuple[str, int, str, Any]]:
    """Files of the backlog, in the order in which they come back, with the batch and the time since when."""
    with ledger.reading(site.dsn, site.pipeline) as book:
        return [(file.path, file.batch, file.cause, file.since) for file in book.backlog_files()]


def test_what_is_shed_again_keeps_its_age_and_its_place_before_what_is_shed_later(site: Site) -> None:
    small = site.changed(task_lookups=1, tactic="inlj")
    small.land("a.jsonl", *[order(number, customer_id=number, product_id=1) for number in range(1, 11)])
    small.run()
    (first,) = waiting(small)
    small.later(timedelta(hours=1)).run()
    assert small.record(2).decided.deferred == {first[0]: 8}, "one was served, the others are shed again"
    assert waiting(small) == [first]
    small.land("b.jsonl", *[order(number, customer_id=number - 10, product_id=1) for number in range(11, 21)])
    small.later(timedelta(hours=2)).run()
    assert waiting(small)[0] == first
    assert [batch for _, batch, *_ in waiting(small)] == [1, 3]


@pytest.mark.parametrize(("rule", "served"), [("best_first", 5), ("position", 1)])
def test_a_setting_says_for_whom_a_batch_reads_that_may_not_read_for_all(site: Site, rule: str, served: int) -> None:
    small = site.changed(task_lookups=1, tactic="inlj", read_rule=rule)
    most = [order(number, customer_id=1, product_id=1) for number in range(1, 6)]
    small.land("a.jsonl", *most, *[order(number, customer_id=number, product_id=1) for number in range(6, 11)])
    batch = small.run() or 0
    assert small.record(batch).counts.accepted == served, "the paper's place is among the newest, which share no key"
