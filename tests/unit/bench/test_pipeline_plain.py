"""The plain script of the benchmark on real Spark, Delta and Postgres: fast or not, it has to be right."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psycopg2
import pytest

from bench.pipeline import plain, plain_mart
from bench.pipeline.orders import Orders
from bench.pipeline.plain_checkpoint import Checkpoint, CheckpointFailed
from bench.pipeline.probe import Probe
from etl.samples import customers, products

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CUSTOMERS, SIZE = 1_000, 4_000


@pytest.fixture
def script(spark: SparkSession, database: str, tmp_path: Path) -> plain.Plain:
    plain_mart.prepare(database, CUSTOMERS)
    rows = {
        "customer": customers(plain_mart.SEED, np.arange(1, CUSTOMERS + 1)),
        "product": products(plain_mart.SEED, np.arange(1, plain_mart.PRODUCTS + 1)),
    }
    masters = {
        name: plain.cached(spark.createDataFrame(table).selectExpr(*plain.MASTERS[name]), f"{name}_id", 2)
        for name, table in rows.items()
    }
    return plain.Plain(spark, tmp_path / "tables", database, masters, Checkpoint(tmp_path / "docs"))


def test_the_plain_script_puts_every_line_where_the_generator_says(script: plain.Plain, tmp_path: Path) -> None:
    orders, landed = Orders(tmp_path / "orders", CUSTOMERS), Counter[str]()
    orders.make(SIZE, range(2))
    measured = Probe(script.spark, script.tables, script.dsn)
    for number, checkpoint in enumerate((True, False)):
        batch = orders.batch(SIZE, number)
        script.land(batch.files)
        landed.update(batch.kinds)
        did = measured.measure(lambda checked=checkpoint: script.run(checkpoint=checked))
        assert ("checkpoint" in did["phases"]) is checkpoint
        assert did["log_entries"] == 2
        assert did["spark_stages"] > 0
        assert min(did["spark_jobs"], did["delta_bytes"], did["wal_bytes"]) > 0
    assert landed["glued"] > 0
    assert {"malformed", "out_of_range", "conflict", "duplicate"} <= landed.keys()
    assert script.counts() == script.expected(landed)
    assert list((tmp_path / "docs").rglob("index.html"))
    with psycopg2.connect(script.dsn) as connection, connection.cursor() as cursor:
        cursor.execute(
            "select count(*), count(distinct order_id), sum(amount - quantity * unit_price) from mart.orders"
        )
        assert cursor.fetchone() == (*[landed["clean"] + landed["glued"]] * 2, 0)
    connection.close()
    script.close()


def test_the_checkpoint_fails_on_rows_that_break_a_rule(spark: SparkSession, tmp_path: Path) -> None:
    good = "1L as order_id, 1L as customer_id, 1L as product_id, cast(1 as decimal(18,4)) as unit_price"
    names = "'a' as customer_name, 'b' as product_name, timestamp '2026-11-01' as ordered_at"
    bad = spark.sql(f"select {good}, {names}, 0 as quantity")
    with pytest.raises(CheckpointFailed, match="expect_column_values_to_be_between"):
        Checkpoint(tmp_path / "docs").run(bad, 1)
