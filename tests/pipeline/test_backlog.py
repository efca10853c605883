"""Events that wait, for a master row or for a batch with more room: none in vain, none twice, none forgotten."""

from __future__ import annotations

from datetime import timedelta

import pytest

from etl.pipeline.input.arrival import Arrival, WatchedMaster
from etl.pipeline.prepare import Preparer
from tests.support.site import COPY_CUSTOMER, Site, order


def tight(site: Site) -> Site:
    return site.changed(task_lookups=1, tactic="cinlj")


def test_orders_beyond_a_tasks_share_wait_and_are_joined_by_the_next_batches(site: Site) -> None:
    small = tight(site)
    small.land("a.jsonl", *[order(number, customer_id=number, product_id=1) for number in range(1, 11)])
    batch = small.run() or 0
    totals = small.totals()
    assert totals["lines"] == 10
    assert small.record(batch).counts.shed == totals["backlog_open"] > 0
    assert totals["fact"] + totals["backlog_open"] == 10
    assert site.run() is not None, "there is room now, though nothing has landed"
    assert site.totals()["fact"] == 10
    assert site.totals()["backlog_open"] == 0
    assert site.inventory().faults == []


def test_an_order_that_was_deferred_and_then_found_without_a_customer_waits_quietly(site: Site) -> None:
    small = tight(site)
    small.land("a.jsonl", *[order(number, customer_id=90 + number) for number in range(1, 6)])
    small.run()
    assert site.totals()["backlog_open"] == 5
    assert site.run() is not None, "those that were deferred are tried"
    assert site.decide() is None, "all of them are known to wait for a customer: nothing can go on"
    site.execute(COPY_CUSTOMER, 93)
    assert site.run() is not None
    assert site.totals()["fact"] == 1


def test_an_order_that_waited_for_its_customer_and_was_then_deferred_is_tried_again(site: Site) -> None:
    site.land("a.jsonl", *[order(number, customer_id=10 + number) for number in range(1, 6)])
    site.run()
    for customer in range(11, 16):
        site.execute(COPY_CUSTOMER, customer)
    tight(site).run()
    assert 0 < site.totals()["backlog_open"] <= 5, "there was no room for all of them"
    assert site.run() is not None, "their customers are there: they wait for room only"
    assert site.totals()["fact"] == 5


MEASURE = ('amount = "cast(quantity * unit_price as decimal(28,4))"',
           'amount = "cast(quantity * unit_price as decimal(28,4))"\n'
           'share = "cast(unit_price / customer.account_balance as decimal(28,4))"')  # fmt: skip


def test_an_event_sent_again_after_it_was_refused_does_not_wake_its_first_row_in_the_backlog(site: Site) -> None:
    shares = site.redeclared(MEASURE)
    shares.land("a.jsonl", order(1, customer_id=11), order(2, customer_id=12))
    shares.run()
    shares.execute(COPY_CUSTOMER, 11)
    shares.execute("update master.customers set account_balance = 0 where customer_id = 11")
    shares.run()
    assert shares.rows("quarantine")["reasons"].to_pylist() == [["share_invalid"]]
    shares.land("b.jsonl", order(1, customer_id=13))
    shares.run()
    assert shares.totals()["backlog_open"] == 2, "orders 1 and 2 wait, each once"
    shares.execute(COPY_CUSTOMER, 13)
    shares.run()
    totals = shares.totals()
    assert (totals["fact"], totals["quarantine"], totals["backlog_open"]) == (1, 1, 1)
    assert shares.inventory().faults == []


def test_a_batch_of_nothing_but_the_backlog_reads_no_lines(site: Site) -> None:
    site.land("a.jsonl", order(1, customer_id=11))
    site.run()
    site.execute(COPY_CUSTOMER, 11)
    site.run()
    counts = site.record(2).counts
    assert (counts.lines, counts.accepted, counts.backlog_resolved) == (0, 1, 1)


def test_deferred_events_are_not_given_up_for_having_waited_long(site: Site) -> None:
    small = tight(site)
    small.land("a.jsonl", *[order(number, customer_id=number) for number in range(1, 6)])
    small.run()
    assert site.totals()["backlog_open"] > 0
    tight(site.later(timedelta(days=30))).run()
    assert site.totals()["quarantine"] == 0


def due(site: Site) -> bool:
    """Whether the watcher would start a run."""
    declared = Preparer(site.settings, site.dsn).declared(site.pipeline)
    arrival = Arrival(
        site.pipeline, site.landing, "jsonl", lambda: site.dsn, declared.grace, site.settings.master_pages,
        tuple(WatchedMaster.of(one) for one in declared.masters),
    )  # fmt: skip
    return arrival.look(arrival.listing(), site.steps.clock()).due


def test_events_that_wait_are_left_alone_when_other_master_rows_change(site: Site) -> None:
    site.land("a.jsonl", order(1, customer_id=11), order(2, customer_id=12))
    site.run()
    site.execute(COPY_CUSTOMER, 90)
    site.execute("update master.customers set phone = 'x', updated_at = now() where customer_id = 1")
    assert due(site)
    assert site.decide() is None, "nobody waits for customers 1 and 90"
    assert not due(site), "one look is enough: no run is started for that again"
    site.execute(COPY_CUSTOMER, 12)
    assert due(site)
    assert site.run() == 2
    totals = site.totals()
    assert (totals["fact"], totals["backlog_open"]) == (1, 1)


def test_a_row_that_came_with_a_batch_which_did_not_look_for_it_is_not_missed(site: Site) -> None:
    site.land("a.jsonl", order(1, customer_id=11))
    site.run()
    for number in range(3):
        site.execute(COPY_CUSTOMER, 90 + number)
        site.land(f"b{number}.jsonl", order(10 + number))
        site.run()
    assert site.record(4).decided.deferred == {}, "the event that waits was not tried"
    site.execute(COPY_CUSTOMER, 11)
    site.land("c.jsonl", order(20))
    site.run()
    assert site.totals()["backlog_open"] == 0


def test_another_process_tries_what_waits_once_and_knows_then(site: Site) -> None:
    site.land("a.jsonl", order(1, customer_id=11))
    site.run()
    site.execute(COPY_CUSTOMER, 90)
    again = site.restarted()
    assert again.run() == 2, "what the last decision has seen is not known here"
    assert again.record(2).counts.accepted == 0
    again.execute(COPY_CUSTOMER, 91)
    assert again.decide() is None


def test_everything_that_waits_is_tried_at_the_latest_after_some_batches(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("etl.pipeline.input.waiting.EVERY", 2)
    site.land("a.jsonl", order(1, customer_id=11))
    site.run()
    site.land("b.jsonl", order(2))
    site.run()
    site.land("c.jsonl", order(3))
    site.run()
    assert [sum(site.record(batch).decided.deferred.values(), len(site.record(batch).decided.deferred))
            for batch in (1, 2, 3)] == [0, 0, 1]  # fmt: skip
