"""*Plain*: the script a competent engineer writes on one resident Spark session, tuned as they would tune it.

    read JSON lines, explicit schema, PERMISSIVE ─▶ rules as expressions ─▶ drop duplicates ─▶ join cached masters
    fact appended to Delta ─▶ rejects appended ─▶ COPY to the mart ─▶ Great Expectations checkpoint

It has none of our guarantees: nothing is fixed before it is read, a second try doubles rows, duplicates of earlier
batches are not seen, an order of an unknown customer is rejected for good, of two objects on one line
the second is lost, and a batch that fails its checkpoint has been loaded already. What is parsed and what is joined is
cached, so every line is parsed and joined once. Spark's JSON reader is used rather than `from_json` on lines of text:
it is the usual way, and was no slower (about a tenth less processor time for 50,000 orders, on a busy machine).
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.pipeline import plain_mart
from bench.pipeline.orders import Kinds, without_backlog
from bench.pipeline.plain_checkpoint import Checkpoint
from bench.pipeline.plan import Site, Task

HEAP = "6g"
_FETCH_ROWS = 10_000
_ORDER = (
    "order_id bigint, customer_id bigint, product_id bigint, quantity int, unit_price decimal(18,4), "
    "ordered_at timestamp"
)
_FIELDS = tuple(column.split()[0] for column in _ORDER.split(", "))
_RULES = {
    "order_id_positive": "order_id >= 1",
    "quantity_in_range": "quantity between 1 and 100000",
    "unit_price_in_range": "unit_price between 0 and 10000000",
    "ordered_at_in_range": "ordered_at between timestamp '2000-01-01' and now() + interval 24 hours",
}
MASTERS = {
    "customer": ("customer_id", "name as customer_name", "nation", "region", "market_segment"),
    "product": ("product_id", "name as product_name", "brand", "category"),
}


def configuration(task: Task, cores: int) -> dict[str, str]:
    """Spark for small batches as the manuals advise: adaptive planning and whole-stage code stay on."""
    scratch = f"{task.folder}/spark"
    jvm = f"-Duser.timezone=UTC -Dderby.system.home={scratch} -XX:ReservedCodeCacheSize=512m -XX:+UseParallelGC"
    return {
        "spark.jars": ",".join([*sorted(map(str, Path(task.jars).glob("*.jar"))), task.jdbc["jar"]]),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.driver.memory": HEAP,
        "spark.driver.extraJavaOptions": jvm,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.databricks.delta.snapshotPartitions": str(cores),
        "spark.sql.codegen.cache.maxEntries": "1000",  # by default the checkpoint drives out everything else
        "spark.local.dir": f"{scratch}/local",
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


@dataclass(frozen=True, slots=True)
class PlainSession:
    """Spark, resident."""

    spark: SparkSession
    task: Task

    def open(self, site: Site) -> Plain:
        """A fresh warehouse; masters loaded into Postgres, read over JDBC once, and cached."""
        dsn, folder = self.task.dsns[site.name], Path(self.task.folder) / site.name
        shutil.rmtree(folder, ignore_errors=True)
        plain_mart.prepare(dsn, site.masters)
        masters = {name: cached(self._over_jdbc(site, name), f"{name}_id", self.cores) for name in MASTERS}
        return Plain(self.spark, folder / "tables", dsn, masters, Checkpoint(folder / "data_docs"))

    @property
    def cores(self) -> int:
        return int(self.spark.sparkContext.defaultParallelism)

    def _over_jdbc(self, site: Site, master: str) -> DataFrame:
        split = {"partitionColumn": f"{master}_id", "lowerBound": 1, "upperBound": site.masters, "numPartitions": 2}
        reader = self.spark.read.format("jdbc").options(
            url=self.task.jdbc[site.name], user=self.task.jdbc["user"], password=self.task.jdbc["password"],
            driver="org.postgresql.Driver", dbtable=f"master.{master}s", fetchsize=_FETCH_ROWS, **split,
        )  # fmt: skip
        return reader.load().selectExpr(*MASTERS[master])


def cached(master: DataFrame, key: str, partitions: int) -> DataFrame:
    """A master in memory, laid out so that a join neither moves nor sorts it again."""
    rows = master.repartition(partitions, key).sortWithinPartitions(key).cache()
    rows.count()
    return rows


@dataclass(slots=True)
class Plain:
    """The script and its warehouse."""

    spark: SparkSession
    tables: Path
    dsn: str = field(repr=False)
    masters: dict[str, DataFrame]
    checkpoint: Checkpoint
    _files: list[str] = field(default_factory=list)
    _lines: int = 0
    _batch: int = 0

    def land(self, files: Sequence[Path]) -> None:
        self._files = [str(file) for file in files]
        self._lines += sum(file.read_bytes().count(b"\n") for file in files)

    def run(self, *, checkpoint: bool) -> dict[str, float]:
        self._batch += 1
        parsed = judged(read(self.spark, self._files)).cache()
        joined = enriched(parsed, self.masters).withColumn("batch", F.lit(self._batch)).cache()
        accepted = joined.where("customer_name is not null and product_name is not null")
        try:
            phases = {
                "fact": _seconds(lambda: self._append(accepted.select(*_FIELDS, "amount", "batch"), "fact")),
                "rejects": _seconds(lambda: self._append(rejects(parsed, joined, self._batch), "rejects")),
                "mart": _seconds(lambda: plain_mart.copy(accepted, self.dsn)),
            }
            if checkpoint:
                phases["checkpoint"] = _seconds(lambda: self.checkpoint.run(accepted, self._batch))
            return phases
        finally:
            joined.unpersist()
            parsed.unpersist()

    def _append(self, rows: DataFrame, table: str) -> None:
        rows.write.format("delta").mode("append").save(str(self.tables / table))

    def counts(self) -> Kinds:
        fact, refused = (
            self.spark.read.format("delta").load(str(self.tables / table)) for table in ("fact", "rejects")
        )
        found = {"fact": fact.count(), "rejects": refused.count(), "backlog": 0}
        assert plain_mart.count(self.dsn) == found["fact"], "fact and mart hold different orders"
        return {**found, "duplicates": self._lines - found["fact"] - found["rejects"]}

    def expected(self, kinds: Kinds) -> Kinds:
        return without_backlog(kinds)

    def close(self) -> None:
        for rows in self.masters.values():
            rows.unpersist(blocking=True)


def read(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """Typed orders; `corrupt` is the line itself where it is not one."""
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "corrupt"}
    return spark.read.schema(f"{_ORDER}, corrupt string").options(**options).json(list(files))


def judged(orders: DataFrame) -> DataFrame:
    """The orders, with the first reason why one is refused."""
    complete = " and ".join(f"{name} is not null" for name in _FIELDS)
    checks = {"malformed": "corrupt is null", "incomplete": complete, **_RULES}
    cases = " ".join(f"when not coalesce({rule}, false) then '{reason}'" for reason, rule in checks.items())
    return orders.withColumn("reason", F.expr(f"case {cases} end"))


def enriched(parsed: DataFrame, masters: dict[str, DataFrame]) -> DataFrame:
    """One row per valid order id, with the columns of its masters where they are known."""
    orders = parsed.where("reason is null").select(*_FIELDS).dropDuplicates(["order_id"])
    for name, master in masters.items():
        orders = orders.join(master, f"{name}_id", "left")
    return orders.withColumn("amount", F.expr("cast(quantity * unit_price as decimal(28,4))"))


def rejects(parsed: DataFrame, joined: DataFrame, batch: int) -> DataFrame:
    """Lines that are no valid order, and orders whose masters are unknown, with the reason."""
    invalid = parsed.where("reason is not null")
    unknown = joined.where("customer_name is null or product_name is null").withColumns(
        {"corrupt": F.lit(None).cast("string"), "reason": F.lit("unknown_master")}
    )
    rows = [part.select(*_FIELDS, "corrupt", "reason") for part in (invalid, unknown)]
    return rows[0].unionByName(rows[1]).withColumn("batch", F.lit(batch))


def _seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


@contextmanager
def session(task: Task) -> Iterator[PlainSession]:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[*]").appName("bench-plain")
    for key, value in configuration(task, len(os.sched_getaffinity(0))).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield PlainSession(spark, task)
    finally:
        spark.stop()
