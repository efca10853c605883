"""The same queries as Spark's stream–stream joins: a streaming query each, its state in RocksDB."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.adhoc.in_process import overall
from bench.adhoc.site import SLOT_S, slot_files
from bench.adhoc.workload import ATTRIBUTES, QueryShape, make_queries
from bench.biclique.peers.session import spark_session
from bench.biclique.peers.spark_join import FORMATS, SETTINGS
from bench.measured import progress
from etl.correlate.adhoc.query.model import Query

Row = dict[str, Any]
_FIELDS = ", ".join([*(f"a{n} bigint" for n in range(ATTRIBUTES)), "t timestamp"])
_WARM_UP, _BATCHES = 4, 4


def measure(home: Path, options: Row) -> Iterator[Row]:
    rows, data = options["rows"], Path(options["data"])
    shape = QueryShape(**options.get("shape", {}))
    for count in options["counts"]:
        spark = spark_session(home / str(count), SETTINGS | FORMATS[3])
        queries = make_queries(count, shape, 7)
        running = [_started(spark, home / str(count), one) for one in queries]
        seconds = []
        for slot in range(_WARM_UP + _BATCHES):
            start = time.perf_counter()
            for name, path in slot_files(data, slot, rows).items():
                folder = home / str(count) / "landing" / name
                if folder.exists():
                    os.link(path, folder / path.name)
            for one in running:
                one.processAllAvailable()
            seconds.append(time.perf_counter() - start)
        for one in running:
            one.stop()
        spark.stop()
        per_batch = statistics.median(seconds[_WARM_UP:])
        yield {
            "figure": "15", "series": "Spark stream–stream joins", "queries": count, "rows_per_slot": rows,
            "seconds_per_batch": round(per_batch, 4),
            "overall_tuples_per_s": round(overall(queries, rows) / per_batch, 1),
        }  # fmt: skip
        progress(f"Spark stream–stream joins: {count} queries, {per_batch:.2f} s a micro-batch")


def _started(spark: SparkSession, home: Path, query: Query) -> StreamingQuery:
    """The join on keys and on the distance of event times; slots are compared on what is left."""
    assert len(query.streams) == 2, "the comparison is of two-way joins"
    for name in query.streams:
        folder = home / "landing" / name
        folder.mkdir(parents=True, exist_ok=True)
        stream = spark.readStream.schema(_FIELDS).parquet(str(folder)).withWatermark("t", "0 seconds")
        stream.createOrReplaceTempView(name)
    left, right = query.streams
    reach = f"interval {SLOT_S * query.window} seconds"
    slots = (
        f"abs(floor(unix_seconds({left}.t) / {SLOT_S}) - floor(unix_seconds({right}.t) / {SLOT_S})) < {query.window}"
    )
    near = f"{left}.t between {right}.t - {reach} and {right}.t + {reach} and {slots}"
    pairs = spark.sql(f"{query.sql.replace('count(*)', f'{left}.t as at')} and {near}")
    return (
        pairs.writeStream.foreachBatch(_counted)
        .option("checkpointLocation", str(home / "checkpoint" / query.name))
        .start()
    )


def _counted(batch: DataFrame, _: int) -> None:
    batch.count()
