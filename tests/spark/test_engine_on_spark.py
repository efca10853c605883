"""The join engine inside Spark tasks: one pinned version, one shared front stage, whatever the cluster looks like."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from etl.columnar.errors import KeyTypeMismatch
from etl.enrich.errors import BudgetTooSmall
from etl.masters.front_stage.file import load
from etl.masters.maintenance import publish
from etl.masters.pages.errors import PageDamaged
from etl.masters.postgres.source import PostgresMaster
from etl.settings import PROJECT
from etl.spark import enrich as partition
from etl.spark.session import set_arrow_batch_limit
from tests.support.site import Site, order
from warehouse import contract as contracts
from warehouse import star

pytestmark = pytest.mark.spark


def engine_of(site: Site, batch: str) -> dict[str, dict[str, int]]:
    from etl.adapters import ledger
    from etl.model import BatchId

    with ledger.reading(site.dsn) as book:
        return book.get(BatchId.parse(batch)).engine


def names(site: Site) -> dict[int, str]:
    rows = site.rows(star.STAGING).where("route = 'accepted'").select("order_id", "customer.name").collect()
    return {row.order_id: row.name for row in rows}


def test_the_front_stage_answers_from_the_second_batch_on_and_forgets_what_has_changed(site: Site) -> None:
    site.execute("update master.customers set name = 'first' where customer_id = 1")
    site.land("a.jsonl", *[order(number, customer_id=1 + number % 2) for number in range(1, 9)])
    first = site.decide()
    assert engine_of(site, first or "")["customer"]["front_hits"] == 0, "nothing had been learned yet"
    site.steps.run("validate", "test", first, None, lambda _: None)
    site.steps.run("load", "test", first, None, lambda _: None)
    site.execute("update master.customers set name = 'second' where customer_id = 1")
    site.land("b.jsonl", *[order(number, customer_id=1 + number % 2) for number in range(11, 19)])
    second = engine_of(site, site.decide() or "")["customer"]
    assert second["front_hits"] == 8
    assert second["lookups"] == 0
    assert {names(site)[2], names(site)[12]} == {"first", "second"}, "each batch saw what was committed before it"
    hot, _ = load(site.settings.var / "front-stage" / "customer.front-stage", verify=True)
    assert "second" in hot.rows["name"].to_pylist()


def test_a_repeated_batch_sees_the_master_rows_it_began_with(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from etl.adapters.delta import Warehouse

    site.execute("update master.customers set name = 'as it was' where customer_id = 1")
    site.land("a.jsonl", order(1))
    with monkeypatch.context() as broken:
        broken.setattr(Warehouse, "append", _dies)
        with pytest.raises(ConnectionError):
            site.decide()
    site.execute("update master.customers set name = 'changed meanwhile' where customer_id = 1")
    site.decide()
    assert names(site) == {1: "as it was"}
    assert not list((site.settings.master_pages / "customer" / "pins").iterdir()), "the pin went with the batch"


def test_orders_beyond_a_tasks_share_wait_and_are_joined_by_the_next_batches(site: Site) -> None:
    tight = site.changed(task_lookups=1, tactic="cinlj")
    tight.land("a.jsonl", *[order(number, customer_id=number, product_id=1) for number in range(1, 11)])
    tight.run()
    totals = tight.totals()
    assert totals["orders_landed"] == 10
    assert totals["shed_open"] == totals["backlog_open"] > 0
    assert totals["fact"] + totals["backlog_open"] == 10
    for _ in range(12):
        if not site.totals()["backlog_open"]:
            break
        site.run()
    assert site.totals()["fact"] == 10
    assert site.totals()["backlog_open"] == 0


def _dies(*_: object, **__: object) -> None:
    raise ConnectionError("the server went away")


_ON_A_CLUSTER = """
import json, sys
from pathlib import Path
from etl import settings as configuration
from etl.spark.session import spark_session
from bench.peers.ours import Ours
from tests.support.master_pages import publish, table
from etl.masters.pages.store import PageStore

home = Path(sys.argv[1])
publish(PageStore(home / "master"), table(range(5_000)))
own = configuration.load(var=home / "var", jars=Path(sys.argv[2]), spark_master="local-cluster[2,1,1024]")
with spark_session(own) as spark:
    ours = Ours(spark, home / "master", "id", 4_000_000)
    results = []
    for start in (0, 0):
        orders = spark.range(start, start + 20_000, 1, 4).selectExpr("id % 6000 as id")
        joined = ours.join(orders, "auto")
        rows = joined.selectExpr("count(*)", "count(master.name)", "count_if(master.name = concat('customer ', id))")
        results.append([*rows.head()])
        ours.settle("auto")
        results.append(ours.hit_ratio("auto"))
