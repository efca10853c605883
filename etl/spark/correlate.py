"""Run a micro-batch of correlations on Spark: one job for all of them, one stage and one Python call per join.

    range(readers) ─ mapInArrow(dispatch) ─┬─ repartitionById(part) ─ mapInArrow(join) ─┬─▶ collect: messages
                                           └──── once per join, and for DISTINCT ───────┘

Spark schedules, shuffles and repeats tasks; messages hold thin Arrow columns, and rows stay in their segments. A batch
that one task reads and joins has no shuffle at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from etl.pipeline.tasks import wire
from etl.pipeline.tasks.wire import Message
from etl.spark.executor import SharedRoot, caught, told_apart
from etl.streams.tasks.dispatch import dispatch
from etl.streams.tasks.join import join
from etl.streams.tasks.plan import BatchPlan

Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class SparkCorrelations:
    """Tasks on the executors of one Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._shared = spark, SharedRoot(spark)

    @property
    def slots(self) -> int:
        return int(self._spark.sparkContext.defaultParallelism)

    def run(self, plan: BatchPlan) -> list[Message]:
        """One job."""
        self._shared.require(plan.places.correlations)
        if plan.places.store.is_local:
            self._shared.require(Path(plan.places.store.root))
        messages = self._spark.range(0, plan.readers, 1, plan.readers)
        if plan.readers == plan.tasks == 1:
            messages = messages.mapInArrow(self.tasks(partial(_all_stages, plan)), wire.SHUFFLED_DDL)
        else:
            messages = messages.mapInArrow(self.tasks(partial(_dispatch, plan)), wire.SHUFFLED_DDL)
            for stage in range(plan.stages):
                shuffled = messages.repartitionById(plan.tasks, "part")
                messages = shuffled.mapInArrow(self.tasks(partial(_join, plan, stage)), wire.SHUFFLED_DDL)
        with told_apart():
            return [Message(row.kind, bytes(row.payload), row.name) for row in messages.collect()]

    def tasks(self, work: Work) -> Work:
        """The workers' function; tests wrap it to inject faults."""
        return work


def _dispatch(plan: BatchPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for reader in batch.column(0).to_pylist():
            yield from _as_batches(partial(dispatch, plan, reader))


def _join(plan: BatchPlan, stage: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    messages = [message for batch in batches for message in wire.from_batch(batch)]
    context = TaskContext.get()
    task = 0 if context is None else context.partitionId()
    yield from _as_batches(lambda: join(plan, stage, task, messages))


def _all_stages(plan: BatchPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:  # one row: the number of the only reader
        yield from _as_batches(partial(one_task, plan))


def one_task(plan: BatchPlan) -> Iterator[Message]:
    """A whole batch in one task."""
    messages: Iterator[Message] = dispatch(plan, 0)
    for stage in range(plan.stages):
        messages = join(plan, stage, 0, list(messages))
    yield from messages


def _as_batches(work: Callable[[], Iterator[Message]]) -> Iterator[pa.RecordBatch]:
    """The messages of a task, one batch each."""
    for message in caught(work):
        yield wire.to_batch([message])
