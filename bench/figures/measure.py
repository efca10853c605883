"""One run of a join: warm it up, then count what it does and time it.

    stream ──offer──► join.step() ──► tuples answered, work counted, seconds
                                       │
    a turn: the tactic has answered as many tuples as may wait in it. Warm-up and measurement are given in turns.

Cost units are pages read in order. The other weights are those of `etl.enrich.planning.cost.UnitCosts` against such
a page, and every step of a scan costs half a page more, as in `etl/enrich/planning/sizing.py`. They are the same on
every machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import pyarrow as pa

from bench.figures.workload import F64, I64, Master, Stream
from etl.enrich.join import SemiStreamJoin
from etl.enrich.planning.cost import UnitCosts
from etl.enrich.step import Cost, Metrics, Step

T = TypeVar("T")
UNITS = UnitCosts()
STEP_IN_PAGES = 0.5  # one more step of a scan
DISK = UnitCosts(call_s=8.8e-3, key_s=1e-6, scan_page_s=1.2e-3, seek_page_s=9.7e-3, front_probe_s=1e-7)
"""A spinning disk: 8.5 ms to get there, 100 MB/s from then on, pages of 123 KB."""


def cost_units(cost: Cost, steps: int, *, page_weight: float = 1.0, units: UnitCosts = UNITS) -> float:
    """Counted work in pages read in order. `page_weight`: how much larger than usual the pages are."""
    pages = units.seconds(Cost(pages=cost.pages, seeks=cost.seeks)) if cost.pages else 0.0
    other = units.seconds(Cost(lookups=cost.lookups, seeks=cost.seeks)) if not cost.pages else 0.0
    probes = cost.front_probes * units.front_probe_s
    scanned = cost.pages > 0 and not cost.lookups
    return (pages * page_weight + other + probes) / units.scan_page_s + (STEP_IN_PAGES * steps if scanned else 0.0)


@dataclass(slots=True)
class TimedMaster:
    """A master whose reading is timed apart."""

    inner: Master
    seconds: float = 0.0

    def lookup(self, keys: pa.Array) -> pa.Table:
        return self._timed(lambda: self.inner.lookup(keys))

    def page_count(self) -> int:
        return self.inner.page_count()

    def read_pages(self, first: int, count: int) -> pa.Table:
        return self._timed(lambda: self.inner.read_pages(first, count))

    def pages_holding(self, keys: pa.Array) -> tuple[pa.Table, int]:
        return self._timed(lambda: self.inner.pages_holding(keys))

    def _timed(self, read: Callable[[], T]) -> T:
        began = time.perf_counter()
        out = read()
        self.seconds += time.perf_counter() - began
        return out


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run did between warm-up and end."""

    metrics: Metrics
    seconds: float
    read_seconds: float = 0.0  # of them in the master
    wait_cost: float = 0.0  # mean, from offer to match
    wait_seconds: float = 0.0
    front_rows: int = 0
    capacity: int = 0  # tuples that may wait in the tactic
    page_weight: float = 1.0

    @property
    def answered(self) -> int:
        return self.metrics.matched + self.metrics.unmatched

    @property
    def missed(self) -> int:
        """Answered by the tactic."""
        return self.answered - self.metrics.front_hits - self.metrics.negative_hits

    def units(self, weights: UnitCosts = UNITS) -> float:
        return cost_units(self.metrics.cost, self.metrics.steps, page_weight=self.page_weight, units=weights)

    def rate(self, unit: str, tuples: int | None = None) -> float:
        """Tuples served per cost unit, per second, or per sequential page of a spinning disk."""
        served = self.answered if tuples is None else tuples
        work = self.seconds if unit == "time" else self.units(DISK if unit == "disk" else UNITS)
        return served / work if work else 0.0

    def wait(self, unit: str) -> float:
        return self.wait_seconds if unit == "time" else self.wait_cost

    @property
    def hit_ratio(self) -> float:
        return self.metrics.front_hits / self.answered if self.answered else 0.0


