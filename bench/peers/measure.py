"""How a contender is timed: the same batches, the same action, a checked answer, warm-up apart.

cell        (contender, batch size, skew)
warm-up     batches until the contender has worked for some seconds, whoever it is: compilers need time, and so do
            caches; the first batch is joined once more for its checksum
timed       batches seen for the first time, at least as many as asked for, more where they are quick; the median counts
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from bench.data import DataSet, Draw
from bench.measured import median, progress
from bench.peers.plan import Plan
from etl.errors import TerminalError

Row = dict[str, Any]
_WARM_S, _TIMED_S = 10.0, 6.0
_FLAGS = ("master_hit", "shed")  # what our join says beside its rows


@dataclass(frozen=True, slots=True)
class Memory:
    """What a contender holds for R, in words too."""

    bytes: int
    note: str
    more: dict[str, int] = field(default_factory=dict)


class Contender(Protocol):
    """Somebody who can join orders with R."""

    name: str

    def join(self, orders: DataFrame) -> DataFrame:
        """The orders with all columns of their master rows."""
        ...

    def settle(self, batch_s: float) -> None:
        """What happens between batches, after one that took so long; its mean is part of a batch's time."""
        ...

    def memory(self) -> Memory: ...

    def close(self) -> None: ...


class WrongAnswer(TerminalError):
    """A contender whose speed means nothing."""

    def __init__(self, contender: str, draw: str, found: str, expected: str) -> None:
        super().__init__(contender, draw, found, expected)
        self.contender, self.draw, self.found, self.expected = contender, draw, found, expected

    def __str__(self) -> str:
        return f"{self.contender} joined {self.draw} wrongly: {self.found} instead of {self.expected}"


def materialise(frame: DataFrame) -> None:
    """Every column of every row, to nowhere."""
    frame.write.format("noop").mode("overwrite").save()


def checksum(frame: DataFrame) -> str:
    """Rows and a sum over all their values, whatever their order; a master row may be one struct."""
    nested = [field.name for field in frame.schema.fields if isinstance(field.dataType, StructType)]
    frame = frame.select("*", *(f"{name}.*" for name in nested)).drop(*nested, *_FLAGS)
    values = F.xxhash64(*(F.col(name) for name in sorted(frame.columns)))
    one = frame.agg(F.count(F.lit(1)), F.sum(F.pmod(values, F.lit(1 << 31)))).first()
    return f"{one[0]} rows, sum {one[1]}" if one is not None else "nothing"


@contextmanager
def batch(spark: SparkSession, data: DataSet, draw: Draw) -> Iterator[DataFrame]:
    """Orders in Spark's memory, as a micro-batch has them once they are parsed."""
    frame = spark.read.parquet(str(data.orders(draw))).repartition(2).cache()
    frame.count()
    try:
        yield frame
    finally:
        frame.unpersist(blocking=True)


class Expected:
    """What batches must join to; worked out once for each."""

    def __init__(self, spark: SparkSession, data: DataSet) -> None:
        self._spark, self._data = spark, data
        self._known: dict[Draw, str] = {}

    def check(self, contender: Contender, draw: Draw, orders: DataFrame) -> None:
        """Refuses a contender that does not give the rows it should."""
        if draw not in self._known:
            self._known[draw] = checksum(self._spark.read.parquet(str(self._data.expected(draw))))
        found = checksum(contender.join(orders))
        if found != self._known[draw]:
            raise WrongAnswer(contender.name, draw.name, found, self._known[draw])


def seconds_of(
    contender: Contender, orders: DataFrame, action: Callable[[DataFrame], None] = materialise
) -> tuple[float, float]:
    """One timed batch, from orders to joined rows; and what came after it, until the next batch may begin."""
    began = time.perf_counter()
    action(contender.join(orders))
    joined = time.perf_counter()
    contender.settle(joined - began)
    return joined - began, time.perf_counter() - joined


def measure(
    spark: SparkSession, plan: Plan, contender: Contender, cell: tuple[int, float], expected: Expected | None
) -> Row:
    """One cell, a size and a skew. `expected` is None for who only moves rows."""

    def run(draw: Draw) -> tuple[float, float]:
        with batch(spark, plan.data, draw) as orders:
            return seconds_of(contender, orders)

    first, *more = plan.warming(*cell)
    with batch(spark, plan.data, first) as orders:
        warm, _ = seconds_of(contender, orders)
        if expected is not None:
            expected.check(contender, first, orders)
    while more and warm < _WARM_S:
        warm += run(more.pop(0))[0]
    runs: list[float] = []
    between: list[float] = []
    for draw in plan.timed(*cell):
        if len(runs) >= plan.repeats and sum(runs) >= _TIMED_S:
            break
        joined, settled = run(draw)
        runs.append(joined)
        between.append(settled)
    return row_of(contender, first, runs, between)


def row_of(contender: Contender, draw: Draw, runs: Sequence[float], between: Sequence[float]) -> Row:
    """A cell as the result file has it."""
    learning = sum(between) / len(between)  # a mean, because it does not come with every batch
    seconds, memory = median(runs) + learning, contender.memory()
    progress(f"{contender.name:<13}{draw.size:>10,} orders  zipf {draw.zipf:<4g}{seconds:>9.3f} s  {_brief(runs)}")
    return {
        "contender": contender.name,
        "batch": draw.size,
        "zipf": draw.zipf,
        "seconds": seconds,
        "rows_per_s": round(draw.size / seconds),
        "join_s": median(runs),
        "between_s": learning,
        "memory_bytes": memory.bytes,
        "memory_note": memory.note,
        "runs": [round(run, 4) for run in runs],
        **memory.more,
    }


def _brief(runs: Sequence[float]) -> str:
    return f"({min(runs):.3f} … {max(runs):.3f})"