print("result " + json.dumps(results))
"""


@pytest.mark.slow
def test_two_executors_share_pages_and_front_stage_on_a_local_cluster(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-c", _ON_A_CLUSTER, str(tmp_path), str(PROJECT / "var" / "jars")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, cwd=PROJECT)
    lines = [line for line in done.stdout.splitlines() if line.startswith("result ")]
    assert lines, done.stderr[-3_000:]
    first, cold, second, warm = json.loads(lines[-1].removeprefix("result "))
    matched = sum(number % 6_000 < 5_000 for number in range(20_000))
    assert first == second == [20_000, matched, matched]
    assert cold < 0.3
    assert warm == matched / 20_000, "every master row is in the front stage"


@pytest.mark.parametrize(("store", "tactic"), [("postgres", "cinlj"), ("postgres", "auto"), ("delta", "auto")])
def test_orders_are_enriched_from_tables_that_may_not_be_copied(site: Site, store: str, tactic: str) -> None:
    if store == "delta":
        _into_delta(site, "customers", "customer_id")
        _into_delta(site, "products", "product_id")
    direct = site.changed(master_store=store, tactic=tactic)
    direct.land("a.jsonl", order(1), order(2, customer_id=99))
    first = direct.decide() or ""
    assert names(direct) == dict(direct.execute("select 1, name from master.customers where customer_id = 1"))
    assert engine_of(direct, first)["customer"]["misses_absent"] == 1
    assert not (direct.settings.master_pages).exists(), "nothing is published"


def _into_delta(site: Site, table: str, key: str) -> None:
    with PostgresMaster(site.dsn, f"master.{table}", [key]).snapshot() as snapshot:
        rows = pa.Table.from_batches(snapshot.batches, snapshot.schema)
    write_deltalake(str(site.settings.master_delta / table), rows)


def test_a_damaged_page_is_one_sentence_and_the_batch_goes_on_after_publishing_again(site: Site) -> None:
    site.land("a.jsonl", order(1))
    site.run()
    store = site.settings.master_pages / "customer"
    (run,) = (store / "runs").glob("base-*.arrows")
    broken = bytearray(run.read_bytes())
    broken[len(broken) // 2] ^= 1
    run.write_bytes(broken)
    site.land("b.jsonl", *[order(number, customer_id=number) for number in range(2, 11)])
    with pytest.raises(PageDamaged, match="has a wrong checksum; publish the master again"):
        site.changed(tactic="inlj").decide()
    publish(site.settings, site.dsn, contracts.load().masters[0])
    assert site.run() is not None
    assert site.totals()["fact"] == 10


def test_keys_of_another_kind_than_the_masters_are_refused_before_anything_is_read(site: Site) -> None:
    site.execute("drop table master.customers")
    columns = "name text, address text, nation text, region text, market_segment text, phone text"
    others = "account_balance numeric(12, 2), updated_at timestamptz"
    site.execute(f"create table master.customers (customer_id text primary key, {columns}, {others})")
    site.execute("select master.keep_change_log('master.customers', 'customer_id')")
    site.land("a.jsonl", order(1))
    with pytest.raises(KeyTypeMismatch, match="stream keys of customer are int64, master keys are string"):
        site.decide()


def test_a_budget_too_small_for_a_join_names_what_it_needs(site: Site) -> None:
    site.land("a.jsonl", order(1))
    with pytest.raises(BudgetTooSmall, match=r"bytes are too few for .* raise the budget .FRONTSTAGE_BUDGET_BYTES"):
        site.changed(budget_bytes=2_000, tactic="cmeshjoin").decide()


@pytest.mark.parametrize("size", ["rows", "bytes"])
def test_batches_are_joined_together_up_to_a_size(monkeypatch: pytest.MonkeyPatch, size: str) -> None:
    some = pa.RecordBatch.from_pydict({"raw": [b"x" * 1_000] * 10})
    monkeypatch.setattr(partition, "_JOINED_ROWS", 30 if size == "rows" else 10**9)
    monkeypatch.setattr(partition, "_JOINED_BYTES", 3 * some.nbytes if size == "bytes" else 10**9)
    assert [batch.num_rows for batch in partition._gathered(iter([some] * 7))] == [30, 30, 10]


def test_bytes_are_counted_on_the_way_to_python_only_where_they_may_be_too_many(spark: SparkSession) -> None:
    bound = "spark.sql.execution.arrow.maxBytesPerBatch"
    set_arrow_batch_limit(spark, 2**20)
    assert spark.conf.get(bound).rstrip("b") == str(2**31 - 1)
    set_arrow_batch_limit(spark, 2**30)
    assert spark.conf.get(bound) == "64m"
