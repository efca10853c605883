"""The micro-batch on real Spark, Delta, Postgres and Great Expectations: where every line ends."""

from __future__ import annotations

import shutil
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from etl.adapters import ledger, mart, postgres
from etl.errors import Busy, GateFailed, TerminalError
from etl.samples import OrderConfig, arrive_late_customers, generate_orders
from etl.spark.microbatch import MicroBatch
from tests.support.site import Site, order
from warehouse import star

pytestmark = pytest.mark.spark

TOMORROW = f"{datetime.now(UTC) + timedelta(days=2):%Y-%m-%dT%H:%M:%SZ}"

DIRT: list[tuple[dict[str, Any] | bytes, str | None]] = [
    (order(1), None),
    (order(2, customer_id="3"), None),
    (b'{"order_id": 3', "malformed_json"),
    (b"not json at all <script>alert(1)</script>", "malformed_json"),
    (b"[1, 2]", "malformed_json"),
    (b'{"order_id": 4}{"order_id": 5}', "malformed_json"),
    (b'{"order_id": 6, "note": "caf\xe9"}', "bad_utf8"),
    (b"\x00\xff\xfe", "bad_utf8"),
    (order(25, note="x" * 70_000), "line_too_long"),
    (b"\xff" * 70_000, "line_too_long"),
    ({k: v for k, v in order(7).items() if k != "quantity"}, "quantity_missing"),
    (order(None), "order_id_missing"),
    (order(9, customer_id=None), "customer_id_missing"),
    (order(10, quantity=-1), "quantity_in_range"),
    (order(11, quantity=0), "quantity_in_range"),
    (order(12, quantity=2.5), "quantity_invalid"),
    (order(13, quantity="many"), "quantity_invalid"),
    (order(14, quantity=10**30), "quantity_invalid"),
    (order(15, unit_price=float("nan")), "unit_price_invalid"),
    (b'{"order_id":16,"customer_id":1,"product_id":1,"quantity":1,"unit_price":1e400,"ordered_at":"2026-11-01"}',
     "unit_price_invalid"),
    (order(17, unit_price=-0.01), "unit_price_in_range"),
    (order(18, ordered_at="1819-02-28T00:00:00Z"), "ordered_at_not_too_old"),
    (order(23, ordered_at="0000-01-01T00:00:00Z"), "ordered_at_not_too_old"),
    (order(24, ordered_at="-0001-01-01T00:00:00Z"), "ordered_at_not_too_old"),
    (order(19, ordered_at=TOMORROW), "ordered_at_not_in_future"),
    (order(20, ordered_at="the day before yesterday"), "ordered_at_invalid"),
    (order(-21), "order_id_positive"),
    (order(22, customer_id=10**30), "customer_id_invalid"),
]  # fmt: skip


def dies(*_: object, **__: object) -> None:
    """Stands in for a call in the middle of which everything ends."""
    raise ConnectionError("the server went away")


def test_every_kind_of_dirt_ends_in_quarantine_with_its_reason_and_its_bytes(site: Site) -> None:
    site.land("dirt.jsonl", *[line for line, _ in DIRT], b"   ")
    assert site.run() == "0"
    refused = site.rows(star.QUARANTINE).select("reasons", "raw", "source_file").collect()
    expected = Counter(reason for _, reason in DIRT if reason)
    assert Counter(row.reasons[0] for row in refused) == expected
    assert {row.source_file for row in refused} == {"dirt.jsonl"}
    assert b'{"order_id": 6, "note": "caf\xe9"}' in {bytes(row.raw) for row in refused}
    accepted = {row.order_id for row in site.rows(star.FACT_ORDERS).select("order_id").collect()}
    assert accepted == {1, 2}
    totals = site.totals()
    assert totals["orders_landed"] == len(DIRT), "a blank line is not an order"
    assert totals["orders_landed"] == totals["fact"] + totals["quarantine"]


def test_the_first_payload_wins_within_a_batch_and_across_batches(site: Site) -> None:
    site.land("a.jsonl", order(1), order(1), order(1, quantity=3), order(2, quantity=-1), order(2))
    site.run()
    site.land("b.jsonl", order(1), order(1, quantity=4), order(2), order(3))
    site.run()
    facts = {row.order_id: row.quantity for row in site.rows(star.FACT_ORDERS).collect()}
    assert facts == {1: 2, 2: 2, 3: 2}, "a refused line claims nothing, so the corrected order 2 came through"
    reasons = Counter(row.reasons[0] for row in site.rows(star.QUARANTINE).collect())
    assert reasons == {"conflicting_payload": 2, "quantity_in_range": 1}
    totals = site.totals()
    assert totals["duplicates"] == 3
    assert totals["orders_landed"] == 9 == totals["fact"] + totals["quarantine"] + totals["duplicates"]


