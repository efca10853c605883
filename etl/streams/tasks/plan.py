"""The input of the tasks of one micro-batch: fixed by the driver, pickled once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from etl.adapters.landing import Slice
from etl.contract.correlations.correlation import Correlation, LoggedStream
from etl.contract.words.types import TIMESTAMP
from etl.correlate.biclique.routing import BicliqueRouter
from etl.correlate.biclique.scaling import ScalingState
from etl.correlate.model import FIRST
from etl.correlate.watermark import Watermark
from etl.pipeline.tasks.line_choice import ALL_LINES, LineChoice
from etl.settings import Settings
from etl.streams.adhoc.tasks.plan import QueriesPlan
from etl.streams.documents.state import DocumentPlan
from etl.streams.state.routers import router_from_json, router_json
from etl.streams.state.state_files import StateRun
from etl.streams.storage.files import FileStore

RESULTS, LATE, QUARANTINE = "results", "late", "quarantine"
LATE_SCHEMA = pa.schema(
    [
        ("batch", pa.int64()),
        ("source", pa.string()),  # the alias of the query
        ("stream", pa.string()),
        ("event_time", TIMESTAMP),
        ("watermark", TIMESTAMP),
        ("tuple", pa.string()),  # as JSON: streams have different columns
    ]
)


@dataclass(frozen=True, slots=True)
class Places:
    """Where correlations keep what they write. Every task must see these folders."""

    correlations: Path  # a folder of Delta tables each
    streams: Path
    archive: Path
    views: Path  # changes of aggregates, on their way to Postgres
    queries: Path  # a folder of a Delta table per ad-hoc query
    notes: Path  # copies of decisions and of the newest state, beside the data
    store: FileStore

    @classmethod
    def of(cls, settings: Settings, elsewhere: tuple[tuple[str, str], ...] = ()) -> Places:
        root = settings.warehouse / "correlations"
        log = settings.stream_store or str(root / "_log")
        log = log if "://" in log else str(settings.home / log)
        store = FileStore(log, settings.var / "stream-cache", elsewhere)
        streams, queries = settings.warehouse / "streams", settings.warehouse / "queries"
        own = root / "_views", queries, root / "_decisions"
        return cls(root, streams, settings.archive / "streams", *own, store)


@dataclass(frozen=True, slots=True)
class RoutingNote:
    """The routing of a step, and the reason for it."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class CorrelationState:
    """A correlation as of the last decision: everything that the next batch depends on."""

    since: int  # its first batch
    routers: tuple[BicliqueRouter, ...]  # one per step, the innermost first
    routing: tuple[RoutingNote, ...]
    largest: Mapping[str, int] = field(default_factory=dict)  # by alias, the latest event time seen
    scaling: Mapping[str, ScalingState] = field(default_factory=dict)  # by "step side subgroup"
    runs: tuple[StateRun, ...] = ()

    def watermark(self, alias: str, lateness_us: int) -> Watermark:
        return Watermark(lateness_us, self.largest.get(alias, int(FIRST)))

    def by_unit(self) -> dict[tuple[int, int], tuple[StateRun, ...]]:
        """The runs by step and unit."""
        found: dict[tuple[int, int], list[StateRun]] = {}
        for run in self.runs:
            found.setdefault((run.step, run.unit), []).append(run)
        return {key: tuple(runs) for key, runs in found.items()}

    def as_json(self) -> dict[str, Any]:
        """Without the runs, which have rows of their own."""
        return {
            "routers": [router_json(one) for one in self.routers],
            "routing": [{"name": one.name, "reason": one.reason} for one in self.routing],
            "largest": dict(self.largest),
            "scaling": {key: [one.request, one.times] for key, one in self.scaling.items()},
        }

    @classmethod
    def from_json(cls, since: int, value: Mapping[str, Any], runs: tuple[StateRun, ...]) -> CorrelationState:
        return cls(
            since=since,
            routers=tuple(router_from_json(one) for one in value["routers"]),
            routing=tuple(RoutingNote(**one) for one in value["routing"]),
            largest={alias: int(time) for alias, time in value["largest"].items()},
            scaling={key: ScalingState(request, times) for key, (request, times) in value["scaling"].items()},
            runs=runs,
        )


@dataclass(frozen=True, slots=True)
class CorrelationPlan:
    """One correlation in one batch."""

    declared: Correlation
    state: CorrelationState
    stages: int  # joins, and one more for DISTINCT

    @property
    def name(self) -> str:
        return self.declared.name

    @property
    def lateness_us(self) -> int:
        return microseconds(self.declared.lateness)

    @property
    def period_us(self) -> int | None:
        return None if self.declared.period is None else microseconds(self.declared.period)


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """One stream in one batch; `segments` has a number for every reader of it."""

    declared: LoggedStream
    slices: tuple[Slice, ...]
    segments: Mapping[int, int]  # by reader
    in_order: bool = False  # one reader reads all of it: for windows that count tuples

    @property
    def name(self) -> str:
        return self.declared.name


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """One try at one batch."""

    places: Places
    batch: int
    attempt: str  # names the files of this try
    now: datetime
    streams: tuple[StreamPlan, ...]
    correlations: tuple[CorrelationPlan, ...]
    readers: int  # tasks that read: the dispatchers
    tasks: int  # tasks that units share
    documents: tuple[DocumentPlan, ...] = ()
    queries: QueriesPlan | None = None  # ad-hoc queries; None: there are none
    lines: LineChoice = ALL_LINES  # all of them, except poison lines

    @property
    def declared_streams(self) -> tuple[LoggedStream, ...]:
        return tuple(one.declared for one in self.streams)

    @property
    def stages(self) -> int:
        """The number of shuffles."""
        others = int(bool(self.documents) or self.queries is not None)
        return max((*(one.stages for one in self.correlations), others), default=0)

    def share(self, stream: StreamPlan, reader: int) -> tuple[Slice, ...]:
        return tuple(one for one in stream.slices if reader_of(one, self.readers, stream.in_order) == reader)

    def task_of(self, correlation: int, step: int, unit: int) -> int:
        """The task of a unit in this batch."""
        return (unit + step + correlation) % self.tasks

    def part_name(self, kind: str, task: int) -> str:
        """The name of a task's file in a table; `kind` distinguishes reading tasks from others."""
        return f"part-{self.batch:09d}-{self.attempt}-{kind}{task:05d}.parquet"

    def runs_name(self, correlation: str, stage: int, task: int, nonce: str) -> str:
        """The name of a task's file of new runs; names sort by batch."""
        return f"state/{correlation}/{self.batch:09d}-{self.attempt}-{stage}-{task:05d}-{nonce}.runs"

    def documents_name(self, correlation: str, what: str, task: int, nonce: str) -> str:
        """The name of a file of documents or partitions."""
        return f"state/{correlation}/{self.batch:09d}-{self.attempt}-{what}-{task:05d}-{nonce}.arrow"


def reader_of(one: Slice, readers: int, in_order: bool) -> int:
    """The task that reads a slice."""
    return 0 if in_order else one.ordinal % readers


def microseconds(length: Any) -> int:
    """A timedelta in microseconds, exactly."""
    return int(length.days * 86_400_000_000 + length.seconds * 1_000_000 + length.microseconds)
