"""The changes of a batch to a correlation of documents, computed by the driver from the tasks' results.

    1 windows       figures of open windows; windows that the watermark, or the count, has passed are closed
    2 expiry        documents of closed windows: a run of state is dropped from the ledger
    3 judgement     a closed window worse than expected, or a joiner near its budget, triggers repartitioning
    4 partitions    groups of creators become a new version; values seen often enough are added to the newest

A version of the partitions is dropped when it is the newest version of no stored document (`state`).
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from etl.correlate.documents.partitioning import merger
from etl.correlate.documents.partitioning.assigner import Sightings, update
from etl.correlate.documents.partitioning.groups import Groups
from etl.correlate.documents.partitioning.meetings import Encounters, with_places
from etl.correlate.documents.profile import CommonCounts
from etl.streams.documents.files import open_partitions, open_sightings, write_partitions, write_sightings
from etl.streams.documents.state import (
    FEWEST,
    MOST_PARTITIONS,
    NEAR_BUDGET,
    DocumentPlan,
    DocumentState,
    Promise,
    WindowFigures,
    common_of,
    first_slot,
    window_of,
)
from etl.streams.documents.values import Unseen, encounters_of, groups_of, unseen_of
from etl.streams.state.state_files import StateRun
from etl.streams.storage.files import FileStore
from etl.streams.storage.log import Segment

_NEARLY_ALL = 0.95  # of the documents: an attribute with one value in these is reported as constant


@dataclass(frozen=True, slots=True)
class PairCounts:
    """Pairs of one joiner in one slot: all of them, and those in the results."""

    found: int
    kept: int


@dataclass(slots=True)
class GatheredDocuments:
    """The tasks' results for one correlation of documents."""

    documents: int = 0
    late: int = 0
    added: list[StateRun] = field(default_factory=list)
    windows: dict[int, WindowFigures] = field(default_factory=dict)
    pairs_of: dict[int, dict[int, PairCounts]] = field(default_factory=dict)  # by slot and joiner, of the first round
    common: CommonCounts = field(default_factory=CommonCounts)
    bytes_of: Counter[int] = field(default_factory=Counter)  # by joiner, the peak
    joined: Counter[int] = field(default_factory=Counter)  # by joiner, documents received
    unseen: list[Unseen] = field(default_factory=list)
    groups: list[Groups] = field(default_factory=list)
    encounters: list[Encounters] = field(default_factory=list)

    @property
    def found(self) -> int:
        return sum(one.found for one in self.windows.values())

    @property
    def kept(self) -> int:
        return sum(one.kept for one in self.windows.values())

    def add(self, what: str, value: Mapping[str, Any]) -> None:
        """Add one message of a task."""
        if what == "assigned":
            self.documents += value["documents"]
            self.late += value["late"]
        elif what == "stored":
            self.added += [StateRun(**run) for run in value["runs"]]
            self.common = self.common.plus(common_of(value["common"]))
            for slot, one in value["windows"].items():
                self._window(int(slot), window_of(one))
        else:
            assert what == "joined", f"nobody tells {what}"
            joiner, slot, counts = value["joiner"], value["slot"], PairCounts(value["found"], value["kept"])
            self._window(slot, WindowFigures(found=counts.found, kept=counts.kept))
            self.pairs_of.setdefault(slot, {}).setdefault(joiner, counts)
            self.bytes_of[joiner] = max(self.bytes_of[joiner], value["bytes"])
            self.joined[joiner] += value["documents"]

    def add_values(self, what: str, table: pa.Table) -> None:
        if what == "unseen":
            self.unseen.append(unseen_of(table))
        elif what == "groups":
            self.groups.append(groups_of(table))
        else:
            self.encounters.append(encounters_of(table))

    def _window(self, slot: int, figures: WindowFigures) -> None:
        self.windows[slot] = self.windows.get(slot, WindowFigures()).plus(figures)


@dataclass(frozen=True, slots=True)
class EvolvedDocuments:
    """The changes of a batch, like `etl.streams.decision.Evolved`, for documents."""

    declared: Mapping[str, Any]
    state: DocumentState
    added: tuple[StateRun, ...]
    removed: tuple[str, ...]
    moved: tuple[StateRun, ...] = ()
    expired: int = 0
    closed: Mapping[int, WindowFigures] = field(default_factory=dict)
    updates: int = 0  # values added to the partitions
    repartitioned: bool = False


def evolve_documents(
    store: FileStore,
    batch: int,
    plan: DocumentPlan,
    declared: Mapping[str, Any],
    gathered: GatheredDocuments,
    segments: Iterable[Segment],
    known: Iterable[StateRun],
) -> EvolvedDocuments:
    """The correlation after the batch. `known` are the runs in the ledger."""
    before = plan.state
    latest = [one.latest for one in segments if one.stream == plan.declared.stream]
    largest = max([*latest, *([] if before.largest is None else [before.largest])], default=None)
    state = replace(before, largest=largest, documents=before.documents + gathered.documents)
    windows, closed = _windows(plan, state, gathered)
    state, updates = _updated(store, batch, plan, replace(state, windows=windows), gathered)
    state = _judged(plan, _with_constants(plan, state, gathered), closed, gathered)
    state, repartitioned = _repartitioned(store, batch, plan, state, gathered)
    first = first_slot(plan.declared, state)
    stored = [*state.stored, *gathered.added]
    live = [run for run in stored if first is None or run.period >= first]
    needed = {run.unit for run in live} | {state.versions[-1].period}
    versions = [run for run in state.versions if run.period in needed]
    sightings = [] if state.sightings is None else [state.sightings]
    state = replace(state, joiners=_joiners(store, versions), runs=(*live, *versions, *sightings))
    names, had = {run.name for run in state.runs}, {run.name for run in known}
    return EvolvedDocuments(
        declared=declared,
        state=state,
        added=tuple(run for run in state.runs if run.name not in had),
        removed=tuple(sorted(had - names)),
        expired=sum(run.tuples for run in stored) - sum(run.tuples for run in live),
        closed=closed,
        updates=updates,
        repartitioned=repartitioned,
    )


