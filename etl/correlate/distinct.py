"""DISTINCT: the rows of a batch of results that are new.

A row is stored as a 128-bit fingerprint, 16 bytes for any width, in the same kind of runs as join state. Without a
window nothing ever expires, as DISTINCT over an unbounded stream requires. Equality is SQL's for DISTINCT: NULL equals
NULL.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from etl.columnar import keys as key_codec
from etl.correlate.index.chain import ChainConfig, ChainedIndex, Effort
from etl.correlate.model import I64, Tuples, Window


def fingerprints(batch: pa.RecordBatch) -> key_codec.Keys:
    """A key per row, equal for rows that are not distinct."""
    parts: list[pa.Array] = []
    for column in batch.columns:
        column = key_codec.to_contiguous(column)
        if pa.types.is_integer(column.type) and not pa.types.is_uint64(column.type):
            parts.append(column.cast(pa.int64()).fill_null(0))
        else:
            parts.append(column.cast(pa.string()).fill_null(""))
        parts.append(column.is_null().cast(pa.int64()))
    return key_codec.encode(pa.StructArray.from_arrays(parts, [str(number) for number in range(len(parts))]))


def _chain() -> ChainedIndex:
    return ChainedIndex(ChainConfig("left", Window.full_history(), "hash"))


@dataclass(slots=True)
class Deduplicator:
    """Keeps the fingerprints of all emitted rows."""

    seen: ChainedIndex = field(default_factory=_chain)

    def first_seen(self, batch: pa.RecordBatch) -> I64:
        """Positions of the rows to keep: the first occurrence of each new row."""
        if not batch.num_rows:
            return np.zeros(0, np.int64)
        keys = fingerprints(batch)
        first = np.sort(key_codec.distinct(keys).first)
        hi = np.zeros(0, np.uint64) if keys.hi is None else keys.hi[first]
        zeros = np.zeros(len(first), np.int64)
        rows = Tuples(zeros, zeros, np.arange(len(first)), keys.lo[first], hi)
        effort, known = Effort(), np.zeros(len(first), bool)
        for found in self.seen.probe(self.seen.probes(rows), effort):
            known[found.places] = True
        fresh = rows.take(~known)
        for _ in self.seen.insert(fresh, None, effort):
            pass
        return np.asarray(first[~known])

    @property
    def nbytes(self) -> int:
        return self.seen.nbytes
