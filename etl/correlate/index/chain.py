"""The chained in-memory index of one stream at one unit.

    chain:  [period 40: run][period 41: run][period 42: run][period 43: run run run]
              expires next                     late tuples    the newest period

A sub-index holds the tuples of one archive period P of *event* time (by default a tenth of the window), so an
out-of-order tuple goes to its own period and whole sub-indexes expire exactly when theorem 1 allows (ADR 31). A batch
adds a new run; runs of one sub-index are merged when they are of similar size, and into one when a newer period begins.
Without a window there is a single, permanent sub-index, with runs of up to four million tuples.

Invariants: a stored tuple is in exactly one run; a run is immutable; no later probe joins what `expire` removes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from etl.correlate.index.runs import Layout, Probes, Run
from etl.correlate.model import I64, Side, Tuples, Window

PERIODS = 10  # sub-indexes per window
FANOUT = 4  # runs of similar size that are merged into one
MAX_RUN = 1 << 22
BLOCK = 1 << 20  # candidates processed together


@dataclass(frozen=True, slots=True)
class ChainConfig:
    """The layout of a chain; the same for every unit of a side."""

    stored: Side
    window: Window
    layout: Layout
    period_us: int | None = None  # None: a tenth of the window, or one sub-index for ever

    @property
    def period(self) -> int | None:
        length = self.window.length_us
        if self.period_us is not None:
            return self.period_us
        return None if length is None else max(1, length // (2 * PERIODS) if self._symmetric else length // PERIODS)

    @property
    def _symmetric(self) -> bool:
        """Whether the window reaches equally far to both sides; the paper's window is half of its length."""
        return self.window.lower_us is not None and self.window.lower_us == -(self.window.upper_us or 0)


@dataclass(frozen=True, slots=True)
class Found:
    """Candidates of one run: stored rows, and the probes they match (positions in the order of `Probes`)."""

    refs: I64
    times: I64
    probes: I64
    places: I64  # of the probes


@dataclass(slots=True)
class Effort:
    """Counters of probing."""

    probes: int = 0  # (probe, run) pairs looked up
    unchecked: int = 0  # of these, with the run entirely inside the window
    skipped: int = 0  # (probe, run) pairs excluded by time
    candidates: int = 0


@dataclass(slots=True)
class ChainedIndex:
    """Insert, probe, expire, snapshot. Not thread-safe; a unit owns its chains."""

    config: ChainConfig
    periods: dict[int, list[Run]] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(len(run) for run in self.runs())

    @property
    def nbytes(self) -> int:
        """The memory load volume (MLV)."""
        return sum(run.nbytes for run in self.runs())

    def runs(self) -> Iterator[Run]:
        for period in sorted(self.periods):
            yield from self.periods[period]

    def probes(self, tuples: Tuples) -> Probes:
        first, until = self.config.window.stored_range(self.config.stored, tuples.times)
        return Probes.of(self.config.layout, tuples, first, until)

    def probe(self, probes: Probes, effort: Effort, block: int = BLOCK) -> Iterator[Found]:
        """Stored tuples that match the probes, in blocks."""
        for run in self.runs():
            yield from _candidates(run, probes, effort, block)

    def insert(self, tuples: Tuples, probes: Probes | None, effort: Effort, block: int = BLOCK) -> Iterator[Found]:
        """Stores tuples of a batch; yields matches with the batch's own later probes."""
        newest = max(self.periods, default=None)
        for period, part in self._by_period(tuples):
            run, order = Run.build(self.config.layout, part)
            if probes is not None:
                yield from _candidates(run, probes, effort, block, part.places[order])
            self._append(period, run)
        self._archive(newest)

    def expire(self, watermark: np.int64) -> int:
        """Drops whole sub-indexes that no probe from the watermark on can match; returns the number of tuples."""
        before = self.config.window.expired_before(self.config.stored, watermark)
        gone = [period for period, runs in self.periods.items() if max(run.latest for run in runs) < before]
        return sum(len(run) for period in gone for run in self.periods.pop(period))

    def snapshot(self) -> dict[int, tuple[Run, ...]]:
        """The runs by period: immutable, so a copy of the lists is a copy of the state."""
        return {period: tuple(runs) for period, runs in sorted(self.periods.items())}

    @classmethod
    def restore(cls, config: ChainConfig, snapshot: dict[int, tuple[Run, ...]]) -> ChainedIndex:
        return cls(config, {period: list(runs) for period, runs in snapshot.items() if runs})

    def adopt(self, period: int, run: Run) -> None:
        """Takes over a run of another unit."""
        self.periods.setdefault(period, []).append(run)

    def release(self, period: int, run: Run) -> None:
        """Removes a run that moves to another unit."""
        left = [own for own in self.periods[period] if own is not run]
        if left:
            self.periods[period] = left
        else:
            del self.periods[period]

    def _by_period(self, tuples: Tuples) -> Iterator[tuple[int, Tuples]]:
        if not len(tuples):
            return
        period = self.config.period
        if period is None:
            yield 0, tuples
            return
        numbers = tuples.times // period
        first, last = int(numbers.min()), int(numbers.max())
        if first == last:
            yield first, tuples
            return
        order = np.argsort(numbers, kind="stable")
        bounds = np.flatnonzero(np.diff(numbers[order])) + 1
        for rows in np.split(order, bounds):
            yield int(numbers[rows[0]]), tuples.take(rows)

    def _append(self, period: int, run: Run) -> None:
        """Adds a run; the last `FANOUT` ones of similar size are merged: few runs, few merges."""
        runs = self.periods.setdefault(period, [])
        runs.append(run)
        while len(runs) >= FANOUT and len(runs[-FANOUT]) < 2 * len(runs[-1]):
            if sum(map(len, runs[-FANOUT:])) > MAX_RUN:
                break
            runs[-FANOUT:] = [Run.merged(runs[-FANOUT:])]

    def _archive(self, newest: int | None) -> None:
        """Merges the runs of the previously newest period when a newer one has begun."""
        if newest is not None and max(self.periods) > newest and len(self.periods.get(newest, [])) > 1:
            self.periods[newest] = [Run.merged(self.periods[newest])]


def _candidates(run: Run, probes: Probes, effort: Effort, block: int, place: I64 | None = None) -> Iterator[Found]:
    start, total = 0, len(probes.tuples)
    while start < total:
        given = np.zeros(0, np.int64) if place is None else place
        count, following, rows, met, looked, unchecked = run.probe(probes, given, start, block)
        effort.probes += looked
        effort.unchecked += unchecked
        effort.skipped += following - start - looked
        effort.candidates += count
        start = following
        if count:
            rows, met = rows[:count], met[:count]
            yield Found(run.refs[rows], run.times[rows], met, probes.tuples.places[met])
