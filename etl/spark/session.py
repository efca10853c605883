"""Start Spark: pinned jars, UTC, Delta, the same Python for driver and workers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from etl.adapters.postgres import secret
from etl.errors import MissingPart
from etl.settings import JARS_REMEDY, MALLOC_ARENAS, Settings

_JIT = {
    "quick": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:NewSize=256m -XX:MaxNewSize=256m "
    "-XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=50 -XX:-ShrinkHeapInSteps",
    "full": "-XX:+UseParallelGC",
}
"""On small batches the optimising compiler takes CPU time for code that runs a few seconds (ADR 16), and a heap that is
not told otherwise grows to its bound whatever is alive in it (ADR 136)."""


_BYTES_AT_A_TIME = "spark.sql.execution.arrow.maxBytesPerBatch"
_FEW_BYTES, _MANY_BYTES = 2**28, "64m"


@contextmanager
def spark_session(settings: Settings, *, app_name: str = "frontstage") -> Iterator[SparkSession]:
    """A Spark session that is stopped at the end."""
    session = start(settings, app_name=app_name)
    try:
        yield session
    finally:
        session.stop()


def start(settings: Settings, *, app_name: str = "frontstage") -> SparkSession:
    """Start Spark by the settings."""
    # Python workers would otherwise be the system's interpreter, without our packages.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1") if settings.spark_master.startswith("local") else None
    os.environ.setdefault("MALLOC_ARENA_MAX", MALLOC_ARENAS)  # of the JVM and its workers
    if _in_one_process(settings):  # its workers inherit our environment; a cluster's do not
        secret.draw_key()
    builder = SparkSession.builder.master(settings.spark_master).appName(app_name)
    for key, value in configuration(settings).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def set_arrow_batch_limit(spark: SparkSession, arrived_bytes: int) -> None:
    """Limit Spark's Arrow batches by rows only, if `arrived_bytes` of input cannot make them too large.

    To bound bytes, Spark adds up the buffers of all columns after every single row, which takes as long as all the rest
    of the way to Python and back. One value switches that off; more than 2 GiB at a time would fail.
    """
    spark.conf.set(_BYTES_AT_A_TIME, str(2**31 - 1) if arrived_bytes < _FEW_BYTES else _MANY_BYTES)


def configuration(settings: Settings) -> dict[str, str]:
    """Spark's configuration, as data."""
    jars = sorted(settings.jars.glob("*.jar"))
    if not jars:
        raise MissingPart(f"no Delta jars in {settings.jars}", JARS_REMEDY)
    scratch = settings.var / "spark"
    jvm = f"-Duser.timezone=UTC -Dderby.system.home={scratch} {_JIT[settings.spark_jit]}"
    return {
        # Spark draws the secret itself, in the JVM (ADR 118). For any other master it would have to be given one, and
        # PySpark puts every setting on a command line: there the configuration of the cluster decides.
        **({"spark.authenticate": "true"} if _in_one_process(settings) else {}),
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.driver.memory": settings.spark_driver_memory,
        "spark.driver.extraJavaOptions": jvm,
        "spark.executor.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(settings.spark_shuffle_partitions),
        # Micro-batches are small, so planning and compiling cost more than the rows do: with both, and with both of the
        # JVM's compilers, a batch takes a tenth more time and a sixth more CPU (ADR 16, `make bench-session`).
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.adaptive.enabled": "false",
        # VACUUM lists a table's folder with this many tasks, by default 10,000: minutes for a few files.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(settings.spark_shuffle_partitions),
        "spark.databricks.delta.snapshotPartitions": str(settings.spark_shuffle_partitions),
        "spark.databricks.delta.merge.repartitionBeforeWrite.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
        "spark.python.daemon.module": "etl.spark.daemon",
        "spark.python.unix.domain.socket.enabled": "true",  # to Python workers and back, past TCP
        "spark.sql.streaming.metricsEnabled": "false",
        # Spark's default, plus Kafka's login options, which contain a password.
        "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|jaas",
        "spark.ui.enabled": "false",
        # What the UI would show is kept all the same, by default of the last thousand jobs: an hour of batches.
        "spark.ui.retainedJobs": "100",
        "spark.ui.retainedStages": "200",
        "spark.ui.retainedTasks": "1000",
        "spark.sql.ui.retainedExecutions": "20",
        "spark.ui.showConsoleProgress": "false",
    }


def _in_one_process(settings: Settings) -> bool:
    """Whether driver and executor are one JVM, as with `local[2]`, but not with `local-cluster[…]`."""
    return settings.spark_master.split("[")[0] == "local"
