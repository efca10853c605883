"""Run a batch's tasks on Spark: one job, two stages, one Python call each.

    range(readers) ─ mapInArrow(read) ─ repartitionById(part) ─ mapInArrow(route) ─ collect: a handful of messages

Spark schedules, shuffles and repeats tasks; the rows inside the payloads are Arrow from end to end. A batch that one
task reads and one task routes has no shuffle at all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from etl.errors import TerminalError
from etl.pipeline.input.topic_input import Fetch
from etl.pipeline.tasks import wire
from etl.pipeline.tasks.plan import BatchPlan
from etl.pipeline.tasks.read import read
from etl.pipeline.tasks.route import route
from etl.pipeline.tasks.wire import DriverLost, Message, TaskLost
from etl.spark import kafka

_COLUMNS = ["kind", "name", "payload"]


class SparkExecutor:
    """Tasks on the executors of one Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._shared = spark, SharedRoot(spark)

    @property
    def slots(self) -> int:
        return int(self._spark.sparkContext.defaultParallelism)

    def run(self, plan: BatchPlan) -> list[Message]:
        """One job."""
        self._shared.require(plan.places.tables)
        with told_apart():
            return [Message(row.kind, bytes(row.payload), row.name) for row in self._tasks(plan).collect()]

    def fetch(self, wanted: Fetch) -> None:
        """One job."""
        for folder in {one.path.parent for one in wanted.parts}:
            self._shared.require(folder)
        with told_apart():
            kafka.fetch(self._spark, wanted)

    def _tasks(self, plan: BatchPlan) -> DataFrame:
        readers = self._spark.range(0, plan.readers, 1, plan.readers)
        if plan.readers == plan.routers == 1:
            return readers.mapInArrow(partial(_read_and_route, plan), wire.TOLD_DDL)
        rows = readers.mapInArrow(partial(_read, plan), wire.SHUFFLED_DDL)
        return rows.repartitionById(plan.routers, "part").mapInArrow(partial(_route, plan), wire.TOLD_DDL)


class SharedRoot:
    """Checks that executors can access the folders that a batch writes to."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._seen: set[Path] = set()

    def require(self, root: Path) -> None:
        """Raise for a folder that executors cannot access, before anything is written there."""
        context = self._spark.sparkContext
        slots = int(context.defaultParallelism)
        if root in self._seen or context.master.startswith("local["):
            return
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=root, prefix=".seen-", suffix=".probe") as probe:
            asked = self._spark.range(0, slots, 1, slots).mapInArrow(partial(_see, probe.name), "seen boolean")
            if not all(row.seen for row in asked.collect()):
                raise RootNotShared(str(root), context.master)
        self._seen.add(root)


class RootNotShared(TerminalError):
    """Executors cannot access the folder of the tables."""

    exit_code = 78

    def __init__(self, root: str, master: str) -> None:
        super().__init__(root, master)
        self.root, self.master = root, master

    def __str__(self) -> str:
        return (
            f"executors of {self.master} do not see {self.root}; "
            "set FRONTSTAGE_WAREHOUSE to a folder that every host mounts at the same path"
        )


def _see(path: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"seen": [Path(path).exists()] * batch.num_rows})


def _read(plan: BatchPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for reader in batch.column(0).to_pylist():
            for message in caught(partial(read, plan, reader)):
                yield wire.to_batch([message])


def _route(plan: BatchPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    messages = [message for batch in batches for message in wire.from_batch(batch)]
    context = TaskContext.get()
    router = 0 if context is None else context.partitionId()
    results = list(caught(lambda: route(plan, router, messages)))
    yield wire.to_batch(results).select(_COLUMNS)


def _read_and_route(plan: BatchPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:  # one row: the number of the only reader
        results = list(caught(lambda: route(plan, 0, read(plan, 0))))
        yield wire.to_batch(results).select(_COLUMNS)


def caught(work: Callable[[], Iterator[Message]]) -> Iterator[Message]:
    """The messages of a task; an error becomes a message."""
    try:
        yield from work()
    except Exception as error:
        yield wire.error_message(error)


_DIED = ("Python worker exited unexpectedly", "Python worker failed to connect back", "ExecutorLostFailure")


@contextmanager
def told_apart() -> Iterator[None]:
    """Translate Spark's failures: dead workers, a dead driver; other errors are raised unchanged."""
    try:
        yield
    except Exception as error:
        if isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError":
            raise DriverLost(f"Spark's JVM is gone ({type(error).__name__}); start the runner again") from error
        text = str(error)
        died = next((words for words in _DIED if words in text), None)
        if died is None:
            raise
        raise TaskLost(died) from error
