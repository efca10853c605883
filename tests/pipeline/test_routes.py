"""Where every line ends: in the fact table, in quarantine, in the backlog, or counted as a duplicate."""

from __future__ import annotations

import builtins
import io
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from etl.adapters import postgres
from etl.model import LinesDoNotAddUp
from etl.pipeline.tasks import wire
from etl.pipeline.tasks.in_process import InProcess
from etl.pipeline.tasks.plan import BatchPlan
from etl.pipeline.tasks.route import route
from etl.pipeline.tasks.wire import Message
from etl.samples import OrderConfig, arrive_late_customers, generate_orders
from tests.support.dirt import DIRT
from tests.support.site import COPY_CUSTOMER, Site, order, quiet


def test_every_kind_of_dirt_ends_in_quarantine_with_its_reason_and_its_bytes(site: Site) -> None:
    site.land("dirt.jsonl", *[line for line, _ in DIRT], b"   ")
    assert site.run() == 1
    refused = site.rows("quarantine").to_pylist()
    assert Counter(row["reasons"][0] for row in refused) == Counter(reason for _, reason in DIRT if reason)
    assert {row["source_file"] for row in refused} == {"dirt.jsonl"}
    assert b'{"order_id": 6, "note": "caf\xe9"}' in {row["raw"] for row in refused}
    assert set(site.rows("fact")["order_id"].to_pylist()) == {1, 2}
    totals = site.totals()
    assert totals["lines"] == len(DIRT), "a blank line is not an order"
    assert totals["lines"] == totals["fact"] + totals["quarantine"]


def test_the_first_payload_wins_within_a_batch_and_across_batches(site: Site) -> None:
    site.land("a.jsonl", order(1), order(1), order(1, quantity=3), order(2, quantity=-1), order(2))
    site.run()
    site.land("b.jsonl", order(1), order(1, quantity=4), order(2), order(3))
    site.run()
    facts = {row["order_id"]: row["quantity"] for row in site.rows("fact").to_pylist()}
    assert facts == {1: 2, 2: 2, 3: 2}, "a refused line claims nothing, so the corrected order 2 came through"
    reasons = Counter(row["reasons"][0] for row in site.rows("quarantine").to_pylist())
    assert reasons == {"conflicting_payload": 2, "quantity_in_range": 1}
    totals = site.totals()
    assert totals["duplicates"] == 3
    assert totals["lines"] == 9 == totals["fact"] + totals["quarantine"] + totals["duplicates"]


def test_an_order_waits_for_its_customer_and_goes_on_when_the_customer_arrives(site: Site) -> None:
    site.land("a.jsonl", order(1, customer_id=11), order(2, product_id=99), order(3))
    assert site.run() == 1
    assert site.totals()["backlog_open"] == 2
    assert site.decide() is None, "masters are unchanged, so nobody is tried again"
    site.execute(COPY_CUSTOMER, 11)
    assert site.run() == 2, "nothing landed, yet a waiting order can go on"
    totals = site.totals()
    assert (totals["fact"], totals["backlog_open"]) == (2, 1)
    assert site.inventory().faults == []
    site.land("b.jsonl", order(1, customer_id=11))
    site.run()
    assert site.totals()["duplicates"] == 1, "an order that waited is still known"


def test_an_order_that_waits_beyond_grace_is_quarantined_and_may_be_sent_again(site: Site) -> None:
    site.land("a.jsonl", order(1, customer_id=11))
    site.run()
    assert site.later(timedelta(days=8)).run() == 2
    (refused,) = site.rows("quarantine").to_pylist()
    assert (refused["reasons"], refused["from_backlog"]) == (["unknown_customer"], True)
    assert site.totals()["backlog_open"] == 0
    site.land("b.jsonl", order(1))
    site.run()
    assert site.totals()["fact"] == 1
    assert site.inventory().faults == []


def test_an_empty_landing_folder_is_a_quick_success(site: Site) -> None:
    said: list[str] = []
    assert site.steps.ingest("orders", "test", said.append)["batch"] is None
    assert "nothing new has landed" in said[-1]