@dataclass(slots=True)
class Births:
    """When each tuple was offered, on both clocks."""

    cost: F64 = field(default_factory=lambda: np.zeros(1 << 16))
    seconds: F64 = field(default_factory=lambda: np.zeros(1 << 16))

    def put(self, tickets: I64, cost: float, seconds: float) -> None:
        if not len(tickets):
            return
        while tickets[-1] >= len(self.cost):
            self.cost, self.seconds = np.tile(self.cost, 2), np.tile(self.seconds, 2)
        self.cost[tickets], self.seconds[tickets] = cost, seconds


@dataclass(slots=True)
class Run:
    """A join, its stream, and two clocks that stand still between steps."""

    join: SemiStreamJoin
    stream: Stream
    master: TimedMaster
    page_weight: float = 1.0
    arrivals: int | None = None  # tuples offered per step; None: as many as the tactic has room for
    total: Metrics = field(default_factory=Metrics)
    cost_clock: float = 0.0
    clock: float = 0.0
    births: Births = field(default_factory=Births)
    waited: list[tuple[float, float, int]] = field(default_factory=list)

    @property
    def capacity(self) -> int:
        config = getattr(self.join.tactic, "config", None)
        return int(getattr(config, "capacity", 0) or getattr(config, "batch_tuples", 1))

    def step(self) -> Step:
        """One offer and one step. Drawing keys and book-keeping are not timed."""
        keys = self.stream.take(self._wanted())
        at_cost, at = self.cost_clock, self.clock
        began = time.perf_counter()
        tickets = self.join.offer(keys)
        step = self.join.step()
        self.clock += time.perf_counter() - began
        self.births.put(tickets, at_cost, at)
        metrics = step.metrics
        self.cost_clock += cost_units(metrics.cost, 1, page_weight=self.page_weight)
        self.total += metrics
        self._note_waits(step, at_cost, at)
        return step

    def _wanted(self) -> int:
        if self.arrivals is not None:
            return self.arrivals
        tactic = self.join.tactic
        waiting = self.join.pending - tactic.pending
        through = 1.0 / max(0.05, 1.0 - self._hits())
        return max(0, int(tactic.room * through * 1.25) + 8 - waiting)

    def _hits(self) -> float:
        if self.join.front_stage is None:
            return 0.0
        answered = self.total.matched + self.total.unmatched
        return self.total.front_hits / answered if answered else 0.0

    def _note_waits(self, step: Step, at_cost: float, at: float) -> None:
        """Hits leave before the tactic reads, so their wait ends where the step began."""
        for matches in step.matched:
            end_cost, end = (at_cost, at) if matches.front else (self.cost_clock, self.clock)
            cost = len(matches) * end_cost - float(self.births.cost[matches.tickets].sum())
            seconds = len(matches) * end - float(self.births.seconds[matches.tickets].sum())
            self.waited.append((cost, seconds, len(matches)))

    def turns(self, count: float, *, least_steps: int = 0, least_tuples: int = 0) -> None:
        """Steps until the tactic has answered `count` times its capacity."""
        want, answered = count * self.capacity, 0
        while answered < want or self.total.steps < least_steps or self._answered < least_tuples:
            metrics = self.step().metrics
            answered += metrics.matched + metrics.unmatched - metrics.front_hits

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step()

    @property
    def _answered(self) -> int:
        return self.total.matched + self.total.unmatched

    def forget(self) -> None:
        """Warm-up is over: counts and clocks start anew, the join goes on."""
        self.total, self.waited, self.master.seconds = Metrics(), [], 0.0
        self.births.cost -= self.cost_clock
        self.births.seconds -= self.clock
        self.cost_clock = self.clock = 0.0

    def measured(self) -> Measured:
        tuples = max(1, sum(count for _, _, count in self.waited))
        return Measured(
            metrics=self.total,
            seconds=self.clock,
            read_seconds=self.master.seconds,
            wait_cost=sum(cost for cost, _, _ in self.waited) / tuples,
            wait_seconds=sum(seconds for _, seconds, _ in self.waited) / tuples,
            front_rows=0 if self.join.front_stage is None else len(self.join.front_stage),
            capacity=self.capacity,
            page_weight=self.page_weight,
        )
