"""Pending stream tuples: the multi-map H_S and the queue Q of the paper, as one structure of arrays.

    key ──hash index──► group ──head──► run ──next──► run        oldest first
                                         │              │
    tickets (arena)    [ … 17 23 40 … ][ … 58 … ][ … 71 72 … ]    oldest at the left: this order is Q

Tuples of one key that came in one load stand together in a run, so the chain of a key has at most one link per
load and a hot key costs one array operation, not one per tuple. Everything else follows:

    match      page keys → groups → runs → tickets                no loop over tuples
    delete     a run's length becomes 0                            in the middle of Q, at no cost
    expire     the oldest runs are the heads of their chains       a slice
    position   tuples per block of runs are counted                the tuple at x % of Q is found in two short sums

Dead runs are swept out when the arena's end is reached; a quarter of slack makes that four copies per tuple at worst.
Invariant: the lengths of live runs add up to `size`, which never exceeds `capacity`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from etl.enrich.hash_index import HashIndex
from etl.enrich.keys import I64, Keys, distinct
from etl.enrich.step import NO_TICKETS, StreamTuples

_BLOCK = 4096  # runs per counted block


@dataclass(frozen=True, slots=True)
class Found:
    """Tuples that a page answered: ticket i goes with row `row[i]` of the page."""

    tickets: I64
    row: I64
    probes: int


def arena_for(capacity: int) -> int:
    """Places in the arena: a quarter more than tuples, so that sweeping is rare."""
    return capacity + capacity // 4 + 16


def bytes_for(capacity: int, *, two_lanes: bool) -> int:
    """What a structure for so many tuples occupies, exact long keys aside."""
    arena = arena_for(capacity)
    per_group = 4 + 4 + 4 + (16 if two_lanes else 8)
    index = HashIndex.bytes_for(capacity, two_lanes=two_lanes)
    return arena * (8 + 4 + 4 + 4 + 4 + 1) + capacity * per_group + index + 4 * (arena // _BLOCK + 1)


class PendingTuples:
    """At most `capacity` tuples waiting for their master rows."""

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
        self._head = np.full(capacity, -1, np.int32)
        self._tail = np.full(capacity, -1, np.int32)
        self._free = np.arange(capacity, dtype=np.int32)[::-1].copy()
        self._free_count = capacity
        self._lo = np.zeros(capacity, np.uint64)
        self._hi: np.ndarray | None = None
        self._index: HashIndex | None = None
        self._exact: list[pa.Array] = []  # long keys, one per run
        self.key_type: pa.DataType | None = None
        self._first = 0  # no live run stands before this one
        self._runs = 0
        self._used = 0
        self.unmatched = 0  # tuples in live runs that no page has answered

    @property
    def nbytes(self) -> int:
        arrays = (
            self._tickets,
            self._start,
            self._length,
            self._group,
            self._next,
            self._matched,
            self._in_block,
        )
        groups = (self._head, self._tail, self._free, self._lo, *(() if self._hi is None else (self._hi,)))
        index = 0 if self._index is None else self._index.nbytes
        return sum(a.nbytes for a in arrays + groups) + index + sum(part.nbytes for part in self._exact)

    @property
    def groups(self) -> int:
        """How many distinct keys wait."""
        return 0 if self._index is None else self._index.size

    # --- in ---------------------------------------------------------------------------------------------------

    def load(self, tuples: StreamTuples) -> int:
        """Appends tuples to the queue; returns in how many runs."""
        count = len(tuples)
        assert self.size + count <= self.capacity, "no more tuples than there is room for"
        if not count:
            return 0
        index = self._index_for(tuples.keys)
        told = distinct(tuples.keys)
        runs = len(told.first)
        if self._used + count > self._arena or self._runs + runs > self._arena:
            self._sweep()
        order = (
            np.sort((told.codes << 32) | np.arange(count)) & 0xFFFFFFFF
        )  # by key, oldest first within a key
        self._tickets[self._used : self._used + count] = tuples.tickets[order]
        new = np.arange(self._runs, self._runs + runs, dtype=np.int32)
        self._start[new] = self._used + np.concatenate([[0], np.cumsum(told.counts)[:-1]])
        self._length[new], self._next[new], self._matched[new] = told.counts, -1, False
        self._in_block += np.bincount(new // _BLOCK, told.counts, len(self._in_block)).astype(np.int32)
        keys = tuples.keys.take(told.first)
        self._link(index, keys, new)
        if keys.exact is not None:
            self._exact.append(keys.exact)
        self._used, self._runs, self.size = self._used + count, self._runs + runs, self.size + count
        self.unmatched += count
        return runs

    def _index_for(self, keys: Keys) -> HashIndex:
        if self._index is None:
            self._index = HashIndex(self.capacity, two_lanes=keys.hi is not None)
            self._hi = None if keys.hi is None else np.zeros(self.capacity, np.uint64)
            self.key_type = keys.type
        return self._index

    def _link(self, index: HashIndex, keys: Keys, runs: np.ndarray) -> None:
        """Hangs each run at the end of its key's chain."""
        group = index.find(keys)
        fresh = np.flatnonzero(group < 0)
        ids = self._free[self._free_count - len(fresh) : self._free_count].astype(np.int64)
        self._free_count -= len(fresh)
        group[fresh] = ids
        index.add(keys.take(fresh), ids)
        self._lo[ids] = keys.lo[fresh]
        if self._hi is not None and keys.hi is not None:
            self._hi[ids] = keys.hi[fresh]
        self._head[ids] = runs[fresh]
        known = np.ones(len(group), bool)
        known[fresh] = False
        self._next[self._tail[group[known]]] = runs[known]
        self._tail[group] = runs
        self._group[runs] = group

    # --- match ------------------------------------------------------------------------------------------------

    def match(self, keys: Keys, *, remove: bool) -> Found:
        """Finds the tuples of these distinct keys. They leave, or else stay, marked, until they expire."""
        if self._index is None or not self.size:
            return Found(NO_TICKETS, NO_TICKETS, len(keys))
        group = self._index.find(keys)
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
            self._drop_groups(group)
        return Found(tickets, np.repeat(rows, length), len(keys))

    def _walk(self, group: I64, row: I64) -> tuple[I64, I64]:
        """All runs of the groups, with the row each belongs to: one round per link, for all chains together."""
        runs, rows = [], []
        run = self._head[group].astype(np.int64)
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

    def _drop_groups(self, group: I64) -> None:
        assert self._index is not None, "groups live in the index"
        self._index.remove(self._lanes(group))
        self._free[self._free_count : self._free_count + len(group)] = group
        self._free_count += len(group)

    def _lanes(self, group: I64) -> Keys:
        return Keys(self._lo[group], None if self._hi is None else self._hi[group], None, self.key_type)

    # --- the queue --------------------------------------------------------------------------------------------

    def at(self, position: float, count: int) -> Keys:
        """Distinct keys of up to `count` runs from this position on: 0 is the newest tuple, 1 the oldest."""
        runs = self._live_from(self._run_at(position), count)
        groups, first = np.unique(self._group[runs], return_index=True)
        return self._keys(runs[first], groups.astype(np.int64))

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
        """Takes `count` tuples off the oldest end of the queue."""
        count = min(count, self.size)
        runs = self._oldest(count)
        length = self._length[runs].astype(np.int64)
        extra = int(length.sum()) - count
        length[-1:] -= extra  # the last run may be needed in part only
        tickets = self._tickets[_spread(self._start[runs], length)]
        keys = self._keys(runs, self._group[runs].astype(np.int64)).take(
            np.repeat(np.arange(len(runs)), length)
        )
        self.unmatched -= count
        whole = runs[:-1] if extra else runs
        self._cut_off(whole)
        if extra:
            self._shorten(int(runs[-1]), int(length[-1]))
        return StreamTuples(tickets, keys)

    def _oldest(self, tuples: int) -> I64:
        """The oldest live runs that together hold so many tuples."""
        before = np.cumsum(self._in_block)
        blocks = int(np.searchsorted(before, tuples)) + 1
        live = np.flatnonzero(self._length[self._first : min(self._runs, blocks * _BLOCK)]) + self._first
        held = np.cumsum(self._length[live])
        return live[: int(np.searchsorted(held, tuples)) + 1] if tuples else live[:0]

    def expire(self, runs: int) -> StreamTuples | None:
        """Takes off the oldest `runs` runs; gives back those tuples of them that nothing answered."""
        oldest = np.arange(self._first, self._first + runs)
        lost = oldest[~self._matched[oldest]]
        out = None
        if len(lost):
            length = self._length[lost].astype(np.int64)
            keys = self._keys(lost, self._group[lost].astype(np.int64)).take(
                np.repeat(np.arange(len(lost)), length)
            )
            out = StreamTuples(self._tickets[_spread(self._start[lost], length)], keys)
            self.unmatched -= len(out)
        self._cut_off(oldest)
        self._first += runs
        return out

    def _cut_off(self, runs: I64) -> None:
        """Removes runs that are the oldest of their chains (several of one chain come in order of age)."""
        group = self._group[runs].astype(np.int64)
        self._head[group] = self._next[runs]  # of several the last assignment stands: the newest one removed
        self._kill(runs)
        group = np.unique(group)
        self._drop_groups(group[self._head[group] < 0])

    def _shorten(self, run: int, by: int) -> None:
        self._start[run] += by
        self._length[run] -= by
        self._in_block[run // _BLOCK] -= by
        self.size -= by

    def _keys(self, runs: I64, groups: I64) -> Keys:
        lanes = self._lanes(groups)
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
        self._head[group], self._tail[group] = number[self._head[group]], number[self._tail[group]]
        if self._exact:
            self._exact = [pa.concat_arrays(self._exact).take(pa.array(live))]
        self._matched[: len(live)] = self._matched[live]
        self._group[: len(live)] = group
        self._length[:] = 0
        self._length[: len(live)] = length
        self._start[: len(live)] = np.cumsum(length) - length
        self._tickets[: len(tickets)] = tickets
        self._in_block = np.bincount(np.arange(len(live)) // _BLOCK, length, len(self._in_block)).astype(
            np.int32
        )
        self._runs, self._used, self._first = len(live), len(tickets), 0


def _spread(start: np.ndarray, length: I64) -> I64:
    """The places start … start + length - 1 of every run, one after the other."""
    ends = np.cumsum(length)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(start - (ends - length), length)
