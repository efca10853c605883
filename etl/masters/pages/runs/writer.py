"""Write a run: sorted rows in, two durable files out.

    write(rows) ─► collect a segment ─► serialise ─► checksum its pages, note its fences ─► append to the file

Keys must be strictly ascending; the writer raises otherwise, before a manifest names the run. Memory is a few
segments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.enrich.errors import DuplicateMasterKey
from etl.errors import SettingsError
from etl.masters.pages import files
from etl.masters.pages.errors import KeysOutOfOrder
from etl.masters.pages.manifest import RunEntry
from etl.masters.pages.runs import layout
from etl.masters.pages.runs.layout import Checksums, Index, Segment
from etl.masters.rows import key_codec
from etl.masters.rows.shape import DELETED, Shape

_PIECE_ROWS = 65_536  # larger input is split, so that full segments are written early


@dataclass(frozen=True, slots=True)
class PageSize:
    """Sizes of pages and segments. Smaller pages verify and scan in smaller steps; larger ones need a smaller index."""

    page_rows: int = 1024
    segment_rows: int = 262_144
    segment_bytes: int = 48 * 2**20

    def __post_init__(self) -> None:
        if self.page_rows <= 0 or self.page_rows % 64:
            raise SettingsError(f"page_rows={self.page_rows} is not a positive multiple of 64")


def data_file(runs: Path, name: str) -> Path:
    return runs / f"{name}.arrows"


def index_file(runs: Path, name: str) -> Path:
    return runs / f"{name}.index"


class RunWriter:
    """Writes one run; a context manager that removes its files unless `finish` was called."""

    def __init__(self, runs: Path, name: str, shape: Shape, overlay: bool, size: PageSize) -> None:
        self._runs, self._name, self._shape, self._size = runs, name, shape, size
        self._overlay, self._schema = overlay, shape.stored(overlay)
        self._waiting: list[pa.Table] = []
        self._segments: list[Segment] = []
        self._pages: list[pa.Table] = []
        self._last: pa.Table | None = None  # the row written last
        self._rows = self._tombstones = self._bytes = self._crc32 = self._page_count = 0
        self._finished = False

    def __enter__(self) -> Self:
        self._file = data_file(self._runs, self._name).open("xb")
        self._append(self._schema.serialize())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        if not self._finished and isinstance(error, Exception | KeyboardInterrupt | GeneratorExit):
            files.remove(data_file(self._runs, self._name))

    def write(self, rows: pa.Table) -> None:
        """Append stored rows (`Shape.to_store`); their keys follow all earlier ones."""
        for start in range(0, rows.num_rows, _PIECE_ROWS):
            piece = rows.slice(start, _PIECE_ROWS)
            self._check_order(piece)
            self._waiting.append(piece)
            self._flush_full()

    def finish(self) -> RunEntry:
        """Flush and sync; returns the run's entry for the manifest."""
        if rows := sum(piece.num_rows for piece in self._waiting):
            self._write_segment(self._take(rows))
        self._append(layout.END)
        self._file.flush()
        files.sync(self._file.fileno())
        index = self._index().to_bytes()
        files.write_durably(index_file(self._runs, self._name), index)
        self._finished = True
        return RunEntry(
            name=self._name,
            kind="overlay" if self._overlay else "base",
            rows=self._rows,
            tombstones=self._tombstones,
            pages=self._page_count,
            bytes=self._bytes,
            crc32=self._crc32,
            index_bytes=len(index),
            index_crc32=layout.checksum(index),
        )

    def _check_order(self, piece: pa.Table) -> None:
        with_last = piece if self._last is None else pa.concat_tables([self._last, piece])
        bad = key_codec.first_not_rising(self._shape.codes(with_last))
        if bad is not None:
            store, key = self._shape.store, self._shape.key_text(with_last, bad)
            before = self._shape.key_text(with_last, bad - 1)
            raise DuplicateMasterKey(store, key) if key == before else KeysOutOfOrder(store, key, before)
        self._last = piece.slice(piece.num_rows - 1)

    def _flush_full(self) -> None:
        while sum(piece.num_rows for piece in self._waiting) >= (rows := self._segment_rows()):
            self._write_segment(self._take(rows))

    def _segment_rows(self) -> int:
        """How many buffered rows make a segment: whole pages, within the limits of rows and bytes."""
        waiting = sum(piece.num_rows for piece in self._waiting)
        row_bytes = max(1, sum(piece.nbytes for piece in self._waiting) // max(1, waiting))
        rows: int = min(self._size.segment_rows, self._size.segment_bytes // row_bytes)
        return max(1, rows // self._size.page_rows) * self._size.page_rows

    def _take(self, rows: int) -> pa.RecordBatch:
        """The first buffered rows as one batch whose arrays start at row 0."""
        table = pa.concat_tables(self._waiting)
        rest = table.slice(rows)
        self._waiting = [rest] if rest.num_rows else []
        (batch,) = table.slice(0, rows).combine_chunks().to_batches()
        return batch

    def _write_segment(self, batch: pa.RecordBatch) -> None:
        message = batch.serialize()
        stored = pa.ipc.read_record_batch(message, self._schema)
        header = layout.header_bytes(message)
        self._segments.append(
            Segment(
                self._bytes,
                message.size,
                header,
                layout.checksum(message.slice(0, header)),
                batch.num_rows,
                self._page_count,
            )
        )
        self._note_pages(stored)
        self._rows += batch.num_rows
        if self._overlay:
            self._tombstones += pc.sum(stored.column(DELETED)).as_py() or 0
        self._append(message)

    def _note_pages(self, stored: pa.RecordBatch) -> None:
        checksums, keys = Checksums(stored), self._shape.codes(pa.Table.from_batches([stored]))
        bounds = list(page_bounds(stored.num_rows, self._size.page_rows))
        starts, stops = (np.array(ends, np.int64) for ends in zip(*bounds, strict=True))
        columns = [
            pa.array([checksums.of(start, stop) for start, stop in bounds], pa.uint32()),
            key_codec.take(keys, starts),
            key_codec.take(keys, stops - 1),
        ]
        self._pages.append(pa.Table.from_arrays(columns, schema=layout.pages_schema(keys.type)))
        self._page_count += len(bounds)

    def _index(self) -> Index:
        empty = layout.pages_schema(self._shape.codes(self._schema.empty_table()).type).empty_table()
        return Index(self._size.page_rows, tuple(self._segments), pa.concat_tables([empty, *self._pages]))

    def _append(self, data: pa.Buffer | bytes) -> None:
        self._file.write(data)
        self._bytes += len(data)
        self._crc32 = layout.checksum(data, self._crc32)


def page_bounds(rows: int, page_rows: int) -> Iterator[tuple[int, int]]:
    """First row and end of every page of a segment."""
    for start in range(0, rows, page_rows):
        yield start, min(rows, start + page_rows)
