"""What others do today, each as well as Spark lets them.

    spark-jdbc     R read over JDBC for every batch, two key ranges at once, rows fetched by the ten thousand
    spark-delta    R read from Delta for every batch
    spark-cached   all of R held in Spark's memory, in its columnar form
    any-lookup     distinct keys to the driver, `= any` in chunks over two connections, rows broadcast to a hash join

Spark plans the joins itself (broadcast of the orders, or sort and merge), with its default settings: adaptive
planning and whole-stage code on, the JVM's optimising compiler on, a heap that holds R and the join.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import sql
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.data import KEY
from bench.measured import progress
from bench.peers.measure import Memory
from bench.peers.plan import Plan
from etl.adapters import postgres

HEAP = "8g"
_VIEW = "bench_master"
_FETCH_ROWS = 10_000
_LOOKUP_KEYS = 10_000
_NOTHING_HELD = "nothing of R is held between batches; heap_peak_bytes is the heap in use at its peak, garbage included"


@contextmanager
def default_session(plan: Plan) -> Iterator[SparkSession]:
    """Spark as it comes, with Delta, the JDBC driver and enough heap."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    jars = [*sorted(map(str, plan.settings.jars.glob("*.jar"))), *([plan.jdbc.jar] if plan.jdbc else [])]
    scratch = plan.settings.var / "spark"
    settings = {
        "spark.jars": ",".join(jars),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.driver.memory": HEAP,
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC -Dderby.system.home={scratch}",
        "spark.sql.session.timeZone": "UTC",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[*]").appName("bench-peers")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def over_jdbc(spark: SparkSession, plan: Plan) -> DataFrame:
    """R over JDBC, in two partitions by key range."""
    assert plan.jdbc is not None, "Postgres was started for this contender"
    ways = {"url": plan.jdbc.url, "user": plan.jdbc.user, "password": plan.jdbc.password}
    split = {"partitionColumn": KEY, "lowerBound": 1, "upperBound": plan.data.rows, "numPartitions": 2}
    reader = spark.read.format("jdbc").options(**ways, **split, dbtable=plan.data.table, fetchsize=_FETCH_ROWS)
    return reader.option("driver", "org.postgresql.Driver").load()


def in_delta(spark: SparkSession, plan: Plan) -> DataFrame:
    """R in Delta, written by Spark when it is not there yet."""
    path = plan.data.delta
    if not (path / "_delta_log").is_dir():
        progress("writing R to Delta")
        aside = path.with_name("delta.new")
        over_jdbc(spark, plan).write.format("delta").mode("overwrite").save(str(aside))
        aside.rename(path)
    return spark.read.format("delta").load(str(path))


class SparkJoin:
    """R as a DataFrame, joined as Spark plans it."""

    def __init__(self, name: str, spark: SparkSession, plan: Plan) -> None:
        self.name, self._spark = name, spark
        self._master = over_jdbc(spark, plan) if name == "spark-jdbc" else in_delta(spark, plan)
        if name == "spark-cached":
            self._master.createOrReplaceTempView(_VIEW)
            spark.catalog.cacheTable(_VIEW)
            self._master = spark.table(_VIEW)
            self._master.count()
        self._pools = _heap_pools(spark)
        for pool in self._pools:
            pool.resetPeakUsage()

    def join(self, orders: DataFrame) -> DataFrame:
        return orders.join(self._master, KEY)

    def settle(self, batch_s: float) -> None:
        """Spark learns nothing from batch to batch."""

    def memory(self) -> Memory:
        """What of R stays in memory between batches."""
        peak = sum(int(pool.getPeakUsage().getUsed()) for pool in self._pools)
        if self.name != "spark-cached":
            return Memory(0, _NOTHING_HELD, {"heap_peak_bytes": peak})
        held = [info for info in self._spark.sparkContext._jsc.sc().getRDDStorageInfo() if _VIEW in info.name()]
        return Memory(
            sum(int(info.memSize()) for info in held), "R in Spark's storage memory", {"heap_peak_bytes": peak}
        )

    def close(self) -> None:
        if self.name == "spark-cached":
            self._spark.catalog.uncacheTable(_VIEW)


class AnyLookup:
    """Keys to Postgres, rows back."""

    name = "any-lookup"

    def __init__(self, spark: SparkSession, plan: Plan) -> None:
        assert plan.dsn is not None, "Postgres was started for this contender"
        self._spark, self._dsn, self._table = spark, plan.dsn, plan.data.table
        with postgres.connect(self._dsn) as connection, connection.cursor() as cursor:
            cursor.execute(f"select * from {self._table} limit 0")
            self._columns = [column.name for column in cursor.description or []]
            self._schema = postgres.arrow_types(connection, self._table, self._columns)
        self._held = 0

    def join(self, orders: DataFrame) -> DataFrame:
        keys = pc.unique(orders.select(KEY).toArrow().column(0))
        halves = [keys.slice(0, len(keys) // 2), keys.slice(len(keys) // 2)]
        with ThreadPoolExecutor(2) as pool:
            rows = pa.concat_tables([table for part in pool.map(self._lookup, halves) for table in part])
        self._held = max(self._held, rows.nbytes)
        found = self._spark.createDataFrame(rows.combine_chunks())  # an empty chunk would end it early
        return orders.join(F.broadcast(found), KEY)  # faster here than both joins that shuffle

    def _lookup(self, keys: pa.Array) -> list[pa.Table]:
        columns = sql.SQL(", ").join(map(sql.Identifier, self._columns))
        select = sql.SQL("select {} from {} where {} = any").format(
            columns, postgres.identifier(self._table), sql.Identifier(KEY)
        )
        with postgres.connect(self._dsn) as connection:
            chunks = [keys.slice(start, _LOOKUP_KEYS).to_pylist() for start in range(0, len(keys), _LOOKUP_KEYS)]
            queries = [select + sql.SQL("({}::bigint[])").format(sql.Literal(chunk)) for chunk in chunks]
            return [self._schema.empty_table(), *(postgres.copy_out(connection, one, self._schema) for one in queries)]

    def settle(self, batch_s: float) -> None:
        """Nothing is kept."""

    def memory(self) -> Memory:
        return Memory(self._held, "rows of the largest batch, held while it is joined")

    def close(self) -> None:
        """Connections ended with each batch."""


def _heap_pools(spark: SparkSession) -> list[Any]:
    management = spark.sparkContext._jvm.java.lang.management
    pools = management.ManagementFactory.getMemoryPoolMXBeans()
    return [pool for pool in pools if str(pool.getType().name()) == "HEAP"]
