"""The join engine inside Spark tasks: one pinned version, one shared front stage, whatever the cluster looks like."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from etl.settings import PROJECT
from etl.spark import enrich as partition
from etl.spark.session import set_arrow_batch_limit
from tests.support.site import Site, order

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(("store", "tactic"), [("pages", "auto"), ("direct", "cinlj"), ("direct", "auto")])
def test_orders_are_enriched_in_spark_tasks_from_pages_and_from_tables_that_may_not_be_copied(
    site: Site, store: str, tactic: str
) -> None:
    here = site.changed(master_store=store, tactic=tactic)
    here.land("a.jsonl", order(1), order(2, customer_id=99))
    batch = here.run() or 0
    found = here.execute("select order_id, customer_name from mart.orders")
    assert found == here.execute("select 1::bigint, name from master.customers where customer_id = 1")
    assert here.record(batch).joins["customer"]["misses_absent"] == 1
    assert here.settings.master_pages.exists() == (store == "pages")


def test_workers_learn_from_each_other_through_the_front_stage(site: Site) -> None:
    for number in (1, 2):
        site.land(f"{number}.jsonl", *[order(10 * number + one, customer_id=1 + one % 3) for one in range(9)])
        site.run()
    assert [site.record(batch).joins["customer"]["front_hits"] for batch in (1, 2)] == [0, 9]


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
        ours.settle("auto", 1.0)
        results.append(ours.hit_ratio("auto"))
print("result " + json.dumps(results))
"""


@pytest.mark.slow
def test_two_executors_share_pages_and_front_stage_on_a_local_cluster(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-c", _ON_A_CLUSTER, str(tmp_path), str(PROJECT / "var" / "jars")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1200, cwd=PROJECT)
    lines = [line for line in done.stdout.splitlines() if line.startswith("result ")]
    assert lines, done.stderr[-3_000:]
    first, cold, second, warm = json.loads(lines[-1].removeprefix("result "))
    matched = sum(number % 6_000 < 5_000 for number in range(20_000))
    assert first == second == [20_000, matched, matched]
    assert cold < 0.3
    assert warm == matched / 20_000, "every master row is in the front stage"


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
