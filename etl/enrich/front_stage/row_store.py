"""Master rows in memory, as Arrow, individually addressable, with exact byte accounting.

Arrow tables cannot be overwritten, so rows live in segments; a dropped row stays as a hole until its segment is
cleaned (the segment with most holes first), as in a log-structured file system:

    entry ──► (segment, row)      segment 0: [row row ·· row]   3 live, 1 hole
                                  segment 1: [row ·· ·· ··]     next to be cleaned

Holes count as bytes until they are cleaned. The owner keeps live rows below `LIVE_SHARE` of its bound, so that cleaning
frees something each time and costs a few copied bytes per byte stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.columnar.keys import I64

LIVE_SHARE = 0.85
_MANY = 48  # small segments are merged when there are more
_SEGMENT_SHARE = 32  # a segment is at most 1/32 of the bound, which is also the extra memory for cleaning


@dataclass(slots=True)
class _Segment:
    rows: pa.Table
    entry: I64  # the entry of each row, -1 for a hole
    live: int
    nbytes: int


def row_bytes(table: pa.Table) -> I64:
    """The size of each row: fixed widths plus the length of strings."""
    fixed = 0
    sizes = np.zeros(table.num_rows, np.int64)
    for column in table.itercolumns():
        fixed += _add_sizes(column, sizes)
    return sizes + fixed


def _add_sizes(column: pa.ChunkedArray, sizes: I64) -> int:
    """Adds variable sizes to `sizes`; returns the fixed size per row."""
    kind = column.type
    if pa.types.is_struct(kind):
        return sum(
            _add_sizes(pa.chunked_array([a.field(i) for a in column.chunks], kind.field(i).type), sizes)
            for i in range(kind.num_fields)
        )
    try:
        return (int(kind.bit_width) + 7) // 8 + 1
    except ValueError:
        pass
    if (
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
    ):
        lengths = pc.binary_length(column).fill_null(0)
        sizes += lengths.to_numpy().astype(np.int64)
        return 9 if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind) else 5
    return -(-int(column.nbytes) // max(1, len(column)))  # nested: the mean


@dataclass(frozen=True, slots=True)
class _AllSegments:
    """All segments concatenated."""

    rows: pa.Table
    numbers: I64
    starts: I64

    @classmethod
    def of(cls, segments: dict[int, _Segment]) -> _AllSegments:
        starts = np.cumsum([0, *(len(segment.entry) for segment in segments.values())])
        rows = pa.concat_tables([segment.rows for segment in segments.values()])
        return cls(rows, np.fromiter(segments, np.int64), starts)


class RowStore:
    """Rows by entry number (0 … capacity - 1, chosen by the owner)."""

    def __init__(self, capacity: int, bound_bytes: int) -> None:
        self._segment_of = np.full(capacity, -1, np.int32)
        self._row_of = np.zeros(capacity, np.int32)
        self._segments: dict[int, _Segment] = {}
        self._next = 0
        self._bound = bound_bytes
        self._every: _AllSegments | None = None  # cached for the current segments
        self.rows_bytes = 0  # segments, holes included

    @property
    def nbytes(self) -> int:
        marks = sum(segment.entry.nbytes for segment in self._segments.values())
        return self._segment_of.nbytes + self._row_of.nbytes + self.rows_bytes + marks

    @staticmethod
    def overhead_per_entry() -> int:
        return 4 + 4 + 8

    def put(self, entries: I64, rows: pa.Table) -> None:
        """Stores the rows under free entries."""
        if not len(entries):
            return
        piece = max(1, int(len(entries) * self._bound / _SEGMENT_SHARE / max(1, rows.nbytes)))
        for start in range(0, len(entries), piece):  # one round per segment, not per row
            part = rows.slice(start, piece)
            self._append(entries[start : start + piece], _compact(part))
        small = [n for n, s in self._segments.items() if s.nbytes * 2 * _SEGMENT_SHARE < self._bound]
        if len(small) > _MANY:
            self._merge(small)

    def drop(self, entries: I64) -> None:
        """Turns these rows into holes."""
        segments = self._segment_of[entries]
        for number in np.unique(segments):
            mine = entries[segments == number]
            segment = self._segments[int(number)]
            segment.entry[self._row_of[mine]] = -1
            segment.live -= len(mine)
            if not segment.live:
                self._forget(int(number))
        self._segment_of[entries] = -1

    def every(self) -> pa.Table:
        """All rows in storage order, holes included: segments are immutable, so nothing is copied."""
        return self._segments_now().rows

    def places(self, entries: I64) -> I64:
        """The positions of these entries' rows in `every()`."""
        now = self._segments_now()
        return now.starts[np.searchsorted(now.numbers, self._segment_of[entries])] + self._row_of[entries]

    def _segments_now(self) -> _AllSegments:
        if self._every is None:
            self._every = _AllSegments.of(self._segments)
        return self._every

    def take(self, entries: I64) -> pa.Table:
        """The rows of the entries, in the given order."""
        segments = self._segment_of[entries]
        order = np.argsort(segments, kind="stable")
        bounds = np.flatnonzero(np.diff(segments[order], prepend=-1, append=-1))
        parts = []
        for start, stop in pairwise(bounds):
            segment = self._segments[int(segments[order[start]])]
            parts.append(segment.rows.take(pa.array(self._row_of[entries[order[start:stop]]])))
        table = pa.concat_tables(parts).combine_chunks()
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return table if len(parts) == 1 else table.take(pa.array(back))

    def clean(self, allowed_bytes: int) -> None:
        """Compacts live rows until all segments fit, the emptiest segments first."""
        while self.nbytes > allowed_bytes:
            number, segment = max(self._segments.items(), key=lambda item: len(item[1].entry) - item[1].live)
            if segment.live == len(segment.entry):
                return
            self._merge([number])

    def _append(self, entries: I64, rows: pa.Table) -> None:
        size = rows.get_total_buffer_size()
        self._segments[self._next] = _Segment(rows, entries.astype(np.int64), len(entries), size)
        self._segment_of[entries] = self._next
        self._row_of[entries] = np.arange(len(entries))
        self._next += 1
        self._every = None
        self.rows_bytes += size

    def _merge(self, numbers: list[int]) -> None:
        entries, parts = [], []
        for number in numbers:
            segment = self._segments[number]
            alive = np.flatnonzero(segment.entry >= 0)
            entries.append(segment.entry[alive])
            parts.append(segment.rows.take(pa.array(alive)))
            self._forget(number)
        self._append(np.concatenate(entries), _compact(pa.concat_tables(parts)))

    def _forget(self, number: int) -> None:
        self._every = None
        self.rows_bytes -= self._segments.pop(number).nbytes


def _compact(rows: pa.Table) -> pa.Table:
    """Copy the rows to new buffers: a slice would keep its whole parent in memory."""
    return rows.take(pa.array(np.arange(rows.num_rows))).combine_chunks()
