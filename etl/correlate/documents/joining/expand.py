"""From runs of a tree to pairs of ids: each at one joiner, up to a limit.

Two documents may meet at several joiners. Their pair is produced only at the smallest partition that both went to.
`lower` has, one bit per partition, the partitions below this joiner's that a document went to as well: if two documents
have a common bit there, their pair belongs to another joiner.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from etl.columnar.jit import allocating_kernel as kernel
from etl.correlate.documents.dictionary import I32, I64, U64
from etl.correlate.documents.joining.tree import FPTree, Runs
from etl.correlate.documents.model import Documents, Pairs


@dataclass(frozen=True, slots=True)
class Probing:
    """Documents with their partitions below this joiner's, one row of words each (no words: none)."""

    documents: Documents
    lower: U64


@dataclass(frozen=True, slots=True)
class Made:
    """Pairs, and their number before the limit."""

    pairs: Pairs
    found: int


def nowhere_else(count: int) -> U64:
    """`lower` of documents that went to one joiner only."""
    return np.empty((count, 0), np.uint64)


def make_pairs(tree: FPTree, tree_lower: U64, probing: Probing, runs: Runs, at_most: int) -> Made:
    """This joiner's pairs of the runs; the first `at_most` of them in the order of the runs."""
    lower, others = tree_lower[tree.order], probing.lower
    if not (lower.any() and others.any()):
        lower, others = nowhere_else(len(lower)), nowhere_else(len(others))
    found = _count(runs.found, lower, others) if lower.shape[1] else runs.count
    kept = min(found, max(at_most, 0))
    ids = tree.documents.ids[tree.order]
    pairs = Pairs(np.empty(kept, np.int64), np.empty(kept, np.int64))
    _fill(runs.found, ids, probing.documents.ids, lower, others, pairs.left, pairs.right)
    return Made(pairs, found)


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
