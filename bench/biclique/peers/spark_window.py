"""What a user writes on Spark when there is no equality: every micro-batch joined with the window's rows.

The window is Parquet files of either stream; a batch reads those that may still be met. The batch's rows are broadcast,
so the window is not shuffled. Bands are joined by bins as wide as the band, the way range joins are done by hand (and
by engines that have them): without bins Spark compares every row with every other.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.biclique.peers.contender import parquet
from bench.biclique.peers.data import CONDITIONS, WINDOW_S, Kind, Step
from bench.biclique.peers.session import spark_session

_WITHIN = f"r.t between s.t - interval {WINDOW_S} seconds and s.t + interval {WINDOW_S} seconds"


class SparkWindow:
    def __init__(self, kind: Kind, home: Path) -> None:
        self._kind, self._results = kind, home / "pairs"
        self._spark = spark_session(home, {"spark.sql.autoBroadcastJoinThreshold": str(256 * 2**20)})
        self._window: list[Step] = []

    def run(self, step: Step) -> None:
        new = {side: self._read([file]) for side, file in step.files.items()}
        parts = [self._joined(new["r"], new["s"], small="r")]
        if self._window:
            old = {side: self._read([one.files[side] for one in self._window]) for side in step.files}
            parts += [self._joined(new["r"], old["s"], small="r"), self._joined(old["r"], new["s"], small="s")]
        pairs = parts[0]
        for part in parts[1:]:
            pairs = pairs.unionByName(part)
        pairs.write.mode("append").parquet(str(self._results))
        horizon = step.end_us - WINDOW_S * 1_000_000
        self._window = [one for one in [*self._window, step] if one.end_us > horizon]

    def _read(self, files: list[Path]) -> DataFrame:
        return self._spark.read.parquet(*map(str, files))

    def _joined(self, r: DataFrame, s: DataFrame, small: str) -> DataFrame:
        tables, large = {"r": r, "s": s}, "s" if small == "r" else "r"
        condition = CONDITIONS[self._kind]
        if self._kind == "band":
            bins = F.explode(F.array(*(F.floor(F.col("v") / 3) + offset for offset in (-1, 0, 1))))
            tables[small] = tables[small].withColumn("bin", bins)
            tables[large] = tables[large].withColumn("bin", F.floor(F.col("v") / 3))
            condition = f"r.bin = s.bin and {condition}"
        tables[small] = F.broadcast(tables[small])
        joined = tables["r"].alias("r").join(tables["s"].alias("s"), F.expr(f"{condition} and {_WITHIN}"))
        return joined.selectExpr("r.id as r_id", "s.id as s_id", "r.note as r_note", "s.note as s_note")

    def pairs(self) -> Iterable[pa.Table]:
        return parquet(self._results)

    def close(self) -> None:
        self._spark.stop()
