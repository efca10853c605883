"""How many results every query has, all queries at once, without making one.

two streams    per matched key, the product of both sides' counts
more           counts travel along the links towards the last one: a tuple's weight for query q is the product,
               over its other links, of the summed weights at its key; 64 queries at a time
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from etl.columnar import bitsets
from etl.columnar.csr import I32, I64
from etl.correlate.adhoc.run import kernels
from etl.correlate.adhoc.run.factor import Factor, Link, common_numbering, mask_row


def count(factor: Factor, mask: int) -> dict[int, int]:
    """The number of results of each query in `mask`, by the query's number; none for queries without a result."""
    if len(factor.links) == 1:
        return _count_pairs(factor, factor.links[0], mask)
    found: dict[int, int] = {}
    for block in _blocks(factor.mask & mask):
        totals = _totals(factor, {stream: _places(sets.mask, block) for stream, sets in factor.sets.items()})
        found |= {n: int(c) for n, c in zip(bitsets.positions_of(block), totals, strict=True) if c}
    return found


def _count_pairs(factor: Factor, link: Link, mask: int) -> dict[int, int]:
    of_left, of_right = factor.sets[link.edge.left.stream], factor.sets[link.edge.right.stream]
    numbering = common_numbering(of_left, of_right, mask)
    counts = kernels.pair_counts(
        link.left.offsets, link.left.members, of_left.narrow(numbering), link.at_left,
        link.right.offsets, link.right.members, of_right.narrow(numbering), link.at_right,
        mask_row(mask, numbering), numbering.bit_count(),
    )  # fmt: skip
    return {n: int(c) for n, c in zip(bitsets.positions_of(numbering), counts, strict=True) if c}


def _blocks(mask: int) -> Iterator[int]:
    positions = bitsets.positions_of(mask)
    for start in range(0, len(positions), bitsets.WORD):
        yield bitsets.mask_of(positions[start : start + bitsets.WORD])


def _places(numbering: int, block: int) -> I32:
    """Where the block's queries have their bits in a numbering: nothing is renumbered for a handful of queries."""
    below = [(numbering & ((1 << number) - 1)).bit_count() for number in bitsets.positions_of(block)]
    return np.array(below, np.int32)


def _totals(factor: Factor, places: Mapping[str, I32]) -> I64:
    link = factor.links[-1]
    sides = [_message(factor, link, end.stream, places) for end in (link.edge.left, link.edge.right)]
    return np.asarray((sides[0] * sides[1]).sum(axis=0), np.int64)


def _message(factor: Factor, link: Link, stream: str, places: Mapping[str, I32]) -> I64:
    """Per matched key of a link and query, the weight of one side: of its stream and all that hangs on it."""
    index, at = link.side(stream)
    weights = np.ones((0, len(places[stream])), np.int64)
    for other in factor.links:
        if other is link or stream not in other.edge.streams:
            continue
        message = _message(factor, other, other.other(stream), places)
        numbers = other.numbers(stream, len(factor.buckets[stream]))
        weights = kernels.weigh(weights, numbers, message)
    return kernels.key_weights(index.offsets, index.members, at, factor.sets[stream].words, places[stream], weights)
