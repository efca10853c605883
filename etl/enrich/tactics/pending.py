"""Pending stream tuples: the multi-map H_S and the queue Q of the paper, as one structure of arrays.

    key ──hash index──► group ──head──► run ──next──► run        oldest first
                                         │              │
    tickets (arena)    [ … 17 23 40 … ][ … 58 … ][ … 71 72 … ]    oldest at the left: this order is Q

The tuples of one key in one load form a run, so the chain of a key has at most one link per load, and a hot key costs
one array operation, not one per tuple:

    match      page keys → groups → runs → tickets                no loop over tuples
    delete     a run's length becomes 0                            in the middle of Q, at no cost
    expire     the oldest runs are the heads of their chains       a slice
    position   tuples per block of runs are counted                the tuple at x % of Q is found in two short sums

A run's position in Q is that of one of its tuples, chosen pseudo-randomly: the first one would move frequent keys to
the old end of every load, the last one to the new end, and shedding and lookups start at these ends.

Dead runs are swept when the arena is full; a quarter of slack limits that to four copies per tuple.
Invariant: the lengths of live runs add up to `size`, which never exceeds `capacity`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from etl.columnar.groups import KeyGroups
from etl.columnar.keys import I64, Distinct, Keys, distinct, hash_uniform
from etl.enrich.step import NO_TICKETS, StreamTuples

_BLOCK = 4096  # runs per counted block


@dataclass(frozen=True, slots=True)
class Found:
    """Tuples that a page answered: tuple `tickets[i]` matches row `row[i]` of the page."""

    tickets: I64
    row: I64
    probes: int


def arena_for(capacity: int) -> int:
    """The size of the arena: a quarter more than the tuples, so that sweeps are rare."""
    return capacity + capacity // 4 + 16


def bytes_for(capacity: int, *, two_lanes: bool) -> int:
    """The memory for this many tuples, without exact long keys."""
    arena = arena_for(capacity)
    groups = KeyGroups.bytes_for(capacity, two_lanes=two_lanes)
    return arena * (8 + 4 + 4 + 4 + 4 + 1) + groups + 4 * (arena // _BLOCK + 1)


class PendingTuples:
    """At most `capacity` pending tuples."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.size = 0
        self._arena = arena_for(capacity)
        self._tickets = np.zeros(self._arena, np.int64)
        self._start = np.zeros(self._arena, np.int32)
        self._length = np.zeros(self._arena, np.int32)  # 0: dead
        self._group = np.zeros(self._arena, np.int32)
        self._next = np.full(self._arena, -1, np.int32)
        self._matched = np.zeros(self._arena, bool)
        self._in_block = np.zeros(self._arena // _BLOCK + 1, np.int32)
        self._groups = KeyGroups(capacity)
        self._exact: list[pa.Array] = []  # long keys, one per run
        self._first = 0  # no live run before this one
        self._runs = 0
        self._used = 0
        self.unmatched = 0  # tuples in live runs that no page has answered

    @property
    def nbytes(self) -> int:
        arrays = (self._tickets, self._start, self._length, self._group, self._next, self._matched, self._in_block)
        exact = sum(int(part.nbytes) for part in self._exact)
        return sum(int(array.nbytes) for array in arrays) + self._groups.nbytes + exact

    @property
    def key_type(self) -> pa.DataType | None:
        return self._groups.key_type

    # --- in ---------------------------------------------------------------------------------------------------

    def load(self, tuples: StreamTuples) -> int:
        """Appends tuples to the queue; returns in how many runs."""
        count = len(tuples)
        assert self.size + count <= self.capacity, "no more tuples than there is room for"
        if not count:
            return 0
        groups = distinct(tuples.keys)
        runs = len(groups.first)
        if self._used + count > self._arena or self._runs + runs > self._arena:
            self._sweep()
        order, first, counts = _queued(groups, tuples)
        self._tickets[self._used : self._used + count] = tuples.tickets[order]
        new = np.arange(self._runs, self._runs + runs)
        self._start[new] = self._used + np.cumsum(counts) - counts
        self._length[new], self._next[new], self._matched[new] = counts, -1, False
        self._in_block += np.bincount(new // _BLOCK, counts, len(self._in_block)).astype(np.int32)
        keys = tuples.keys.take(first)
        self._link(keys, new)
        if keys.exact is not None:
            self._exact.append(keys.exact)
        self._used, self._runs, self.size = self._used + count, self._runs + runs, self.size + count
        self.unmatched += count
        return runs

    def _link(self, keys: Keys, runs: I64) -> None:
        """Appends each run to its key's chain."""
        groups = self._groups
        group = groups.find(keys)
        known = group >= 0
        fresh = np.flatnonzero(~known)
        group[fresh] = groups.add(keys.take(fresh))
        groups.head[group[fresh]] = runs[fresh]
        self._next[groups.tail[group[known]]] = runs[known]
        groups.tail[group] = runs
        self._group[runs] = group

    # --- match ------------------------------------------------------------------------------------------------

    def match(self, keys: Keys, *, remove: bool) -> Found:
        """Finds the tuples of these distinct keys. They are removed, or else stay, marked, until they expire."""
        group = self._groups.find(keys)
        row = np.flatnonzero(group >= 0)
        group = group[row]
        runs, rows = self._walk(group, row)
        if not remove:
            new = ~self._matched[runs]
            runs, rows = runs[new], rows[new]
            self._matched[runs] = True
        length = self._length[runs].astype(np.int64)
        tickets = self._tickets[_spread(self._start[runs], length)]
        self.unmatched -= len(tickets)
        if remove:
            self._kill(runs)
            self._groups.drop(group)
        return Found(tickets, np.repeat(rows, length), len(keys))

    def _walk(self, group: I64, row: I64) -> tuple[I64, I64]:
        """All runs of the groups, with the row each belongs to: one round per link, for all chains together."""
        runs, rows = [], []
        run = self._groups.head[group].astype(np.int64)
        while len(run):
            runs.append(run)
            rows.append(row)
            run = self._next[run].astype(np.int64)
            more = run >= 0
            run, row = run[more], row[more]
        return (np.concatenate(runs), np.concatenate(rows)) if runs else (NO_TICKETS, NO_TICKETS)

    def _kill(self, runs: I64) -> None:
        length = self._length[runs]
        self.size -= int(length.sum())
        self._in_block -= np.bincount(runs // _BLOCK, length, len(self._in_block)).astype(np.int32)
        self._length[runs] = 0

    # --- the queue --------------------------------------------------------------------------------------------

    def at(self, position: float, count: int) -> Keys:
        """Distinct keys of up to `count` runs from this position on: 0 is the newest tuple, 1 the oldest."""
        runs = self._live_from(self._run_at(position), count)
        groups, first = np.unique(self._group[runs], return_index=True)
        return self._keys(runs[first], groups.astype(np.int64))

    def most_wanted(self, count: int) -> Keys:
        """Up to `count` distinct keys, those with the most tuples first."""
        live = np.flatnonzero(self._length[: self._runs])
        group = self._group[live].astype(np.int64)
        groups, first, inverse = np.unique(group, return_index=True, return_inverse=True)
        waiting = np.bincount(inverse, self._length[live])
        chosen = np.argsort(-waiting, kind="stable")[:count]
        return self._keys(live[first[chosen]], groups[chosen])

    def _run_at(self, position: float) -> int:
        rank = int((1.0 - position) * (self.size - 1))  # counted from the oldest
        before = np.cumsum(self._in_block)
        block = int(np.searchsorted(before, rank, side="right"))
        rank -= int(before[block - 1]) if block else 0
        inside = np.cumsum(self._length[block * _BLOCK : min((block + 1) * _BLOCK, self._runs)])
        return block * _BLOCK + int(np.searchsorted(inside, rank, side="right"))

    def _live_from(self, start: int, count: int) -> I64:
        """Up to `count` live runs, from `start` towards the newest."""
        found: list[I64] = []
        while count > 0 and start < self._runs:
            stop = min(self._runs, start + max(64, 2 * count))
            live = np.flatnonzero(self._length[start:stop])[:count] + start
            found.append(live)
            count, start = count - len(live), stop
        return np.concatenate(found)

    def shed(self, count: int) -> StreamTuples:
        """Removes the `count` oldest tuples."""
        count = min(count, self.size)
        runs = self._oldest(count)
        length = self._length[runs].astype(np.int64)
        extra = int(length.sum()) - count
        length[-1:] -= extra  # the last run may be used only in part
        tickets = self._tickets[_spread(self._start[runs], length)]
        keys = self._keys(runs, self._group[runs].astype(np.int64)).take(np.repeat(np.arange(len(runs)), length))
        self.unmatched -= count
        whole = runs[:-1] if extra else runs
        self._cut_off(whole)
        if extra:
            self._shorten(int(runs[-1]), int(length[-1]))
        return StreamTuples(tickets, keys)

    def _oldest(self, tuples: int) -> I64:
        """The oldest live runs that together hold this many tuples."""
        before = np.cumsum(self._in_block)
        blocks = int(np.searchsorted(before, tuples)) + 1
        live = np.flatnonzero(self._length[self._first : min(self._runs, blocks * _BLOCK)]) + self._first
        held = np.cumsum(self._length[live])
        return live[: int(np.searchsorted(held, tuples)) + 1] if tuples else live[:0]

    def expire(self, runs: int) -> StreamTuples | None:
        """Removes the oldest `runs` runs; returns their unanswered tuples."""
        oldest = np.arange(self._first, self._first + runs)
        lost = oldest[~self._matched[oldest]]
        out = None
        if len(lost):
            length = self._length[lost].astype(np.int64)
            keys = self._keys(lost, self._group[lost].astype(np.int64)).take(np.repeat(np.arange(len(lost)), length))
            out = StreamTuples(self._tickets[_spread(self._start[lost], length)], keys)
            self.unmatched -= len(out)
        self._cut_off(oldest)
        self._first += runs
        return out

    def _cut_off(self, runs: I64) -> None:
        """Removes runs that are the oldest of their chains (several of one chain come in order of age)."""
        group = self._group[runs].astype(np.int64)
        self._groups.head[group] = self._next[runs]  # with several the last assignment wins: the newest removed one
        self._kill(runs)
        group = np.unique(group)
        self._groups.drop(group[self._groups.head[group] < 0])

    def _shorten(self, run: int, by: int) -> None:
        self._start[run] += by
        self._length[run] -= by
        self._in_block[run // _BLOCK] -= by
        self.size -= by

    def _keys(self, runs: I64, groups: I64) -> Keys:
        lanes = self._groups.lanes(groups)
        if not self._exact:
            return lanes
        if len(self._exact) > 1:
            self._exact = [pa.concat_arrays(self._exact)]
        return Keys(lanes.lo, lanes.hi, self._exact[0].take(pa.array(runs)), lanes.type)

    # --- sweep ------------------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        """Moves live runs to the front of the arena and renumbers them."""
        live = np.flatnonzero(self._length[: self._runs])
        length = self._length[live].astype(np.int64)
        tickets = self._tickets[_spread(self._start[live], length)]
        number = np.full(self._runs + 1, -1, np.int32)  # the last place stands for -1
        number[live] = np.arange(len(live))
        group = self._group[live]
        self._next[: len(live)] = number[self._next[live]]
        self._groups.head[group], self._groups.tail[group] = (
            number[self._groups.head[group]],
            number[self._groups.tail[group]],
        )
        if self._exact:
            self._exact = [pa.concat_arrays(self._exact).take(pa.array(live))]
        self._matched[: len(live)] = self._matched[live]
        self._group[: len(live)] = group
        self._length[:] = 0
        self._length[: len(live)] = length
        self._start[: len(live)] = np.cumsum(length) - length
        self._tickets[: len(tickets)] = tickets
        self._in_block = np.bincount(np.arange(len(live)) // _BLOCK, length, len(self._in_block)).astype(np.int32)
        self._runs, self._used, self._first = len(live), len(tickets), 0


def _queued(groups: Distinct, tuples: StreamTuples) -> tuple[I64, I64, I64]:
    """The tuples of one load in the order of the queue; of each run a tuple that has its key, and its length."""
    order = np.sort((groups.codes << 32) | np.arange(len(tuples))) & 0xFFFFFFFF  # by key, oldest first within a key
    starts = np.cumsum(groups.counts) - groups.counts
    drawn = (hash_uniform(tuples.tickets[groups.first]) * groups.counts).astype(np.int64)
    rank = np.argsort(order[starts + drawn])
    counts = groups.counts[rank]
    return order[_spread(starts[rank], counts)], groups.first[rank], counts


def _spread(start: np.ndarray, length: I64) -> I64:
    """Concatenates the ranges start … start + length - 1 of all runs."""
    ends = np.cumsum(length)
    places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(start - (ends - length), length)
    return np.asarray(places, np.int64)
