"""What one batch did besides taking time: Spark jobs and stages, log entries, bytes on disk, in the WAL, in memory.

Counts are taken before and after a batch, outside of the timed part. Spark numbers its jobs from 0 on, so how many
there were follows from the newest number, however few of them it still remembers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg2
from pyspark.sql import SparkSession

_LISTENER_MS = 30_000


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters at one moment."""

    jobs: int
    log_entries: int
    delta_bytes: int
    wal_bytes: int


@dataclass(frozen=True, slots=True)
class Probe:
    """Counters of one site: its Spark, the folder of its tables, its database server."""

    spark: SparkSession
    tables: Path
    dsn: str

    def read(self) -> Reading:
        entries, size = on_disk(self.tables)
        return Reading(_newest_job(self.spark), entries, size, _wal_bytes(self.dsn))

    def measure(self, work: Callable[[], dict[str, float]]) -> dict[str, Any]:
        """Run one batch, which tells its phases in seconds, and say what it did."""
        before = self.read()
        began = time.perf_counter()
        phases = work()
        seconds = time.perf_counter() - began
        after = self.read()
        jobs = after.jobs - before.jobs
        return {
            "seconds": seconds,
            "phases": phases,
            "spark_jobs": jobs,
            "spark_stages": _stages(self.spark, jobs),
            "log_entries": after.log_entries - before.log_entries,
            "delta_bytes": after.delta_bytes - before.delta_bytes,
            "wal_bytes": after.wal_bytes - before.wal_bytes,
            "driver_bytes": psutil.Process().memory_info().rss,
        }


def _jobs(spark: SparkSession) -> Any:
    """Spark's own list of jobs, the newest first, once it has heard of all that happened."""
    context: Any = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty(_LISTENER_MS)
    return context.statusStore().jobsList(None)


def _newest_job(spark: SparkSession) -> int:
    jobs = _jobs(spark)
    return -1 if jobs.isEmpty() else int(jobs.head().jobId())


def _stages(spark: SparkSession, jobs: int) -> int:
    """Stages that ran for the newest jobs; those that were skipped cost nothing."""
    found = _jobs(spark).take(jobs)
    return sum(int(found.apply(index).numCompletedStages()) for index in range(int(found.size())))


def on_disk(root: Path) -> tuple[int, int]:
    """Entries in the Delta logs below a folder, and bytes of everything there."""
    entries = size = 0
    for folder, _, names in os.walk(root):
        is_log = folder.endswith("_delta_log")
        for name in names:
            entries += is_log and name.endswith(".json")
            size += (Path(folder) / name).stat().st_size
    return entries, size


def _wal_bytes(dsn: str) -> int:
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute("select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint")
        (found,) = cursor.fetchone() or (0,)
    return int(found)
