"""The local window join: pairs of tuples with equal codes and intersecting windows.

A stored tuple matches a probe when codes are equal, stored.start <= probe.end and stored.end >= probe.start.

    RunKernel      the runs of the biclique: a hash directory of codes; both ends of the window are checked in its loop
    SortedKernel   sorted by (code, start): two binary searches per probe give a range, whose ends are checked

Both give the same pairs; `Kernel` is their interface. Runs are faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from etl.correlate.index.runs import Probes, Run
from etl.correlate.model import FIRST, LAST, Tuples
from etl.correlate.multiway.codes import I64


@dataclass(frozen=True, slots=True)
class Side:
    """Tuples in the form that kernels take."""

    code: I64
    start: I64
    end: I64


@dataclass(frozen=True, slots=True)
class Pairs:
    """Rows of the probing side with rows of the stored side."""

    probe: I64
    stored: I64


class WindowIndex(Protocol):
    def probe(self, side: Side) -> Pairs: ...


class Kernel(Protocol):
    def index(self, stored: Side) -> WindowIndex: ...


class RunKernel:
    """The biclique's local kernel: a run with a hash directory (`etl.correlate.index.runs`)."""

    def index(self, stored: Side) -> WindowIndex:
        return RunIndex(stored)


class RunIndex:
    """Codes are the key, starts the times, ends the value of a band that is bounded from below only."""

    def __init__(self, stored: Side) -> None:
        rows = np.arange(len(stored.code))
        tuples = Tuples(rows, stored.start, np.full(len(rows), FIRST), stored.code.view(np.uint64), value=stored.end)
        self._run = Run.build("hash", tuples)[0] if len(rows) else None

    def probe(self, side: Side) -> Pairs:
        rows = np.arange(len(side.code))
        if self._run is None or not len(rows):
            return Pairs(np.empty(0, np.int64), np.empty(0, np.int64))
        lanes, high = side.code.view(np.uint64), np.full(len(rows), LAST)
        tuples = Tuples(rows, side.start, np.full(len(rows), FIRST), lanes, low=side.start, high=high)
        probes = Probes.of("hash", tuples, np.full(len(rows), FIRST), side.end)
        count, _, stored, met, _, _ = self._run.probe(probes)
        return Pairs(probes.tuples.refs[met[:count], 0], self._run.refs[stored[:count], 0])


class SortedKernel:
    """The plain kernel: sorted arrays."""

    def index(self, stored: Side) -> WindowIndex:
        return SortedIndex(stored)


class SortedIndex:
    def __init__(self, stored: Side) -> None:
        self._codes, code_rank = np.unique(stored.code, return_inverse=True)
        self._starts, start_rank = np.unique(stored.start, return_inverse=True)
        place = code_rank.reshape(-1) * len(self._starts) + start_rank.reshape(-1)
        self._order = np.argsort(place, kind="stable")
        self._places = place[self._order]
        self._ends = stored.end[self._order]
        self._longest = int((stored.end - stored.start).max(initial=0))

    def probe(self, side: Side) -> Pairs:
        if not len(self._places) or not len(side.code):
            return Pairs(np.empty(0, np.int64), np.empty(0, np.int64))
        at = np.minimum(np.searchsorted(self._codes, side.code), len(self._codes) - 1)
        known = np.flatnonzero(self._codes[at] == side.code)
        base = at[known] * len(self._starts)
        first = np.searchsorted(self._starts, side.start[known] - self._longest, side="left")
        last = np.searchsorted(self._starts, side.end[known], side="right")
        low = np.searchsorted(self._places, base + first, side="left")
        high = np.searchsorted(self._places, base + last, side="left")
        probe, place = expand(low, high)
        probe = known[probe]
        meets = self._ends[place] >= side.start[probe]
        return Pairs(probe[meets], self._order[place[meets]])


def expand(low: I64, high: I64) -> tuple[I64, I64]:
    """All (number, place) with low[number] <= place < high[number]."""
    counts = np.maximum(high - low, 0)
    number = np.repeat(np.arange(len(counts)), counts)
    before = np.cumsum(counts) - counts
    return number, np.arange(len(number)) - np.repeat(before - low, counts)