def _joiners(store: FileStore, versions: Iterable[StateRun]) -> int:
    return max(open_partitions(store, run).count for run in versions)


def _windows(
    plan: DocumentPlan, state: DocumentState, gathered: GatheredDocuments
) -> tuple[dict[int, WindowFigures], dict[int, WindowFigures]]:
    """Open windows, and windows closed by this batch."""
    windows = dict(plan.state.windows)
    for slot, figures in gathered.windows.items():
        windows[slot] = windows.get(slot, WindowFigures()).plus(figures)
    first = first_slot(plan.declared, state)
    closed = {slot: one for slot, one in windows.items() if first is not None and slot < first}
    return {slot: one for slot, one in windows.items() if slot not in closed}, closed


def _with_constants(plan: DocumentPlan, state: DocumentState, gathered: GatheredDocuments) -> DocumentState:
    """Constants of the documents since they were last determined, if those are enough to tell."""
    common = state.common.plus(gathered.common)
    if common.documents < FEWEST:
        return replace(state, common=common)
    constants = tuple(sorted({pair.path for pair in common.constants(_NEARLY_ALL)}))
    open_still = plan.declared.constants == "leave_out" and not state.left_out_decided
    return replace(state, constants=constants, common=common if open_still else CommonCounts())


def _judged(
    plan: DocumentPlan, state: DocumentState, closed: Mapping[int, WindowFigures], gathered: GatheredDocuments
) -> DocumentState:
    """Whether the creators of the next batch must look for new partitions."""
    newest = state.versions[-1].period
    promise, wanted = state.promise, state.wanted
    for _, window in sorted(closed.items()):
        if window.versions != (newest,):  # it began before these partitions
            continue
        if promise is None:
            promise = Promise(window.documents, window.loads)
        elif window.quality.worse_than(promise.quality, plan.declared.theta):
            wanted = max(plan.declared.partitions, state.joiners)
    # A window that began with older partitions uses those until it is closed, so still newer ones would not help it.
    windows = {**state.windows, **closed}
    newest_only = all(windows[slot].versions == (newest,) for slot in gathered.windows)
    near = max(gathered.bytes_of.values(), default=0) > NEAR_BUDGET * plan.declared.budget_bytes
    if near and newest_only and 2 * state.joiners <= MOST_PARTITIONS:
        wanted = 2 * state.joiners
    return replace(state, promise=promise, wanted=wanted)


def _repartitioned(
    store: FileStore, batch: int, plan: DocumentPlan, state: DocumentState, gathered: GatheredDocuments
) -> tuple[DocumentState, bool]:
    """New partitions from the creators' groups, in force from the next batch on."""
    if plan.creators is None or not gathered.groups or plan.state.wanted is None:
        return state, False
    count = plan.state.wanted
    partitions = merger.partition(merger.consolidate(gathered.groups), plan.creators, count)
    partitions = with_places(partitions, Encounters.concat(gathered.encounters))
    run = write_partitions(store, _name(plan, batch, "partitions"), state.versions[-1].period + 1, partitions)
    runs = tuple(one for one in state.runs if one != state.sightings)
    changed = replace(
        state,
        runs=(*runs, run),
        promise=None,
        wanted=None,
        routing=plan.creators,
        repartitions=state.repartitions + 1,
    )
    return changed, True


def _updated(
    store: FileStore, batch: int, plan: DocumentPlan, state: DocumentState, gathered: GatheredDocuments
) -> tuple[DocumentState, int]:
    """The newest partitions with values that were seen often enough, and the sightings of other values."""
    if not gathered.unseen:
        return state, 0
    run = state.versions[-1]
    partitions = open_partitions(store, run)
    sightings = open_sightings(store, state.sightings, plan.declared.delta)
    updates = 0
    for unseen in gathered.unseen:
        ready = sightings.add(np.repeat(unseen.hashes, unseen.counts))
        if len(ready):
            partitions, updates = update(partitions, unseen.beside, ready), updates + len(ready)
    others = tuple(one for one in state.runs if one not in (run, state.sightings))
    newest = write_partitions(store, _name(plan, batch, "partitions"), run.period, partitions) if updates else run
    return replace(state, runs=(*others, newest, *_kept(store, batch, plan, sightings))), updates


def _kept(store: FileStore, batch: int, plan: DocumentPlan, sightings: Sightings) -> tuple[StateRun, ...]:
    return (write_sightings(store, _name(plan, batch, "sightings"), sightings),) if sightings.counts else ()


def _name(plan: DocumentPlan, batch: int, what: str) -> str:
    return f"state/{plan.name}/{batch:09d}-{what}-{secrets.token_hex(8)}.arrow"