def test_an_order_waits_for_its_customer_and_goes_on_when_the_customer_arrives(site: Site) -> None:
    site.land("a.jsonl", order(1, customer_id=11), order(2, product_id=99), order(3))
    assert site.run() == "0"
    assert site.totals()["backlog_open"] == 2
    assert site.decide() is None, "masters are unchanged, so nobody is tried again"
    site.execute(
        "insert into master.customers select 11, name, address, nation, region, market_segment, phone, "
        "account_balance from master.customers where customer_id = 1"
    )
    assert site.run() == "0.1", "nothing landed, yet a waiting order can go on"
    totals = site.totals()
    assert (totals["fact"], totals["backlog_open"]) == (2, 1)
    assert site.steps.count_orders() == {"fact": 2, "quarantine": 0, "backlog_open": 1, "duplicates": 0}
    site.land("b.jsonl", order(1, customer_id=11))
    site.run()
    assert site.totals()["duplicates"] == 1, "an order that waited is still known"


def test_an_order_that_waits_beyond_grace_is_quarantined_and_may_be_sent_again(site: Site) -> None:
    site.land("a.jsonl", order(1, customer_id=11))
    site.run()
    assert site.later(timedelta(days=8)).run() == "0.1"
    assert site.rows(star.QUARANTINE).head().reasons == ["unknown_customer"]
    assert site.totals()["backlog_open"] == 0
    site.land("b.jsonl", order(1))
    site.run()
    assert site.totals()["fact"] == 1


def test_an_empty_landing_folder_is_a_quick_success(site: Site) -> None:
    said: list[str] = []
    assert site.steps.run("ingest_enrich", "test", None, None, said.append)["batch"] is None
    assert "nothing to do" in said[0]


def test_generated_waves_end_exactly_where_the_generator_says(site: Site) -> None:
    config = OrderConfig(
        customers=10, products=10, late_customers=5, share_duplicates=0.05, share_conflicts=0.02,
        share_malformed=0.03, share_unknown_customers=0.02, share_late_customers=0.05, share_out_of_range=0.05,
    )  # fmt: skip
    start = datetime.now(UTC) - timedelta(minutes=5)
    first, second = generate_orders(site.settings.landing, config, 2, 1500, 500, start)
    site.run()
    with postgres.connect(site.dsn) as connection:
        arrive_late_customers(connection, config)
    assert site.run() == "0.1"
    tally = first + second
    counted = site.steps.count_orders()
    assert counted == {
        "fact": tally.fact,
        "quarantine": tally.quarantine,
        "backlog_open": tally.backlog,
        "duplicates": tally.duplicates,
    }
    assert sum(counted.values()) == tally.lines == site.totals()["orders_landed"]
    ((orders, amount),) = site.execute("select count(*), sum(amount) from mart.orders")
    ((of_days, by_days),) = site.execute("select sum(orders), sum(amount) from mart.daily_sales")
    assert (orders, amount) == (of_days, by_days) == (tally.fact, amount)


def test_a_changed_customer_gets_a_second_version_and_old_facts_keep_the_first(site: Site) -> None:
    site.land("a.jsonl", order(1), order(2, customer_id=2))
    site.run()
    site.execute("update master.customers set market_segment = 'SPACE' where customer_id = 1")
    site.land("b.jsonl", order(3))
    site.run()
    site.execute("update master.customers set market_segment = 'SEA' where customer_id = 1")
    site.land("c.jsonl", order(4))
    site.run()
    versions = site.rows(star.DIM_CUSTOMER).where("customer_id = 1").orderBy("valid_from").collect()
    assert [v.market_segment for v in versions[1:]] == ["SPACE", "SEA"]
    assert [v.is_current for v in versions] == [False, False, True]
    assert [v.valid_to for v in versions] == [versions[1].valid_from, versions[2].valid_from, None]
    facts = {row.order_id: row.customer_key for row in site.rows(star.FACT_ORDERS).collect()}
    assert [facts[1], facts[3], facts[4]] == [v.customer_key for v in versions]
    assert site.rows(star.DIM_CUSTOMER).where("customer_id = 2 and is_current").count() == 1