class NoTasks(InProcess):
    """Nobody may ask it for anything."""

    def run(self, plan: BatchPlan) -> list[Message]:
        raise AssertionError("a run without input has no tasks")


def test_a_run_that_finds_nothing_reads_nothing_but_the_ledger(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.land("a.jsonl", order(1), order(2, quantity=-1))
    site.run()
    site.close()  # what learns beside the batch is done
    opened: list[str] = []

    def noted(really: Any) -> Any:
        def opens(path: Any, *how: Any, **more: Any) -> Any:
            opened.append(os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else "")
            return really(path, *how, **more)

        return opens

    def refused(*_: object) -> None:
        raise AssertionError("a run without input opens no table")

    for module in (builtins, io, os):
        monkeypatch.setattr(module, "open", noted(module.open))
    monkeypatch.setattr("etl.adapters.delta.log.DeltaTable", refused)
    monkeypatch.setattr("etl.adapters.delta.append.DeltaTable", refused)
    assert replace(site, steps=replace(site.steps, executor=NoTasks())).decide() is None
    monkeypatch.undo()
    home = str(site.settings.home)
    assert [path for path in opened if path.startswith(home) and not path.endswith("/.writer")] == []


def test_a_batch_of_which_a_line_is_lost_on_the_way_is_not_decided(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(plan: BatchPlan, router: int, messages: Iterable[Message]) -> Iterator[Message]:
        """A router that does not get the first event of every message."""
        return route(plan, router, (_without_the_first(one) if one.kind == "rows" else one for one in messages))

    site.land("a.jsonl", order(1), order(2), order(3))
    with monkeypatch.context() as patched:
        patched.setattr("etl.pipeline.tasks.in_process.route", forgetful)
        with pytest.raises(LinesDoNotAddUp, match="batch 1 of orders has read 3 lines and routed 2"):
            site.run()
    assert site.totals().get("fact", 0) == 0
    assert site.run() == 1
    assert site.totals()["fact"] == 3
    assert site.inventory().faults == []


def _without_the_first(message: Message) -> Message:
    (rows,) = wire.rows_of(message).slice(1).combine_chunks().to_batches()
    return wire.rows_message(rows, message.part)


def test_generated_waves_end_exactly_where_the_generator_says(site: Site) -> None:
    config = OrderConfig(
        customers=10, products=10, late_customers=5, share_duplicates=0.05, share_conflicts=0.02,
        share_malformed=0.03, share_unknown_customers=0.02, share_late_customers=0.05, share_out_of_range=0.05,
    )  # fmt: skip
    start = datetime.now(UTC) - timedelta(minutes=5)
    first, second = generate_orders(site.landing, config, 2, 1500, 500, start)
    site.run()
    with postgres.connect(site.dsn) as connection:
        arrive_late_customers(connection, config)
    assert site.run() == 2
    tally, counted = first + second, site.inventory()
    assert counted.faults == []
    assert (counted.fact, counted.quarantine) == (tally.fact, tally.quarantine)
    assert (counted.backlog_open, counted.duplicates) == (tally.backlog, tally.duplicates)
    assert counted.raw_lines == tally.lines == site.totals()["lines"]
    ((orders, amount),) = site.execute("select count(*), sum(amount) from mart.orders")
    assert site.execute("select sum(orders), sum(amount) from mart.daily_sales") == [(orders, amount)]
    assert orders == tally.fact


def test_a_whole_micro_batch_under_one_lock_gives_what_the_steps_give(site: Site) -> None:
    site.land("a.jsonl", order(1), order(1), order(2, customer_id=99), b"{")
    result = site.steps.whole("orders", "test", quiet)
    assert (result["batch"], result["state"], result["lines"]) == (1, "loaded", 4)
    assert (result["accepted"], result["duplicates"], result["quarantined"], result["backlog_added"]) == (1, 1, 1, 1)
    assert set(site.record(1).seconds) == {"ingest", "audit", "publish"}
    assert site.steps.whole("orders", "test", quiet)["batch"] is None
