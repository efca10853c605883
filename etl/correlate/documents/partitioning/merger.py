"""From the groups of all creators to m partitions.

1. A group that is a subset of another is merged into it; loads add up, as creators see different documents.
2. A pair of several groups stays in the one with the fewest pairs.
3. The m groups with the highest loads seed the partitions; the others follow, heaviest first, each to the lightest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from etl.columnar.jit import allocating_kernel as kernel
from etl.correlate.documents.dictionary import I64
from etl.correlate.documents.partitioning.groups import Groups, concat, grouped
from etl.correlate.documents.partitioning.partitions import Partitions, bits
from etl.correlate.documents.partitioning.routing import Routing


def consolidate(parts: Sequence[Groups]) -> Groups:
    """Steps 1 and 2: groups that share no pair."""
    return _without_duplicates(_merge_subsets(concat(parts)))


def partition(groups: Groups, routing: Routing, count: int) -> Partitions:
    """Step 3: every group to one of `count` partitions."""
    heaviest_first = np.lexsort((np.arange(len(groups)), -groups.loads))
    target, loads = _spread(heaviest_first, groups.loads, count)
    return Partitions.of(routing, count, groups.hashes, bits(target[groups.owners], count), loads)


def _merge_subsets(groups: Groups) -> Groups:
    hashes, codes = np.unique(groups.hashes, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    postings = groups.owners[order]
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(codes, minlength=len(hashes)))])
    into = _superset(groups.offsets, codes, starts, postings)
    loads = np.bincount(into, weights=groups.loads, minlength=len(groups)).astype(np.int64)
    kept = np.flatnonzero(into == np.arange(len(groups)))
    number = np.full(len(groups), -1, np.int64)
    number[kept] = np.arange(len(kept))
    owner = number[groups.owners]
    return grouped(owner[owner >= 0], groups.hashes[owner >= 0], loads[kept])


def _without_duplicates(groups: Groups) -> Groups:
    owners = groups.owners
    order = np.lexsort((owners, groups.sizes[owners], groups.hashes))
    hashes = groups.hashes[order]
    first = np.ones(len(hashes), np.bool_)
    first[1:] = hashes[1:] != hashes[:-1]
    kept = order[first]
    alive, owner = np.unique(owners[kept], return_inverse=True)
    return grouped(owner, groups.hashes[kept], groups.loads[alive])


@kernel
def _superset(offsets: I64, codes: I64, starts: I64, postings: I64) -> I64:
    """For every group the smallest superset, itself if there is none; followed transitively."""
    count = len(offsets) - 1
    into, mark = np.arange(count), np.full(len(starts), -1, np.int64)
    for group in range(count):
        low, high = offsets[group], offsets[group + 1]
        rarest = codes[low] if high > low else -1
        for position in range(low, high):
            code = codes[position]
            mark[code] = group
            if starts[code + 1] - starts[code] < starts[rarest + 1] - starts[rarest]:
                rarest = code
        best, best_size = group, np.int64(2**62)
        for posting in range(starts[rarest], starts[rarest + 1]) if rarest >= 0 else range(0):
            other = postings[posting]
            size = offsets[other + 1] - offsets[other]
            larger = size > high - low or (size == high - low and other < group)  # of equal groups the first wins
            if not larger or size >= best_size:
                continue
            common = 0
            for position in range(offsets[other], offsets[other + 1]):
                common += mark[codes[position]] == group
            if common == high - low:
                best, best_size = other, size
        into[group] = best
    for group in range(count):
        while into[into[group]] != into[group]:
            into[group] = into[into[group]]
    return into


@kernel
def _spread(order: I64, loads: I64, count: int) -> tuple[I64, I64]:
    target, total = np.zeros(len(loads), np.int64), np.zeros(count, np.int64)
    for place, group in enumerate(order):
        lightest = place if place < count else np.argmin(total)
        target[group] = lightest
        total[lightest] += loads[group]
    return target, total
