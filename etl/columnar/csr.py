"""An index in compressed sparse rows: sorted distinct keys, and for each of them the rows that have it.

    lo, hi    distinct keys, ascending as signed integers; `hi` only where keys need two lanes (see `keys`)
    offsets   key k's rows are members[offsets[k] : offsets[k + 1]]
    members   row numbers; within a key in ascending order

Two indexes are joined by intersecting their keys (`intersect`): nothing is looked at per row. An index never changes; a
smaller one is made by `retain`, by a pass over the members, without sorting again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from etl.columnar.jit import allocating_kernel as kernel
from etl.columnar.keys import Keys

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

_DENSE = 4  # a key range up to this many times the rows is sorted by counting


@dataclass(frozen=True, slots=True)
class Csr:
    lo: I64
    hi: I64 | None
    offsets: I64
    members: I32

    def __len__(self) -> int:
        """How many distinct keys."""
        return len(self.lo)

    @property
    def nbytes(self) -> int:
        hi = 0 if self.hi is None else self.hi.nbytes
        return self.lo.nbytes + hi + self.offsets.nbytes + self.members.nbytes

    def keys(self, at: npt.NDArray[np.integer]) -> tuple[I64, I64 | None]:
        return self.lo[at], None if self.hi is None else self.hi[at]


def build(keys: Keys, rows: I32) -> Csr:
    """Index `rows`, ascending, by `keys`, one per row and none NULL."""
    lo = keys.lo.view(np.int64)
    if keys.hi is not None:
        return _build_sorted(lo, keys.hi.view(np.int64), rows)
    if len(lo):
        low, high = int(lo.min()), int(lo.max())
        if high - low < _DENSE * len(lo) + 1024:
            distinct, offsets, members = _count_sort(lo, rows, low, high - low + 1)
            return Csr(distinct, None, offsets, members)
    return _build_sorted(lo, None, rows)


def _build_sorted(lo: I64, hi: I64 | None, rows: I32) -> Csr:
    order = np.argsort(lo, kind="stable") if hi is None else np.lexsort((hi, lo))
    first = np.ones(len(order), bool)
    sorted_lo = lo[order]
    first[1:] = sorted_lo[1:] != sorted_lo[:-1]
    sorted_hi = None if hi is None else hi[order]
    if sorted_hi is not None:
        first[1:] |= sorted_hi[1:] != sorted_hi[:-1]
    starts = np.flatnonzero(first)
    offsets = np.append(starts, len(order)).astype(np.int64)
    return Csr(sorted_lo[starts], None if sorted_hi is None else sorted_hi[starts], offsets, rows[order])


@kernel
def _count_sort(lo: I64, rows: I32, low: int, span: int) -> tuple[I64, I64, I32]:
    ends = np.zeros(span + 1, np.int64)
    for at in range(len(lo)):
        ends[lo[at] - low + 1] += 1
    count = 0
    for value in range(1, span + 1):
        if ends[value]:
            count += 1
    distinct, offsets = np.empty(count, np.int64), np.zeros(count + 1, np.int64)
    at_key = 0
    for value in range(1, span + 1):
        if ends[value]:
            distinct[at_key] = low + value - 1
            offsets[at_key + 1] = offsets[at_key] + ends[value]
            at_key += 1
        ends[value] += ends[value - 1]
    members = np.empty(len(lo), np.int32)
    for at in range(len(lo)):
        value = lo[at] - low
        members[ends[value]] = rows[at]
        ends[value] += 1
    return distinct, offsets, members


def codes_of(index: Csr, rows: int) -> I32:
    """For each row the number of its key, -1 for rows that the index does not hold."""
    codes = np.full(rows, -1, np.int32)
    codes[index.members] = np.repeat(np.arange(len(index), dtype=np.int32), np.diff(index.offsets))
    return codes


def retain(index: Csr, keep: Bools) -> Csr:
    """The index restricted to rows with `keep[row]`, without keys that lose all their rows."""
    offsets, members = _retain(index.offsets, index.members, keep)
    return _without_empty(index, offsets, members)


@kernel
def _retain(offsets: I64, members: I32, keep: Bools) -> tuple[I64, I32]:
    ends, kept = np.zeros(len(offsets), np.int64), np.empty(len(members), np.int32)
    count = 0
    for key in range(len(offsets) - 1):
        for at in range(offsets[key], offsets[key + 1]):
            if keep[members[at]]:
                kept[count] = members[at]
                count += 1
        ends[key + 1] = count
    return ends, kept[:count]


def reindex(index: Csr, codes: I32, rows: I32) -> Csr:
    """Index positions 0 … len(rows) of a list of rows, by reference: row's key is number `codes[row]` of `index`.

    This is how a join's result is indexed by its next attribute: only the rows of the stream that has the attribute are
    looked at, and only their key's number.
    """
    offsets, members = _reindex(len(index), codes, rows)
    return _without_empty(index, offsets, members)


@kernel
def _reindex(keys: int, codes: I32, rows: I32) -> tuple[I64, I32]:
    ends = np.zeros(keys + 1, np.int64)
    for row in rows:
        if codes[row] >= 0:
            ends[codes[row] + 1] += 1
    for key in range(keys):
        ends[key + 1] += ends[key]
    members, free = np.empty(ends[keys], np.int32), ends.copy()
    for at in range(len(rows)):
        code = codes[rows[at]]
        if code >= 0:
            members[free[code]] = at
            free[code] += 1
    return ends, members


def _without_empty(index: Csr, offsets: I64, members: I32) -> Csr:
    full = np.flatnonzero(offsets[1:] != offsets[:-1])
    if len(full) == len(index):
        return Csr(index.lo, index.hi, offsets, members)
    lo, hi = index.keys(full)
    return Csr(lo, hi, np.append(offsets[full], offsets[-1:]), members)


def intersect(left: Csr, right: Csr) -> tuple[I64, I64]:
    """The keys that both have, as positions in each, ascending."""
    if left.hi is not None and right.hi is not None:
        return _merge(left.lo, left.hi, right.lo, right.hi)
    return _merge(left.lo, left.lo, right.lo, right.lo)


@kernel
def _merge(left: I64, left_hi: I64, right: I64, right_hi: I64) -> tuple[I64, I64]:
    size = min(len(left), len(right))
    at_left, at_right = np.empty(size, np.int64), np.empty(size, np.int64)
    i = j = count = 0
    while i < len(left) and j < len(right):
        if left[i] < right[j] or (left[i] == right[j] and left_hi[i] < right_hi[j]):
            i += 1
        elif left[i] > right[j] or left_hi[i] > right_hi[j]:
            j += 1
        else:
            at_left[count], at_right[count] = i, j
            i, j, count = i + 1, j + 1, count + 1
    return at_left[:count], at_right[:count]
