"""The Delta tables of the warehouse: made when missing, appended to exactly once per batch.

A retried append carries the same (`txnAppId`, `txnVersion`) and Delta skips it. Batches load in rising order, so the
version is the batch's number.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from delta.tables import DeltaTable as Handle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from etl.errors import Busy
from etl.model import BatchId
from warehouse import star

# dim_date covers what orders may carry, with room on both sides.
_FIRST_DATE, _LAST_DATE = "1990-01-01", "2059-12-31"


class Warehouse:
    """The tables under one root, for one Spark session."""

    def __init__(self, spark: SparkSession, root: Path | str) -> None:
        self.spark, self.root = spark, str(root)

    def path(self, table: star.DeltaTable) -> str:
        """Where a table is."""
        return f"{self.root}/{table.name}"

    def read(self, table: star.DeltaTable) -> DataFrame:
        """All rows of a table."""
        return self.spark.read.format("delta").load(self.path(table))

    def handle(self, table: star.DeltaTable) -> Handle:
        """The table for merges and history."""
        return Handle.forPath(self.spark, self.path(table))

    def create(self) -> None:
        """Make every table that is not there yet."""
        missing = [table for table in star.TABLES if not Handle.isDeltaTable(self.spark, self.path(table))]
        for table in missing:
            builder = Handle.createIfNotExists(self.spark).location(self.path(table))
            builder = builder.addColumns(StructType.fromDDL(table.columns))
            if table.partitioned_by:
                builder = builder.partitionedBy(*table.partitioned_by)
            if not table.statistics:
                builder = builder.property("delta.dataSkippingNumIndexedCols", "0")
            builder.execute()
        # By its transaction, repeating this changes nothing: a start that ended too early is made good.
        if star.DIM_DATE in missing or self.read(star.DIM_DATE).isEmpty():
            self.append(_dates(self.spark), star.DIM_DATE, BatchId(0))

    def append(self, rows: DataFrame, table: star.DeltaTable, batch: BatchId, note: str | None = None) -> None:
        """Append a batch's rows in one commit; the same batch again changes nothing."""
        writer = (
            rows.select(*StructType.fromDDL(table.columns).names)
            .write.format("delta")
            .mode("append")
            .option("txnAppId", f"frontstage/{table.name}")
            .option("txnVersion", str(batch.number))
        )
        if note is not None:
            writer = writer.option("userMetadata", note)
        writer.save(self.path(table))

    def last_staged(self) -> dict[str, Any] | None:
        """The note of the newest staging commit: which batch it was. None before the first."""
        history = self.handle(star.STAGING).history(20).select("userMetadata").collect()
        notes = [json.loads(row.userMetadata) for row in history if row.userMetadata]
        return notes[0] if notes else None


@contextmanager
def only_writer(root: Path) -> Iterator[None]:
    """Hold the file lock beside the tables: Delta on a local file system is not safe for two writing processes."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / ".writer.lock").open("a+") as lock:
        _lock(lock)
        yield


def _lock(lock: IO[str]) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Busy("another process on this machine") from None


def _dates(spark: SparkSession) -> DataFrame:
    days = spark.sql(f"select explode(sequence(date'{_FIRST_DATE}', date'{_LAST_DATE}')) as date")
    return days.selectExpr(
        "cast(date_format(date, 'yyyyMMdd') as int) as date_key",
        "date",
        "year(date) as year",
        "quarter(date) as quarter",
        "month(date) as month",
        "day(date) as day",
        "weekofyear(date) as iso_week",
        "weekday(date) + 1 as weekday",
        "weekday(date) >= 5 as is_weekend",
    )