def test_a_run_that_ends_after_the_decision_is_taken_up_without_deciding_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.land("a.jsonl", order(1), order(2))

    with monkeypatch.context() as patch:
        patch.setattr(ledger.Ledger, "staged", dies)
        with pytest.raises(ConnectionError):
            site.decide()
    site.land("b.jsonl", order(3))
    assert site.run() == "0", "the decided batch comes first"
    assert site.run() == "1"
    assert site.rows(star.STAGING).count() == 3
    assert site.totals()["fact"] == 3
    assert {path.name for path in site.settings.archive.rglob("*.jsonl")} == {"a.jsonl", "b.jsonl"}


def test_files_that_land_behind_a_broken_batch_are_a_batch_of_their_own(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.land("a.jsonl", order(1), order(2))

    with monkeypatch.context() as patch:
        patch.setattr(MicroBatch, "_decide", dies)
        with pytest.raises(ConnectionError):
            site.decide()
    site.land("b+c d.jsonl", order(1), order(2, quantity=9), order(3))
    assert site.run() == "0", "Spark repeats the broken batch, and the run ends there"
    assert site.run() == "1"
    assert site.run() is None
    facts = {row.order_id: row.quantity for row in site.rows(star.FACT_ORDERS).collect()}
    assert facts == {1: 2, 2: 2, 3: 2}
    totals = site.totals()
    assert (totals["orders_landed"], totals["duplicates"], totals["quarantine"]) == (5, 1, 1)
    assert {path.name for path in site.settings.archive.rglob("*.jsonl")} == {"a.jsonl", "b+c d.jsonl"}


def test_a_load_that_ends_before_its_transaction_is_repeated_without_doubling(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.land("a.jsonl", order(1), order(2, quantity=-1), order(3, customer_id=77))
    batch = site.decide()
    site.steps.run("validate", "test", batch, None, str)

    with monkeypatch.context() as patch:
        patch.setattr(mart, "commit", dies)
        with pytest.raises(ConnectionError):
            site.steps.run("load", "test", batch, None, str)
    assert site.execute("select count(*) from mart.orders") == [(0,)], "the mart shows a batch whole or not at all"
    assert site.run() == batch
    for table in (star.FACT_ORDERS, star.QUARANTINE, star.BACKLOG):
        assert site.rows(table).count() == 1, f"{table.name} was written once"
    site.steps.run("load", "test", batch, None, str)
    assert site.totals()["fact"] == 1, "loading a loaded batch changes nothing"


def test_a_failed_gate_holds_the_line_until_somebody_releases_the_batch(site: Site) -> None:
    site.land("a.jsonl", order(1))
    batch = site.decide()
    stricter = site.changed(oldest_order="2026-11-10")
    with pytest.raises(GateFailed, match="held"):
        stricter.steps.run("validate", "test", batch, None, str)
    with pytest.raises(TerminalError, match="held"):
        site.steps.run("load", "test", batch, None, str)
    site.land("b.jsonl", order(2))
    assert site.decide() == batch, "nothing overtakes a held batch"
    assert (site.settings.data_docs / "index.html").exists()
    site.steps.run("ingest_enrich", "test", None, batch, str)
    stricter.steps.run("validate", "test", batch, None, str)
    site.steps.run("load", "test", batch, None, str)
    assert site.run() == "1"
    assert site.totals()["fact"] == 2


def test_a_file_under_a_used_name_is_read_and_a_replaced_checkpoint_goes_on_counting(site: Site) -> None:
    site.land("same.jsonl", order(1))
    assert site.run() == "0"
    assert not list(site.settings.landing.glob("*.jsonl")), "a loaded file is archived"
    site.land("same.jsonl", order(2))
    assert site.run() == "1"
    shutil.rmtree(site.settings.warehouse / "checkpoints")
    site.land("other.jsonl", order(1), order(3))
    assert site.run() == "2"
    totals = site.totals()
    assert (totals["fact"], totals["duplicates"]) == (3, 1)


def test_a_second_writer_is_told_who_is_writing(site: Site) -> None:
    with ledger.writing(site.dsn, "somebody else"), pytest.raises(Busy, match="somebody else"):
        site.decide()
    assert site.decide() is None, "the lock is free again"
