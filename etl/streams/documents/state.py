"""The state of a correlation of documents as of the last decision, and its plan for the tasks of a batch.

    runs of step DOCUMENTS     a slot's documents of one dispatcher; `period` is the slot, `unit` the newest version of
                               the partitions that assigned them
    runs of step PARTITIONS    a version of the partitions; `period` is its number
    runs of step SIGHTINGS     how often values without a partition were seen

Two documents meet if some version assigned both. So a version stays in force as long as it is the newest one of a
stored document; while several are in force, documents are assigned by all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from etl.contract.correlations.documents import DocumentCorrelation
from etl.correlate.documents.partitioning.quality import Quality
from etl.correlate.documents.partitioning.routing import Routing
from etl.correlate.documents.profile import CommonCounts
from etl.correlate.documents.windows import Window
from etl.streams.state.state_files import StateRun

KIND = "documents"
DOCUMENTS, PARTITIONS, SIGHTINGS = 0, 1, 2
FEWEST = 100  # documents needed to call an attribute constant
MOST_PARTITIONS = 1024
NEAR_BUDGET = 0.5  # of a joiner's bytes, from which the number of joiners doubles


@dataclass(frozen=True, slots=True)
class WindowFigures:
    """Figures of one slot: a window, or the slide of a sliding window."""

    documents: int = 0
    broadcast: int = 0  # documents that went to every joiner
    found: int = 0  # joinable pairs
    kept: int = 0
    loads: tuple[int, ...] = ()  # documents by joiner
    versions: tuple[int, ...] = ()  # of partitions that assigned its documents

    @property
    def quality(self) -> Quality:
        return Quality(self.documents, np.array(self.loads, np.int64))

    def plus(self, other: WindowFigures) -> WindowFigures:
        return WindowFigures(
            self.documents + other.documents,
            self.broadcast + other.broadcast,
            self.found + other.found,
            self.kept + other.kept,
            _added(self.loads, other.loads),
            tuple(sorted({*self.versions, *other.versions})),
        )


def _added(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    longer, shorter = sorted((one, other), key=len, reverse=True)
    return tuple(value + (shorter[i] if i < len(shorter) else 0) for i, value in enumerate(longer))


@dataclass(frozen=True, slots=True)
class Promise:
    """The baseline for judging the newest partitions: documents and loads of their sample, or of their first window."""

    documents: int
    loads: tuple[int, ...]

    @property
    def quality(self) -> Quality:
        return Quality(self.documents, np.array(self.loads, np.int64))


@dataclass(frozen=True, slots=True)
class DocumentState:
    """Everything that the next batch depends on."""

    since: int  # its first batch
    largest: int | None = None  # latest event time seen
    documents: int = 0  # accepted so far; also the next document's number
    joiners: int = 0  # of the newest partitions
    wanted: int | None = None  # number of partitions for which creators find groups in the next batch
    promise: Promise | None = None
    routing: Routing = field(default_factory=Routing)
    repartitions: int = 0
    windows: Mapping[int, WindowFigures] = field(default_factory=dict)  # open ones, by slot
    attributes: tuple[tuple[str, float, int], ...] = ()  # of the last sample: path, presence, values
    constants: tuple[str, ...] = ()  # attributes with one value in nearly all of the last documents
    left_out: tuple[str, ...] = ()  # attributes that were constant at first; they never join
    left_out_decided: bool = False  # enough documents were seen to say what is constant at first
    common: CommonCounts = field(default_factory=CommonCounts)  # of documents since `constants` were determined
    runs: tuple[StateRun, ...] = ()

    @property
    def versions(self) -> tuple[StateRun, ...]:
        """The partitions in force, the newest last."""
        found = [run for run in self.runs if run.step == PARTITIONS]
        return tuple(sorted(found, key=lambda run: run.period))

    @property
    def stored(self) -> tuple[StateRun, ...]:
        return tuple(run for run in self.runs if run.step == DOCUMENTS)

    @property
    def sightings(self) -> StateRun | None:
        return next((run for run in self.runs if run.step == SIGHTINGS), None)

    def as_json(self) -> dict[str, Any]:
        """Without the runs, which have rows of their own."""
        value = asdict(replace(self, runs=(), since=0, common=CommonCounts()))
        del value["runs"], value["since"]
        windows = {str(slot): asdict(one) for slot, one in self.windows.items()}
        return {**value, "kind": KIND, "windows": windows, "common": common_json(self.common)}

    @classmethod
    def from_json(cls, since: int, value: Mapping[str, Any], runs: tuple[StateRun, ...]) -> DocumentState:
        promise = value["promise"]
        return cls(
            since=since,
            **{name: value[name] for name in ("largest", "documents", "joiners", "wanted", "repartitions")},
            promise=None if promise is None else Promise(promise["documents"], tuple(promise["loads"])),
            routing=routing_of(value["routing"]),
            windows={int(slot): window_of(one) for slot, one in value["windows"].items()},
            attributes=tuple((path, presence, values) for path, presence, values in value["attributes"]),
            constants=tuple(value["constants"]),
            left_out=tuple(value.get("left_out", ())),
            left_out_decided=value.get("left_out_decided", True),  # older releases decided in the first batch
            common=common_of(value.get("common")),
            runs=runs,
        )


def routing_of(value: Mapping[str, Any]) -> Routing:
    """A routing from JSON; older releases had no meeting attributes."""
    return Routing(tuple(value["key"]), value["alone"], tuple(value.get("meeting", ())))


def common_json(common: CommonCounts) -> dict[str, Any]:
    """Counts of common pairs as JSON."""
    counts = [[path, text, count] for (path, text), count in common.counts.items()]
    return {"documents": common.documents, "counts": counts}


def common_of(value: Mapping[str, Any] | None) -> CommonCounts:
    """Counts of common pairs from JSON; older releases had none."""
    if value is None:
        return CommonCounts()
    return CommonCounts(value["documents"], {(path, text): count for path, text, count in value["counts"]})


def window_of(value: Mapping[str, Any]) -> WindowFigures:
    """Figures that came as JSON; older releases kept results by joiner as well."""
    known = {name: one for name, one in value.items() if name != "kept_by"}
    tuples: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in known.items()}
    return WindowFigures(**tuples)


@dataclass(frozen=True, slots=True)
class Allotted:
    """The pairs of one joiner in one slot that the second round makes: from `first` up to `last`, in its own order."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class MorePairs:
    """The second round of a batch (`second_round`)."""

    runs: tuple[StateRun, ...]  # the documents of this batch
    allotted: Mapping[tuple[int, int], Allotted]  # by slot and joiner

    @property
    def joiners(self) -> frozenset[int]:
        return frozenset(joiner for _, joiner in self.allotted)


