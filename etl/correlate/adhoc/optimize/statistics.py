"""Statistics of the streams: a sample of each, with every query's selections evaluated on it.

    rows        number of tuples in a slot
    bits        [sampled tuples, queries]: which query selects which tuple
    keys        attribute ──► the sampled tuples' key numbers

All cardinalities come from these bits (Crd of a union is the number of rows with any of the bits), scaled from sample
to slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etl.columnar import bitsets, csr
from etl.correlate.adhoc.query.keys import index_by
from etl.correlate.adhoc.query.model import End, Query, Stream
from etl.correlate.adhoc.query.selections import Selections

SAMPLE_ROWS = 1024
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class StreamSample:
    """One stream's sample. `bits` has a column per query that reads the stream."""

    rows: float
    bits: Bools
    columns: Mapping[str, int]  # query to its column
    keys: Mapping[tuple[str, ...], npt.NDArray[np.int32]]

    @cached_property
    def scale(self) -> float:
        return self.rows / max(1, len(self.bits))

    def wanted(self, queries: Iterable[str]) -> Bools:
        """The sampled tuples that some of the queries select."""
        at = [self.columns[name] for name in queries]
        if len(at) == 1:
            return self.bits[:, at[0]]
        return np.asarray(self.bits[:, at].any(axis=1))


@dataclass(frozen=True)
class Statistics:
    samples: Mapping[str, StreamSample]

    def cardinality(self, stream: str, queries: Iterable[str]) -> float:
        """Crd: tuples per slot that some of the queries select (equation 1, computed as a union)."""
        sample = self.samples[stream]
        return float(np.count_nonzero(sample.wanted(queries))) * sample.scale

    def distinct(self, end: End, queries: Iterable[str]) -> float:
        """Distinct keys per slot among those tuples: exact if all were sampled, else Chao's estimate from rare keys."""
        sample = self.samples[end.stream]
        keys = sample.keys[end.columns][sample.wanted(queries)]
        counts = np.bincount(keys[keys >= 0]) if len(keys) else np.zeros(0, np.int64)
        counts = counts[counts > 0]
        if sample.scale <= 1:
            return float(len(counts))
        once, twice = int(np.count_nonzero(counts == 1)), int(np.count_nonzero(counts == 2))
        unseen = once * (once - 1) / (2 * (twice + 1))
        return min(len(counts) + unseen, float(counts.sum()) * sample.scale)


def sample_streams(
    streams: Mapping[str, Stream], queries: Mapping[str, Query], tables: Mapping[str, pa.Table], seed: int,
    rows: int = SAMPLE_ROWS,
) -> Statistics:  # fmt: skip
    """Samples of the given slot's tables. A stream without tuples counts as empty."""
    samples = {}
    for name, stream in streams.items():
        readers = [query for query in queries.values() if name in query.streams]
        if readers:
            table = tables.get(name)
            empty = pa.schema(list(stream.columns.items())).empty_table()
            samples[name] = _sample(stream, readers, empty if table is None else table, seed, rows)
    return Statistics(samples)


def _sample(stream: Stream, readers: list[Query], table: pa.Table, seed: int, rows: int) -> StreamSample:
    total = table.num_rows
    if total > rows:
        chosen = np.sort(np.random.default_rng(seed).choice(total, rows, replace=False))
        table = table.take(pa.array(chosen))
    selections = Selections(stream.columns, [query.selections.get(stream.name) for query in readers])
    cells = selections.locate(table)
    words = selections.evaluate(cells, table.num_rows, (1 << len(readers)) - 1)
    attributes = {end.columns for query in readers for end in query.attributes(stream.name)}
    keys = {columns: csr.codes_of(index_by(table, columns), table.num_rows) for columns in attributes}
    bits = bitsets.unpack(words, len(readers))
    return StreamSample(float(total), bits, {query.name: at for at, query in enumerate(readers)}, keys)
