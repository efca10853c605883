"""Structured Streaming's stream-stream join, for equalities.

State is in RocksDB with changelog checkpoints; the watermark of both streams lets state leave. There are as many state
partitions as cores, rows of state are not counted, and no batch without data runs (what leaves does so with the next
batch). Pairs go to a Parquet sink, which is exactly-once and cheaper than Delta.

Format 3 is the newest that Spark 4.2 calls ready; format 4, which finds what leaves by its time, is there behind a
switch "for testing". Both run, and the faster one is what we are compared with.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.biclique.peers.contender import parquet
from bench.biclique.peers.data import WINDOW_S, Kind, Step
from bench.biclique.peers.session import spark_session

_STATE = "spark.sql.streaming.stateStore"
SETTINGS = {
    f"{_STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STATE}.rocksdb.trackTotalNumberOfRows": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.metricsEnabled": "false",
}
FORMATS = {
    3: {"spark.sql.streaming.join.stateFormatVersion": "3"},
    4: {"spark.sql.streaming.join.stateFormatVersion": "4", "spark.sql.streaming.join.stateFormatV4.enabled": "true"},
}
_FIELDS = "id bigint, k bigint, v bigint, note string, t timestamp"


class SparkJoin:
    def __init__(self, kind: Kind, home: Path, state_format: int = 3) -> None:
        assert kind == "equality", "Spark joins two streams on equalities only"
        self._home, self._results = home, home / "pairs"
        self._spark = spark_session(home, SETTINGS | FORMATS[state_format])
        r, s = (self._stream(side) for side in ("r", "s"))
        within = F.expr(f"r.t between s.t - interval {WINDOW_S} seconds and s.t + interval {WINDOW_S} seconds")
        joined = r.alias("r").join(s.alias("s"), (F.col("r.k") == F.col("s.k")) & within)
        names = [(side, name) for name in ("id", "note") for side in ("r", "s")]
        picked = joined.select(*(F.col(f"{side}.{name}").alias(f"{side}_{name}") for side, name in names))
        self._query = (
            picked.writeStream.format("parquet")
            .option("path", str(self._results))
            .option("checkpointLocation", str(home / "checkpoint"))
            .trigger(processingTime="0 seconds")
            .start()
        )

    def _stream(self, side: str) -> DataFrame:
        folder = self._home / "landing" / side
        folder.mkdir(parents=True)
        return self._spark.readStream.schema(_FIELDS).parquet(str(folder)).withWatermark("t", "0 seconds")

    def run(self, step: Step) -> None:
        # Both files appear before the query looks: a micro-batch takes what it finds.
        for side, file in step.files.items():
            os.link(file, self._home / "landing" / side / f".{step.name}.parquet")
        for side in step.files:
            landed = self._home / "landing" / side / f"{step.name}.parquet"
            landed.with_name(f".{landed.name}").rename(landed)
        self._query.processAllAvailable()

    def pairs(self) -> Iterable[pa.Table]:
        return parquet(self._results)

    def batches(self) -> int:
        """Micro-batches that had data."""
        return sum(1 for one in self._query.recentProgress if one["numInputRows"])

    def close(self) -> None:
        self._query.stop()
        self._spark.stop()


class SparkJoinV4(SparkJoin):
    def __init__(self, kind: Kind, home: Path) -> None:
        super().__init__(kind, home, state_format=4)
