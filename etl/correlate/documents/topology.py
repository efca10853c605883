"""Creators, merger, assigners and joiners in one process: the paper's figure 2, without a network.

    insert(batch) ─► assigners, in turn ─► joiners ─► pairs                 any number of times per window
    end_window()  ─► report; drops old partitions and all documents; may request a repartition in the next window

The first partitions are computed from the first documents. When a window was worse than its partitions' baseline, the
next window's documents are the sample for new ones, which are in force from the window after that (ADR 38).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from etl.correlate.documents.errors import InvalidOption, JoinerBudgetExceeded
from etl.correlate.documents.joining.expand import Made
from etl.correlate.documents.joining.fp_join import UNBOUNDED, total
from etl.correlate.documents.joining.joiner import Joiner
from etl.correlate.documents.model import Documents, concat
from etl.correlate.documents.partitioning.assigner import Assignment, Sightings, assign, update
from etl.correlate.documents.partitioning.disjoint_sets import disjoint_sets
from etl.correlate.documents.partitioning.fitting import fitting
from etl.correlate.documents.partitioning.meetings import encounters, with_places
from etl.correlate.documents.partitioning.merger import partition
from etl.correlate.documents.partitioning.partitions import Partitions, holds, words
from etl.correlate.documents.partitioning.planner import choose_routing, make_partitions
from etl.correlate.documents.partitioning.quality import Quality
from etl.correlate.documents.partitioning.routing import Routing, expansion, route
from etl.correlate.documents.partitioning.set_cover import set_cover

Method = Literal["ag", "sc", "ds"]
_MOST_PARTITIONS = 4096


@dataclass(frozen=True, slots=True)
class TopologyOptions:
    """Options for distributing a stream of documents over joiners."""

    partitions: int = 8
    creators: int = 2
    assigners: int = 1
    method: Method = "ag"
    routing: Literal["planned", "expansion"] = "planned"
    delta: int = 3
    theta: float = 0.2
    budget_bytes: int = 1 << 30
    max_pairs: int = 100_000_000

    def __post_init__(self) -> None:
        for name in ("partitions", "creators", "assigners", "delta", "budget_bytes"):
            if getattr(self, name) < 1:
                raise InvalidOption(name, getattr(self, name), "at least 1")
        if self.partitions > _MOST_PARTITIONS:
            raise InvalidOption("partitions", self.partitions, f"at most {_MOST_PARTITIONS}")
        if self.theta < 0:
            raise InvalidOption("theta", self.theta, "0 or more")
        if self.max_pairs < 0:
            raise InvalidOption("max_pairs", self.max_pairs, "0 or more")


@dataclass(frozen=True, slots=True)
class WindowReport:
    """Figures of a window."""

    quality: Quality
    promised: Quality  # of the sample that the partitions were computed from
    broadcast: int  # documents that went to every joiner
    updates: int  # pairs added to the partitions
    repartition: bool  # new partitions will be computed from the next window's documents
    found: int  # joinable pairs, including those beyond the limit
    kept: int


@dataclass(slots=True)
class Topology:
    """The state between batches. Ids of documents are ascending from batch to batch."""

    options: TopologyOptions
    in_force: list[Partitions] = field(default_factory=list)
    promised: Quality | None = None
    sightings: list[Sightings] = field(default_factory=list)
    joiners: list[Joiner] = field(default_factory=list)
    window: list[Assignment] = field(default_factory=list)
    sample: list[Documents] | None = None  # this window's documents, while new partitions are wanted
    updates: int = 0
    found: int = 0
    kept: int = 0

    def insert(self, batch: Documents) -> Made:
        """Assign and join a batch."""
        if not self.in_force:
            self.repartition(batch)
        if self.sample is not None:
            self.sample.append(batch)
        assignment = self.assign(batch)
        self.window.append(assignment)
        made = total([self._join(number, batch, assignment) for number in range(assignment.partitions)])
        self.found += made.found
        return made

    def assign(self, batch: Documents) -> Assignment:
        """Assign documents: every assigner has its share, and later ones see the updates of earlier ones."""
        count = max(partitions.count for partitions in self.in_force)
        masks, broadcast = np.zeros((len(batch), words(count)), np.uint64), 0
        for number in range(self.options.assigners):
            positions = np.arange(number, len(batch), self.options.assigners, dtype=np.int64)
            share = batch.take(positions)
            one = assign(share, self.in_force)
            masks[positions], broadcast = one.masks, broadcast + one.broadcast
            ready = self._sightings(number).add(one.unseen)
            if len(ready):
                newest = self.in_force[-1]
                self.in_force[-1] = update(newest, route(share, newest.routing), ready)
                self.updates += len(ready)
        return Assignment(masks, count, broadcast, np.empty(0, np.uint64))

    def repartition(self, sample: Documents) -> Partitions:
        """Compute new partitions. Inside a window the previous ones stay in force beside them until it ends."""
        budget, least = self.options.budget_bytes, self.options.partitions
        fitted = fitting(sample, lambda count: create(sample, self.options, count), least, _MOST_PARTITIONS, budget)
        if fitted.needed_bytes > budget:
            raise JoinerBudgetExceeded(fitted.needed_bytes, budget, fitted.busiest)
        self.in_force.append(fitted.partitions)
        self.promised = fitted.quality
        self.sightings = []
        return fitted.partitions

    def end_window(self) -> WindowReport:
        """Close the window: report it, drop its documents, and determine the partitions of the next one."""
        assert self.promised is not None, "a window ends after it has begun"
        quality = _together([one.quality for one in self.window])
        wanted = self.sample is None and quality.worse_than(self.promised, self.options.theta)
        broadcast = sum(one.broadcast for one in self.window)
        report = WindowReport(quality, self.promised, broadcast, self.updates, wanted, self.found, self.kept)
        if self.sample:
            self.repartition(concat(self.sample))
        self.in_force, self.sample = self.in_force[-1:], [] if wanted else None
        self.joiners, self.window, self.updates, self.found, self.kept = [], [], 0, 0, 0
        return report

    def _join(self, number: int, batch: Documents, assignment: Assignment) -> Made:
        while len(self.joiners) <= number:
            self.joiners.append(Joiner(len(self.joiners), self.options.budget_bytes))
        here = np.flatnonzero(holds(assignment.masks, number))
        left = self.options.max_pairs - self.kept
        made = self.joiners[number].insert(batch.take(here), assignment.masks[here], min(left, UNBOUNDED))
        self.kept += len(made.pairs)
        return made

    def _sightings(self, assigner: int) -> Sightings:
        while len(self.sightings) <= assigner:
            self.sightings.append(Sightings(self.options.delta))
        return self.sightings[assigner]


def _together(parts: Sequence[Quality]) -> Quality:
    """The quality of all batches of a window, between which the number of partitions may have changed."""
    loads = np.zeros(max((len(part.loads) for part in parts), default=0), np.int64)
    for part in parts:
        loads[: len(part.loads)] += part.loads
    return Quality(sum(part.documents for part in parts), loads)


def create(sample: Documents, options: TopologyOptions, count: int) -> Partitions:
    """Partitions by the method of the options."""
    planned = options.routing == "planned"
    routing: Routing = choose_routing(sample, count) if planned else expansion(sample, count)
    if options.method == "ag":
        return make_partitions(sample, routing, count, options.creators)
    routed = route(sample, routing)
    if options.method == "sc":
        return with_places(set_cover(routed, routing, count), encounters(sample, routing))
    return with_places(partition(disjoint_sets(routed), routing, count), encounters(sample, routing))
