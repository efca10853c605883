"""A run: immutable stored tuples in a layout for probing.

    hash    rows bucket by bucket, with the directory of buckets         equalities
    sorted  rows in order of `value`                                     bands
    block   rows in order of event time; the residual decides            any other condition

A run consists of arrays only: it is written to a file unchanged, memory-mapped without conversion, shared by readers,
and moved to another unit as a whole. Merging creates a new run.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etl.columnar.multimap import bucket_tags, counting_sort, hashes, local_order
from etl.columnar.sorted_index import ascending
from etl.correlate.errors import StateDamaged
from etl.correlate.index.kernels import Found, probe_hash, probe_sorted
from etl.correlate.model import FIRST, I64, LAST, U64, Tuples

Layout = Literal["hash", "sorted", "block"]
_Any = TypeVar("_Any", np.int64, np.uint64)
_COLUMNS = ("refs", "times", "lo", "hi", "value")
_NO_OFFSETS, _NO_TAGS, _NO_LANES, _NOTHING = (
    np.zeros(0, np.int32),
    np.zeros(0, np.uint8),
    np.zeros(0, np.uint64),
    np.zeros(0, np.int64),
)


@dataclass(frozen=True, slots=True)
class Probes:
    """A batch of probes, sorted for sequential access to runs, with the values that runs compare."""

    tuples: Tuples
    first: I64  # range of stored times
    until: I64
    hashed: U64  # of hash layouts

    @classmethod
    def of(cls, layout: Layout, tuples: Tuples, first: I64, until: I64) -> Probes:
        if layout == "hash":
            hashed = hashes(tuples.lo, tuples.hi)
            near = local_order(hashed)
            return cls(tuples.take(near), first[near], until[near], hashed[near])
        order = ascending(tuples.low if layout == "sorted" else first)
        return cls(tuples.take(order), first[order], until[order], _NO_LANES)


@dataclass(frozen=True, slots=True)
class Run:
    layout: Layout
    refs: I64
    times: I64
    lo: U64
    hi: U64
    value: I64
    offsets: npt.NDArray[np.int32]  # of hash runs
    tags: npt.NDArray[np.uint8]
    earliest: int
    latest: int

    @classmethod
    def build(cls, layout: Layout, tuples: Tuples) -> tuple[Run, I64]:
        """A run of at least one tuple, and the order in which it holds them."""
        return cls._laid_out(layout, tuples.refs, tuples.times, tuples.lo, tuples.hi, tuples.value)

    @classmethod
    def merged(cls, runs: list[Run]) -> Run:
        """Merge several runs into one."""
        columns = (np.concatenate([getattr(run, name) for run in runs]) for name in _COLUMNS)
        return cls._laid_out(runs[0].layout, *columns)[0]

    @classmethod
    def _laid_out(cls, layout: Layout, refs: I64, times: I64, lo: U64, hi: U64, value: I64) -> tuple[Run, I64]:
        offsets, tags = _NO_OFFSETS, _NO_TAGS
        if layout == "hash":
            hashed = hashes(lo, hi)
            rows, offsets = counting_sort(hashed, len(times))
            tags = bucket_tags(hashed, len(times))
            order = rows.astype(np.int64)
        else:
            order = ascending(value if layout == "sorted" else times)
        earliest, latest = int(times.min()), int(times.max())
        refs, times, value = refs.take(order, axis=0), times.take(order), _taken(value, order)
        lo, hi = _taken(lo, order), _taken(hi, order)
        return cls(layout, refs, times, lo, hi, value, offsets, tags, earliest, latest), order

    def __len__(self) -> int:
        return len(self.times)

    @property
    def nbytes(self) -> int:
        return sum(int(array.nbytes) for array in self._arrays().values())

    def tuples(self) -> Tuples:
        """The stored tuples, without places: all of them precede later tuples."""
        nowhere = np.full(len(self), FIRST)
        return Tuples(self.refs, self.times, nowhere, self.lo, self.hi, self.value)

    def probe(self, probes: Probes, place: I64 = _NOTHING, start: int = 0, limit: int = 2**62) -> Found:
        """Matching rows and probes, from probe `start` on. `place`: of rows of the same batch."""
        p = probes.tuples
        bounds = np.int64(self.earliest), np.int64(self.latest)
        if self.layout == "hash":
            return probe_hash(
                self.offsets, self.tags, self.lo, self.hi, self.times, self.value, place, *bounds, probes.hashed,
                p.lo, p.hi, probes.first, probes.until, p.low, p.high, p.places, start, limit,
            )  # fmt: skip
        band = self.layout == "sorted"
        value, low, high = (self.value, p.low, p.high) if band else (self.times, probes.first, probes.until)
        return probe_sorted(
            value, self.times, place, *bounds, low, high, probes.first, probes.until, p.places,
            start, limit,
        )  # fmt: skip

    def to_batches(self) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Rows and directory, as they are stored."""
        columns = {f"ref{i}": self.refs[:, i] for i in range(self.refs.shape[1])}
        columns |= {name: array for name, array in self._arrays().items() if name not in ("refs", "offsets", "tags")}
        metadata = {"layout": self.layout, "earliest": str(self.earliest), "latest": str(self.latest)}
        rows = pa.record_batch({name: pa.array(array) for name, array in columns.items() if len(array)})
        return rows.replace_schema_metadata(metadata), pa.record_batch(
            {"offsets": pa.array(self.offsets), "tags": pa.array(self.tags)}
        )

    @classmethod
    def from_batches(cls, name: str, rows: pa.RecordBatch, directory: pa.RecordBatch) -> Run:
        """The inverse of `to_batches`; raises if the arrays are inconsistent."""
        metadata = {key.decode(): value.decode() for key, value in (rows.schema.metadata or {}).items()}
        columns = {field: np.asarray(rows.column(field)) for field in rows.schema.names}
        references = sorted((field for field in columns if field.startswith("ref")), key=lambda field: int(field[3:]))
        if not references or "times" not in columns or metadata.get("layout") not in ("hash", "sorted", "block"):
            raise StateDamaged(name, "columns or metadata are missing")
        parts = [columns.pop(field) for field in references]
        refs = parts[0][:, None] if len(parts) == 1 else np.stack(parts, axis=1)  # one stream's stay mapped
        offsets, tags = (np.asarray(directory.column(part)) for part in ("offsets", "tags"))
        if metadata["layout"] == "hash" and (len(offsets) < 2 or offsets[-1] != len(refs) or "lo" not in columns):
            raise StateDamaged(name, "the directory does not fit the rows")
        lo, hi = (columns.get(lane, _NO_LANES) for lane in ("lo", "hi"))
        earliest, latest = (int(metadata[bound]) for bound in ("earliest", "latest"))
        layout: Any = metadata["layout"]
        return cls(
            layout, refs, columns["times"], lo, hi, columns.get("value", _NOTHING), offsets, tags, earliest, latest
        )

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        wanted = (field.name for field in fields(self) if field.name not in ("layout", "earliest", "latest"))
        return {name: getattr(self, name) for name in wanted}


def _taken(column: npt.NDArray[_Any], order: I64) -> npt.NDArray[_Any]:
    """Reorder a column; a column that the layout lacks stays empty."""
    return column.take(order) if len(column) else column


def unbounded(count: int) -> tuple[I64, I64]:
    """A time range that excludes nothing."""
    return np.full(count, FIRST), np.full(count, LAST)