@dataclass(frozen=True, slots=True)
class DocumentPlan:
    """One correlation of documents in one batch; `state` has the partitions in force."""

    declared: DocumentCorrelation
    state: DocumentState
    creators: Routing | None = None  # find association groups under this routing
    more: MorePairs | None = None  # None: the first round

    @property
    def name(self) -> str:
        return self.declared.name

    @property
    def window(self) -> Window:
        return Window(self.declared.window.size, self.declared.window.slide)

    @property
    def joiners(self) -> int:
        return self.state.joiners

    @property
    def counted(self) -> bool:
        return self.declared.window.by == "count"

    @property
    def first_slot(self) -> int | None:
        """The first open slot: documents of earlier ones are late. None before the first document."""
        return first_slot(self.declared, self.state)

    def left(self, slot: int) -> int:
        """What earlier batches have left of a slot's bound on results."""
        window = self.state.windows.get(slot)
        return max(0, self.declared.max_pairs - (0 if window is None else window.kept))


def watermark(declared: DocumentCorrelation, state: DocumentState) -> int | None:
    """The largest event time less the lateness; None before the first document."""
    return None if state.largest is None else state.largest - microseconds_of(declared)


def microseconds_of(declared: DocumentCorrelation) -> int:
    """The lateness in microseconds."""
    late = declared.lateness
    return late.days * 86_400_000_000 + late.seconds * 1_000_000 + late.microseconds


def first_slot(declared: DocumentCorrelation, state: DocumentState) -> int | None:
    """The first slot that shares a window with documents that are not late."""
    reached = state.documents if declared.window.by == "count" else watermark(declared, state)
    if reached is None:
        return None
    window = Window(declared.window.size, declared.window.slide)
    return reached // window.slide - window.slots + 1
