"""Two Sparks, one after the other, each in a process of its own: a JVM keeps the options it was started with.

    peers   Spark's defaults, 8 GB of heap              one contender after the other, each in all cells; identity too
    ours    the configuration of our pipeline           who only moves rows, then each tactic; `auto` with a smaller R

A JVM goes on compiling for minutes. So neither identity nor `auto` is the first to be measured in its own.

A join of ours lives through all cells of one skew, large batches first: it is measured in the steady state of a
pipeline that has been running, not while its front stage fills.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import replace
from multiprocessing import get_context

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from bench.data import KEY, customers
from bench.measured import progress
from bench.peers.measure import Contender, Expected, Memory, Row, measure
from bench.peers.plan import MEMORY_SHARE, OURS, PEERS, Plan
from etl.spark.session import set_arrow_batch_limit, spark_session

_SENT = 8_192  # rows at a time, as the partition runner sends them

Phase = Callable[[Plan], list[Row]]


def in_own_process(phase: Phase, plan: Plan) -> list[Row]:
    """A phase with a JVM to itself."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(phase, plan).result()


def peers(plan: Plan) -> list[Row]:
    """Everybody else."""
    from bench.peers.spark_peers import AnyLookup, SparkJoin, default_session

    rows: list[Row] = []
    with default_session(plan) as spark:
        expected = Expected(spark, plan.data)
        for name in plan.chosen(PEERS):
            progress(f"{name} gets ready")
            one: Contender = AnyLookup(spark, plan) if name == "any-lookup" else SparkJoin(name, spark, plan)
            with closing(one):
                rows += [measure(spark, plan, one, cell, expected) for cell in _cells(plan)]
        if plan.chosen(("identity",)):
            rows += [measure(spark, plan, Identity(), cell, None) for cell in _cells(plan)]
    return rows


def ours(plan: Plan) -> list[Row]:
    """The transport limit, and every tactic of ours."""
    rows: list[Row] = []
    with spark_session(plan.settings, app_name="bench-ours") as spark:
        set_arrow_batch_limit(spark, 0)  # as the pipeline does for batches of this size
        for mover in MOVERS if plan.chosen(("identity",)) else ():
            rows += [measure(spark, plan, mover(), cell, None) for cell in _cells(plan)]
        for name in plan.chosen(OURS):
            rows += _tactic(spark, plan, name)
    return rows


def growth(plan: Plan) -> list[Row]:
    """`auto` on the smallest batch, with a small R and with R itself."""
    rows: list[Row] = []
    with spark_session(plan.settings, app_name="bench-growth") as spark:
        set_arrow_batch_limit(spark, 0)
        for count in (plan.small_rows, plan.data.rows):
            if count is None:
                continue
            part = replace(plan, data=replace(plan.data, rows=count))
            found = [row for row in _tactic(spark, part, "auto") if row["batch"] == min(plan.batches)]
            rows += [{"rows_in_master": count, **row} for row in found]
    return rows


def _cells(plan: Plan) -> Iterator[tuple[int, float]]:
    for size in sorted(plan.batches, reverse=True):
        for zipf in plan.zipfs:
            yield size, zipf


def _tactic(spark: SparkSession, plan: Plan, name: str) -> list[Row]:
    expected, rows = Expected(spark, plan.data), []
    for zipf in plan.zipfs:
        with closing(OurJoin(spark, plan, name)) as join:
            for size in sorted(plan.batches, reverse=True):
                rows.append(measure(spark, plan, join, (size, zipf), expected))
    return rows


class Identity:
    """Orders to Python and back, untouched: no join behind `mapInArrow` can be faster."""

    name = "identity"

    def join(self, orders: DataFrame) -> DataFrame:
        def untouched(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return batches

        return orders.mapInArrow(untouched, orders.schema)

    def settle(self, batch_s: float) -> None:
        """Nothing was learned."""

    def memory(self) -> Memory:
        return Memory(0, "no join, no memory")

    def close(self) -> None:
        """Nothing was opened."""


class Transport(Identity):
    """Orders to Python, and as many rows as wide as joined ones back, which nobody looked for: moving them, alone."""

    name = "transport"

    def join(self, orders: DataFrame) -> DataFrame:
        rows = customers(np.arange(1, _SENT + 1)).drop_columns([KEY])
        schema = StructType([*orders.schema.fields, StructField("master", from_arrow_schema(rows.schema))])

        def widened(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for start in range(0, batch.num_rows, _SENT):
                    part = batch.slice(start, _SENT)
                    master = rows.slice(0, part.num_rows).to_struct_array()
                    yield pa.RecordBatch.from_arrays([*part.columns, master], [*part.schema.names, "master"])

        return orders.mapInArrow(widened, schema)


class TunedIdentity(Identity):
    """Identity again, where our joins run: their session does without some of what Spark does for every row."""

    name = "identity-tuned"


MOVERS = (TunedIdentity, Transport)
"""Who joins nothing, in the session of our joins."""


class OurJoin:
    """One tactic of ours as a contender, within a tenth of R for all workers together."""

    def __init__(self, spark: SparkSession, plan: Plan, tactic: str) -> None:
        from bench.peers.ours import Ours

        self.name = tactic
        self._ours = Ours(spark, plan.data.pages, KEY, int(plan.data.bytes * MEMORY_SHARE))

    def join(self, orders: DataFrame) -> DataFrame:
        return self._ours.join(orders, self.name)

    def settle(self, batch_s: float) -> None:
        self._ours.settle(self.name, batch_s)

    def memory(self) -> Memory:
        return Memory(self._ours.memory_bytes(self.name), "anonymous memory of the engine, all workers together")

    def close(self) -> None:
        self._ours.close()
