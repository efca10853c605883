"""The same joins, materialised at every step: the baseline and the oracle for late materialisation.

A `Flat` holds every combination as a row of row numbers, one per stream. Its size is the product where a `Factor`'s
is the sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from etl.columnar import bitsets, csr
from etl.columnar.bitsets import U64
from etl.columnar.csr import I32, Csr
from etl.correlate.adhoc.query.model import Edge, End
from etl.correlate.adhoc.run.joins import kernels
from etl.correlate.adhoc.run.joins.bucket import Bucket
from etl.correlate.adhoc.run.joins.factor import Factor, QuerySets, Rows, common_numbering, mask_row


@dataclass(frozen=True, slots=True)
class Flat:
    buckets: Mapping[str, Bucket]
    rows: Mapping[str, I32]
    sets: QuerySets
    last: Edge | None = None  # the edge that was joined last

    def index(self, end: End) -> Csr:
        """Positions of combinations by an attribute of one of their streams."""
        bucket = self.buckets[end.stream]
        return csr.reindex(bucket.index(end.columns), bucket.codes(end.columns), self.rows[end.stream])


def flatten_leaf(leaf: Factor) -> Flat:
    """A bucket's tuples that some query selects, as combinations of one."""
    ((stream, sets),) = leaf.sets.items()
    rows = np.flatnonzero(bitsets.any_bit(sets.words)).astype(np.int32)
    return Flat(leaf.buckets, {stream: rows}, QuerySets(sets.mask, sets.words[rows]))


def join_flat(left: Flat, right: Flat, edge: Edge, mask: int) -> Flat | None:
    numbering = common_numbering(left.sets, right.sets, mask)
    if not numbering & mask:
        return None
    left_index, right_index = left.index(edge.left), right.index(edge.right)
    at_left, at_right = csr.intersect(left_index, right_index)
    one, other, words = kernels.pairs(
        left_index.offsets, left_index.members, left.sets.narrow(numbering), at_left,
        right_index.offsets, right_index.members, right.sets.narrow(numbering), at_right, mask_row(mask, numbering),
    )  # fmt: skip
    rows = {stream: each[one] for stream, each in left.rows.items()}
    rows |= {stream: each[other] for stream, each in right.rows.items()}
    return Flat({**left.buckets, **right.buckets}, rows, QuerySets(numbering, words), edge) if len(words) else None


def flat_rows(flat: Flat, mask: int) -> Rows:
    words: U64 = flat.sets.words & mask_row(mask, flat.sets.mask)
    return Rows(flat.rows, words, flat.sets.mask)


def flat_counts(flat: Flat, mask: int) -> dict[int, int]:
    numbering = flat.sets.mask
    counts = bitsets.bit_counts(flat_rows(flat, mask).words, numbering.bit_count())
    return {n: int(c) for n, c in zip(bitsets.positions_of(numbering), counts, strict=True) if c}


def restricted(flat: Flat, keep: np.ndarray) -> Flat:
    """Some of the combinations."""
    rows = {stream: each[keep] for stream, each in flat.rows.items()}
    return replace(flat, rows=rows, sets=QuerySets(flat.sets.mask, flat.sets.words[keep]))
