"""The same queries as N separate Spark joins over the same micro-batches: what people run today, at its best.

One application, full JIT, adaptive planning; a micro-batch's inputs are read once and cached for all queries, small
sides are broadcast, jobs overlap. Every query is what is new in the slot: one branch per stream that is new.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.adhoc.in_process import duck_sql, overall
from bench.adhoc.site import slot_files
from bench.adhoc.workload import STREAMS, QueryShape, make_queries
from bench.biclique.peers.session import spark_session
from bench.measured import progress
from etl.correlate.adhoc.query.model import Query

Row = dict[str, Any]
_WINDOW, _AT_A_TIME, _BATCHES = 3, 4, 3


def measure(home: Path, options: Row) -> Iterator[Row]:
    """Of many queries a sample is run, and the time taken in proportion."""
    rows, data, most = options["rows"], Path(options["data"]), options["most"]
    shape = QueryShape(**options.get("shape", {}))
    spark = spark_session(home, {"spark.sql.autoBroadcastJoinThreshold": str(64 * 2**20)})
    try:
        for count in options["counts"]:
            queries = make_queries(count, shape, 7)
            chosen = queries[:: max(1, count // most)][:most]
            _batch(spark, data, rows, _WINDOW, chosen)  # warm: classes, files, plans
            seconds = [_batch(spark, data, rows, _WINDOW + at, chosen) for at in range(_BATCHES)]
            per_batch = statistics.median(seconds) * count / len(chosen)
            yield {
                "figure": "15", "series": "separate Spark joins", "queries": count, "rows_per_slot": rows,
                "seconds_per_batch": round(per_batch, 4), "measured_queries": len(chosen),
                "overall_tuples_per_s": round(overall(queries, rows) / per_batch, 1),
            }  # fmt: skip
            progress(f"separate Spark joins: {count} queries, {per_batch:.2f} s a micro-batch ({len(chosen)} measured)")
    finally:
        spark.stop()


def _batch(spark: SparkSession, data: Path, rows: int, newest: int, queries: list[Query]) -> float:
    """One micro-batch: the window's slots are cached already, save the newest, which is read with it."""
    names = sorted({stream for query in queries for stream in query.streams})
    older = {name: _read(spark, data, rows, name, range(newest - _WINDOW + 1, newest)).cache() for name in names}
    for table in older.values():
        table.count()
    start = time.perf_counter()
    new = {name: _read(spark, data, rows, name, [newest]).cache() for name in names}
    for name in names:
        older[name].unionByName(new[name]).createOrReplaceTempView(name)
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        list(pool.map(lambda query: spark.sql(duck_sql(query, newest)).collect(), queries))
    spent = time.perf_counter() - start
    for table in (*older.values(), *new.values()):
        table.unpersist()
    return spent


def _read(spark: SparkSession, data: Path, rows: int, name: str, slots: Any) -> DataFrame:
    assert name in STREAMS, "queries read streams of the workload"
    parts = [
        spark.read.parquet(str(slot_files(data, slot, rows)[name])).withColumn("slot", F.lit(slot)) for slot in slots
    ]
    found = parts[0]
    for part in parts[1:]:
        found = found.unionByName(part)
    return found
