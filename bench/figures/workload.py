"""What is joined: masters of 120-byte rows cut into pages, and streams of keys.

    R   keys 0 … n-1, published once as master pages; 1,024 rows (123 KB) of a large R are one page, the unit of reading
    S   keys drawn from a bounded Zipf law; hot keys lie anywhere in R, as in the paper's unsorted master
        25 slices one after the other, each with hot keys of its own (temporal locality)

`FirstPages` shows only the first pages of a master: every size of R, and an R that grows, from one published file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etl.masters.memory import MemoryMaster
from etl.masters.pages.publish import PublishConfig, Publisher
from etl.masters.pages.runs.writer import PageSize
from etl.masters.pages.store import PageStore
from etl.masters.source import Snapshot
from etl.samples.zipf import BoundedZipf

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
ROW_BYTES = 120
STREAM_TUPLES = 2_000_000
_KEY_BYTES, _OFFSET_BYTES = 8, 4
_BATCH_ROWS = 131_072


class Master(Protocol):
    """All three ways into a master."""

    def lookup(self, keys: pa.Array) -> pa.Table: ...

    def page_count(self) -> int: ...

    def read_pages(self, first: int, count: int) -> pa.Table: ...

    def pages_holding(self, keys: pa.Array) -> tuple[pa.Table, int]: ...


@dataclass(slots=True)
class FirstPages:
    """The first `pages` pages of a master whose keys rise from page to page."""

    whole: Master
    pages: int

    def lookup(self, keys: pa.Array) -> pa.Table:
        return self.whole.lookup(keys)

    def page_count(self) -> int:
        return self.pages

    def read_pages(self, first: int, count: int) -> pa.Table:
        return self.whole.read_pages(first, count)

    def pages_holding(self, keys: pa.Array) -> tuple[pa.Table, int]:
        return self.whole.pages_holding(keys)


def batches(rows: int, row_bytes: int) -> Iterator[pa.RecordBatch]:
    """Rows of exactly so many bytes in Arrow, in key order."""
    body = "x" * (row_bytes - _KEY_BYTES - _OFFSET_BYTES)
    for start in range(0, rows, _BATCH_ROWS):
        ids = np.arange(start, min(rows, start + _BATCH_ROWS), dtype=np.int64)
        yield pa.record_batch({"id": pa.array(ids), "body": pa.array([body]).take(pa.array(np.zeros(len(ids), int)))})


def publish(folder: Path, table: Iterator[pa.RecordBatch], page_rows: int) -> Master:
    """Rows in key order as master pages on disk, opened."""
    first = next(table)
    store = PageStore(folder)
    store.root.mkdir(parents=True, exist_ok=True)

    def every() -> Iterator[pa.RecordBatch]:
        yield first
        yield from table

    snapshot = Snapshot(first.schema, (first.schema.names[0],), every(), {}, presorted=True)
    Publisher(store, PublishConfig(PageSize(page_rows=page_rows))).publish(snapshot)
    return store.open()


@dataclass(slots=True)
class Masters:
    """Masters by their shape, each published once. Without a folder they are held in memory."""

    folder: Path | None
    _made: dict[str, Master] = field(default_factory=dict)

    def rows(self, rows: int, *, page_rows: int, row_bytes: int = ROW_BYTES) -> Master:
        """Keys 0 … rows-1."""
        return self.of(f"r{rows}-{row_bytes}-{page_rows}", lambda: batches(rows, row_bytes), page_rows)

    def of(self, name: str, make: Callable[[], Iterator[pa.RecordBatch]], page_rows: int) -> Master:
        """Whatever rows in key order `make()` gives."""
        if name not in self._made:
            rows, folder = make(), self.folder
            self._made[name] = memory(rows, page_rows) if folder is None else publish(folder / name, rows, page_rows)
        return self._made[name]


def memory(rows: Iterator[pa.RecordBatch], page_rows: int) -> MemoryMaster:
    table = pa.Table.from_batches(list(rows))
    return MemoryMaster(table, table.column_names[0], page_rows=page_rows)


@dataclass(slots=True)
class Stream:
    """Keys in order of arrival, round and round."""

    keys: I64
    position: int = 0

    def take(self, count: int) -> pa.Array:
        start, self.position = self.position, self.position + count
        if self.position <= len(self.keys):
            return pa.array(self.keys[start : self.position])
        return pa.array(self.keys[np.arange(start, self.position) % len(self.keys)])


def zipf(rows: int, exponent: float, *, tuples: int | None = None, seed: int = 11) -> Stream:
    """A stream over keys 0 … rows-1."""
    return Stream(_zipf_keys(rows, exponent, tuples or min(STREAM_TUPLES, max(200_000, 4 * rows)), seed))


@cache
def _law(rows: int, exponent: float) -> BoundedZipf:
    return BoundedZipf(rows, exponent, shuffle_seed=5)


@cache
def _zipf_keys(rows: int, exponent: float, tuples: int, seed: int) -> I64:
    return _law(rows, exponent).sample(np.random.default_rng(seed), tuples) - 1


def probabilities(rows: int, exponent: float) -> F64:
    """How likely each key of such a stream is."""
    law = _law(rows, exponent)
    by_rank = law.probabilities()
    middles = np.cumsum(by_rank) - by_rank / 2  # a uniform number that surely falls to this rank
    out = np.empty(rows)
    out[law.keys(middles) - 1] = by_rank
    return out


def drifting(keys: int, tuples: int, intervals: int = 25, seed: int = 12) -> Stream:
    """Temporal locality: each interval is Zipf(1) over a slice of the keys that is its own."""
    width, each = keys // intervals, tuples // intervals
    rng = np.random.default_rng(seed)
    law = BoundedZipf(width, 1.0, shuffle_seed=6)
    return Stream(np.concatenate([law.sample(rng, each) - 1 + number * width for number in range(intervals)]))
