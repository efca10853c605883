"""Delta's own maintenance on the driver's Spark session: OPTIMIZE and VACUUM."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession


class SparkTables:
    """Tables by their folders."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def optimize(self, folder: Path) -> None:
        self._spark.sql(f"optimize {_table(folder)}").collect()

    def vacuum(self, folder: Path, keep: timedelta) -> None:
        self._spark.sql(f"vacuum {_table(folder)} retain {keep / timedelta(hours=1):.0f} hours").collect()


def _table(folder: Path) -> str:
    return "delta.`" + str(folder).replace("`", "``") + "`"
