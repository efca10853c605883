"""From runs of a tree to pairs of ids: each at one joiner, up to a limit.

Two documents may meet at several joiners. Their pair is produced only at the smallest partition that both went to.
`lower` has, one bit per partition, the partitions below this joiner's that a document went to as well: if two documents
have a common bit there, their pair belongs to another joiner.

    block of runs ─► counted ─► as many as still fit into the limit ─► pairs        (ADR 123)
         ▲                                                               │
         └────────────── the next one, in the same memory ◄──────────────┘
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from etl.columnar.jit import kernel
from etl.correlate.documents.dictionary import I32, I64, U64
from etl.correlate.documents.joining.descent import Block
from etl.correlate.documents.model import Pairs

_RESERVED = 1 << 23  # pairs that room may be reserved for on an estimate alone


@dataclass(frozen=True, slots=True)
class Side:
    """Ids of documents with their partitions below this joiner's, one row of words each (no words: none)."""

    ids: I64
    lower: U64

    def take(self, positions: I64) -> Side:
        return Side(self.ids[positions], self.lower[positions])


@dataclass(frozen=True, slots=True)
class Made:
    """Pairs, and their number before the limit."""

    pairs: Pairs
    found: int


def nowhere_else(count: int) -> U64:
    """`lower` of documents that went to one joiner only."""
    return np.empty((count, 0), np.uint64)


def make_pairs(tree: Side, probing: Side, blocks: Iterator[Block], at_most: int) -> Made:
    """This joiner's pairs of the runs; the first `at_most` of them in the order of the runs. All are counted.

    `tree`: the documents of the tree, in its order.
    """
    lower, others = tree.lower, probing.lower
    if not (lower.any() and others.any()):
        lower, others = nowhere_else(len(lower)), nowhere_else(len(others))
    results, found = _Results(max(at_most, 0)), 0
    for block in blocks:
        count = _count(block.runs, lower, others) if lower.shape[1] else block.pairs
        found += count
        left, right = results.extend(count, block.done / len(probing.ids))
        if len(left):
            _fill(block.runs, tree.ids, probing.ids, lower, others, left, right)
    return Made(results.pairs(), found)


class _Results:
    """Two arrays of pairs that grow, up to a limit."""

    def __init__(self, at_most: int) -> None:
        self._at_most, self._count = at_most, 0
        self._left, self._right = np.empty(0, np.int64), np.empty(0, np.int64)

    def extend(self, count: int, share: float) -> tuple[I64, I64]:
        """Places for more pairs, fewer where the limit is reached, when this share of the documents is through."""
        start, self._count = self._count, min(self._count + count, self._at_most)
        if self._count > len(self._left):
            self._grow(start, share)
        return self._left[start : self._count], self._right[start : self._count]

    def pairs(self) -> Pairs:
        return Pairs(self._left[: self._count], self._right[: self._count])

    def _grow(self, start: int, share: float) -> None:
        """Reserve what all documents will probably need: pages that stay unused are never touched."""
        expected = int(1.1 * self._count / share) if share < 1 else self._count
        room = min(max(self._count, min(expected, max(_RESERVED, 2 * self._count))), self._at_most)
        left, right = np.empty(room, np.int64), np.empty(room, np.int64)
        left[:start], right[:start] = self._left[:start], self._right[:start]
        self._left, self._right = left, right


@kernel
def _elsewhere(one: U64, other: U64) -> bool:
    common = np.uint64(0)
    for word in range(len(one)):
        common |= one[word] & other[word]
    return bool(common != 0)


@kernel
def _count(runs: I32, tree_lower: U64, probe_lower: U64) -> int:
    count = 0
    for run in range(len(runs)):
        mine = probe_lower[runs[run, 0]]
        for position in range(runs[run, 1], runs[run, 2]):
            count += not _elsewhere(mine, tree_lower[position])
    return count


@kernel
def _fill(runs: I32, tree_ids: I64, probe_ids: I64, tree_lower: U64, probe_lower: U64, left: I64, right: I64) -> None:
    """Fill the arrays with pairs."""
    filtered, count = tree_lower.shape[1] > 0, 0
    for run in range(len(runs)):
        probe, mine = probe_ids[runs[run, 0]], probe_lower[runs[run, 0]]
        for position in range(runs[run, 1], runs[run, 2]):
            if count == len(left):
                return
            if filtered and _elsewhere(mine, tree_lower[position]):
                continue
            other = tree_ids[position]
            left[count], right[count] = min(probe, other), max(probe, other)
            count += 1
