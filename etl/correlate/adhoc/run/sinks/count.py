"""The number of results of all queries at once, without materialising any.

Two streams: per matched key the product of both sides' counts, word by word. More:

    weight     of a row and query: the number of combinations of its side that contain it, the product over the side's
               links of the summed weights at its key; without links 1
    at a key   the summed weights of a side's rows, query by query
    count      the sum over common keys of the products of both sides' weights

A side of a last join is joined with many others: (V ⋈ W) of two slots with C of every slot of the window. Its weights
per key do not depend on the other side, so they are computed once for all, 64 queries at a time (ADR 107).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from etl.columnar import bitsets
from etl.columnar.csr import I32, I64, Csr
from etl.correlate.adhoc.query.model import End
from etl.correlate.adhoc.run.joins import kernels
from etl.correlate.adhoc.run.joins.factor import Factor, Link, common_numbering, mask_row

WEIGHT_BYTES = 64 << 20  # limit of cached weights; the oldest are evicted and recomputed
_NONE = np.ones((0, 0), np.int64)  # no weights: every row counts once
Counts = dict[int, int]


def counts(joined: Sequence[tuple[Factor, int]], most_bytes: int = WEIGHT_BYTES) -> Counts:
    """The number of results of each query of the masks over all joins, by query number; without zeros."""
    everybody, found, longer = 0, Counts(), list[tuple[Factor, int]]()
    for factor, mask in joined:
        if len(factor.links) == 1:
            _count_pairs(found, factor, factor.links[0], mask)
        else:
            longer.append((factor, factor.mask & mask))
            everybody |= factor.mask & mask
    for block in _blocks(everybody):
        scales = _Scales(block, most_bytes)
        for factor, mask in longer:
            if mask & block:
                _add(found, mask & block, scales.count(factor, mask & block))
    return {number: many for number, many in found.items() if many}


def _add(found: Counts, mask: int, more: I64) -> None:
    for number, many in zip(bitsets.positions_of(mask), more.tolist(), strict=True):
        found[number] = found.get(number, 0) + many


def _count_pairs(found: Counts, factor: Factor, link: Link, mask: int) -> None:
    of_left, of_right = factor.sets[link.edge.left.stream], factor.sets[link.edge.right.stream]
    numbering = common_numbering(of_left, of_right, mask)
    pairs = kernels.pair_counts(
        link.left.offsets, link.left.members, of_left.narrow(numbering), link.at_left,
        link.right.offsets, link.right.members, of_right.narrow(numbering), link.at_right,
        mask_row(mask, numbering), numbering.bit_count(),
    )  # fmt: skip
    _add(found, numbering, pairs)


def _blocks(mask: int) -> Iterator[int]:
    positions = bitsets.positions_of(mask)
    for start in range(0, len(positions), bitsets.WORD):
        yield bitsets.mask_of(positions[start : start + bitsets.WORD])


def _places(numbering: int, block: int) -> I32:
    """The bit positions of the block's queries in a numbering, so that sets need not be renumbered."""
    below = [(numbering & ((1 << number) - 1)).bit_count() for number in bitsets.positions_of(block)]
    return np.array(below, np.int32)


class _Scales:
    """A cache of the weights per key of sides of last joins, for the queries of a block."""

    def __init__(self, block: int, most_bytes: int) -> None:
        self._block, self._most_bytes, self._bytes = block, most_bytes, 0
        self._known: dict[tuple[int, End, int], tuple[int, I64]] = {}

    def count(self, factor: Factor, queries: int) -> I64:
        """The results of each of the queries."""
        link = factor.links[-1]
        left, right = factor.sides
        of_left, left_weights = self._at_keys(left, link.edge.left, link.left)
        of_right, right_weights = self._at_keys(right, link.edge.right, link.right)
        return kernels.dot(
            left_weights, link.at_left, _places(of_left, queries),
            right_weights, link.at_right, _places(of_right, queries),
        )  # fmt: skip

    def _at_keys(self, side: Factor, end: End, index: Csr) -> tuple[int, I64]:
        """A side's weights per key of its index and query, and the queries they are for."""
        key = (id(side), end, id(index))  # ids are stable: the caller references the side, and the side its indexes
        if key not in self._known:
            sets = side.alive(end.stream)
            asked = sets.mask & self._block
            rows = _weights(side, end.stream, asked)
            every = np.arange(len(index.lo), dtype=np.int64)
            made = kernels.key_weights(index.offsets, index.members, every, sets.words, _places(sets.mask, asked), rows)
            self._known[key] = asked, made
            self._bytes += made.nbytes
            while self._bytes > self._most_bytes and len(self._known) > 1:
                self._bytes -= self._known.pop(next(iter(self._known)))[1].nbytes
        return self._known[key]


def _weights(side: Factor, stream: str, queries: int, came_by: Link | None = None) -> I64:
    """Per row of a stream and query, the product of the factors of its links, except `came_by`."""
    found = _NONE
    for link in side.links:
        if link is came_by or stream not in link.edge.streams:
            continue
        other = link.other(stream)
        (index, at), sets = link.side(other), side.sets[other]
        beyond = _weights(side, other, queries, link)
        message = kernels.key_weights(index.offsets, index.members, at, sets.words, _places(sets.mask, queries), beyond)
        found = kernels.weigh(found, link.numbers(stream, len(side.buckets[stream])), message)
    return found
