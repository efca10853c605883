"""What a user would write: exploded pairs, a self-join on them, and a filter for conflicts. In DuckDB and in Spark SQL.

Both get the pairs as integers in Parquet, so they are spared parsing as the FP-tree join is. A size that takes longer
than the bound is stopped there; its time is then a lower bound. They use all cores, so seconds are of the clock here,
and the FP-tree join is timed once more beside each of them.

At the smallest size they also return their pairs, untimed, which must be FPJ's, each of them. At the others, where they
end in time, the number of pairs must be FPJ's.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.documents import joins
from bench.documents.data import SETS, join_input
from bench.measured import progress
from etl.correlate.documents.joining import fp_join
from etl.correlate.documents.model import Pairs

SIZES = (2_000, 5_000, 50_000)
BOUND_S = 45.0
Row = dict[str, Any]
_SQL = """
with shared as (
    select distinct a.document as earlier, b.document as later
    from pairs a join pairs b on a.attribute = b.attribute and a.value = b.value and a.document < b.document
), conflicting as (
    select distinct s.earlier, s.later
    from shared s
    join pairs a on a.document = s.earlier
    join pairs b on b.document = s.later and b.attribute = a.attribute and b.value <> a.value
), joined as (
    select s.earlier, s.later from shared s
    left join conflicting c on c.earlier = s.earlier and c.later = s.later
    where c.earlier is null
)
"""
_COUNT, _PAIRS = _SQL + "select count(*) as n from joined", _SQL + "select earlier, later from joined"


def measure(scale: int = 1) -> list[Row]:
    """Both engines at every size, divided by `scale`, and whether they find what the FP-tree join finds."""
    sizes = [size // scale for size in SIZES]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        wanted = {}
        for name in SETS:
            for size in sizes:
                documents = join_input(name, size)
                columns = {"document": documents.owners, "attribute": documents.attributes, "value": documents.pairs}
                pq.write_table(pa.table(columns), Path(scratch) / f"{name}-{size}.parquet")
                wanted[name, size] = fp_join.join(documents)
        for method, engine in (("DuckDB", _duckdb), ("Spark SQL", _spark)):
            with engine(Path(scratch)) as query:
                for name in SETS:  # warm-up, too
                    joins.same(wanted[name, sizes[0]], query.pairs(Path(scratch) / f"{name}-{sizes[0]}.parquet"))
                for (name, size), pairs in wanted.items():
                    progress(f"SQL          {name}  {size:,} documents, {method}")
                    ours = _fpj_seconds(name, size)
                    seconds, found = query.count(Path(scratch) / f"{name}-{size}.parquet")
                    ours = max(ours, _fpj_seconds(name, size))
                    if found is not None and found != len(pairs):
                        raise AssertionError(f"{method} finds {found} pairs where FPJ finds {len(pairs)}")
                    rows.append(
                        {"figure": "SQL", "data": name, "method": method, "documents": size, "seconds": seconds,
                         "measured_seconds": seconds, "results": found, "at_least": found is None, "fpj_seconds": ours}
                    )  # fmt: skip
    return rows


def _fpj_seconds(name: str, size: int) -> float:
    documents = join_input(name, size)
    started = time.perf_counter()
    fp_join.join(documents)
    return time.perf_counter() - started


@dataclass(frozen=True)
class Query:
    """The query of an engine on a Parquet file of pairs: its time and count, if it ends in time, and its pairs."""

    count: Callable[[Path], tuple[float, int | None]]
    pairs: Callable[[Path], Pairs]


def _bounded(query: Callable[[], int], stop: Callable[[], object]) -> tuple[float, int | None]:
    """Seconds and the count, or the seconds after which the query was stopped or gave up for want of memory."""
    timer = threading.Timer(BOUND_S, stop)
    timer.start()
    started = time.perf_counter()
    try:
        count = query()
        return time.perf_counter() - started, count
    except Exception as error:
        progress(f"SQL          stopped: {str(error).splitlines()[0][:100]}")
        return time.perf_counter() - started, None
    finally:
        timer.cancel()


@contextmanager
def _duckdb(scratch: Path) -> Iterator[Query]:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("set memory_limit = '6GB'")
        connection.execute("set temp_directory = ?", [str(scratch / "spill")])
        connection.execute("set max_temp_directory_size = '8GB'")

        def load(file: Path) -> None:
            connection.execute("create or replace table pairs as select * from read_parquet(?)", [str(file)])

        def count(file: Path) -> tuple[float, int | None]:
            load(file)
            return _bounded(lambda: int(connection.execute(_COUNT).fetchall()[0][0]), connection.interrupt)

        def pairs(file: Path) -> Pairs:
            load(file)
            found = connection.execute(_PAIRS).fetchnumpy()
            return Pairs(np.asarray(found["earlier"], np.int64), np.asarray(found["later"], np.int64))

        yield Query(count, pairs)


@contextmanager
def _spark(scratch: Path) -> Iterator[Query]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").appName("bench-documents")
    for key, value in {
        "spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "8", "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false", "spark.local.dir": str(scratch / "spark"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }.items():  # fmt: skip
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")

    @contextmanager
    def loaded(file: Path) -> Iterator[None]:
        view = session.read.parquet(str(file)).cache()
        view.count()
        view.createOrReplaceTempView("pairs")
        try:
            yield
        finally:
            view.unpersist()

    def count(file: Path) -> tuple[float, int | None]:
        with loaded(file):
            return _bounded(lambda: int(session.sql(_COUNT).collect()[0][0]), session.sparkContext.cancelAllJobs)

    def pairs(file: Path) -> Pairs:
        with loaded(file):
            found = np.array(session.sql(_PAIRS).collect(), np.int64).reshape(-1, 2)
        return Pairs(found[:, 0], found[:, 1])

    try:
        yield Query(count, pairs)
    finally:
        session.stop()
