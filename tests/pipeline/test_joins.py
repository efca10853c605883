"""The joins inside batches: pinned versions, the front stage they share, stores that may not be copied, damage."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from etl.columnar.errors import KeyTypeMismatch
from etl.contract.errors import PipelineFileError
from etl.errors import FrontstageError, TerminalError
from etl.masters.front_stage.file import load
from etl.masters.postgres.source import PostgresMaster
from etl.masters.upkeep.maintenance import publish
from etl.pipeline.prepare import Preparer
from tests.support.site import Site, order


def names(site: Site) -> dict[int, str]:
    return dict(site.execute("select order_id, customer_name from mart.orders"))


def joins(site: Site, batch: int | None) -> dict[str, Any]:
    assert batch is not None
    return site.record(batch).joins


def test_the_front_stage_answers_from_the_second_batch_on_and_forgets_what_has_changed(site: Site) -> None:
    site.execute("update master.customers set name = 'first' where customer_id = 1")
    site.land("a.jsonl", *[order(number, customer_id=1 + number % 2) for number in range(1, 9)])
    assert joins(site, site.run())["customer"]["front_hits"] == 0, "nothing had been learned yet"
    site.execute("update master.customers set name = 'second' where customer_id = 1")
    site.land("b.jsonl", *[order(number, customer_id=1 + number % 2) for number in range(11, 19)])
    second = joins(site, site.run())["customer"]
    assert (second["front_hits"], second["lookups"]) == (8, 0)
    assert (names(site)[2], names(site)[12]) == ("first", "second"), "each batch saw what was committed before it"
    site.close()
    hot, _ = load(site.settings.var / "front-stage" / "orders" / "customer.front-stage", verify=True)
    assert "second" in hot.rows["name"].to_pylist()


@pytest.mark.parametrize("tactic", ["auto", "inlj", "cinlj", "hybridjoin", "chybridjoin", "meshjoin", "cmeshjoin"])
def test_every_tactic_gives_the_same_answers(site: Site, tactic: str) -> None:
    here = site.changed(tactic=tactic)
    here.land("a.jsonl", *[order(number, customer_id=1 + number % 12) for number in range(1, 60)])
    here.run()
    truth = dict(here.execute("select customer_id, name from master.customers"))
    expected = {number: truth[1 + number % 12] for number in range(1, 60) if 1 + number % 12 <= 10}
    assert names(here) == expected
    used = set(joins(here, 1)["customer"]["tactics"])
    assert len(used) == 1
    assert tactic in (*used, "auto")


@pytest.mark.parametrize("tactic", ["auto", "cinlj"])
def test_orders_are_enriched_from_postgres_without_a_copy(site: Site, tactic: str) -> None:
    direct = site.changed(master_store="direct", tactic=tactic)
    direct.land("a.jsonl", order(1), order(2, customer_id=99))
    batch = direct.run()
    assert names(direct) == dict(direct.execute("select 1, name from master.customers where customer_id = 1"))
    assert joins(direct, batch)["customer"]["misses_absent"] == 1
    assert not direct.settings.master_pages.exists(), "nothing is published"


@pytest.mark.parametrize("store", ["pages", "direct"])
def test_orders_are_enriched_from_delta(site: Site, store: str) -> None:
    for table, key in (("customers", "customer_id"), ("products", "product_id")):
        with PostgresMaster(site.dsn, f"master.{table}", [key]).snapshot() as snapshot:
            rows = pa.Table.from_batches(snapshot.batches, snapshot.schema)
        write_deltalake(str(site.settings.var / "masters" / table), rows)
    moved = ("postgres:master.", "delta:masters/")
    here = site.redeclared(moved).changed(master_store=store)
    here.land("a.jsonl", order(1), order(2, customer_id=99))
    here.run()
    assert names(here) == dict(here.execute("select 1, name from master.customers where customer_id = 1"))
    assert here.rows("dim_customer").num_rows == 10


def test_a_damaged_page_is_one_sentence_and_the_batch_goes_on_after_publishing_again(site: Site) -> None:
    customer = Preparer(site.settings, site.dsn).declared("orders").masters[0]
    publish(site.settings, site.dsn, customer)
    (run,) = (site.settings.master_pages / "postgres.master.customers" / "runs").glob("base-*.arrows")
    broken = bytearray(run.read_bytes())
    broken[len(broken) // 2] ^= 1
    run.write_bytes(broken)
    site.land("a.jsonl", *[order(number, customer_id=number) for number in range(1, 11)])
    with pytest.raises(FrontstageError, match="has a wrong checksum; publish the master again"):
        site.changed(tactic="inlj").decide()
    publish(site.settings, site.dsn, customer)
    assert site.run() is not None
    assert site.totals()["fact"] == 10


def test_keys_of_another_kind_than_the_masters_are_refused_before_anything_is_read(site: Site) -> None:
    site.execute("drop table master.customers")
    columns = "name text, address text, nation text, region text, market_segment text, phone text"
    others = "account_balance numeric(12, 2), updated_at timestamptz"
    site.execute(f"create table master.customers (customer_id text primary key, {columns}, {others})")
    site.execute("select master.keep_change_log('master.customers', 'customer_id')")
    site.land("a.jsonl", order(1))
    with pytest.raises((KeyTypeMismatch, PipelineFileError), match="whole numbers match whole numbers"):
        site.decide()
    assert site.execute("select count(*) from etl.batch") == [(0,)]


def test_a_budget_too_small_for_a_join_names_what_it_needs(site: Site) -> None:
    site.land("a.jsonl", order(1))
    with pytest.raises(TerminalError, match=r"bytes are too few for .* raise the budget .FRONTSTAGE_BUDGET_BYTES"):
        site.changed(budget_bytes=2_000, tactic="cmeshjoin").decide()
