"""Spark as it comes, for peers: full JIT, whole-stage code, adaptive planning, as many partitions as cores."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

HEAP = "6g"


def spark_session(home: Path, extra: dict[str, str]) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    cores = len(os.sched_getaffinity(0))
    own = {
        "spark.driver.memory": HEAP,
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC -Dderby.system.home={home} -XX:+UseParallelGC",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.local.dir": str(home / "local"),
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **extra,
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("bench-biclique")
    for key, value in own.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
