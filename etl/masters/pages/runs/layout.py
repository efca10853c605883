"""The bytes of a run: segments made of pages, and how a page is checksummed (ADR 15).

    run.arrows   schema │ segment 0 │ segment 1 │ … │ end          an Arrow IPC stream any Arrow can read
    segment      header │ buffers of every column                  one record batch: some 100,000 rows
    page         `page_rows` rows of a segment                     a zero-copy slice
    run.index    fences and checksum of each page; offset of each segment

Why a record batch holds many pages: gathering scattered rows costs per batch, and looking up 50,000 of ten
million keys took 35 ms with batches of 262,144 rows, 220 ms with 4,096 and 1.2 s with 512. Checksums stay per
page: they run over the parts of a segment's buffers that belong to it, so a lookup verifies pages only.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""The end marker of an Arrow IPC stream."""

_PREFIX = 8  # continuation mark and length, before a message's metadata


@dataclass(frozen=True, slots=True)
class Segment:
    """The location of one record batch in the file."""

    offset: int
    bytes: int
    header_bytes: int
    header_crc32: int
    rows: int
    first_page: int


@dataclass(frozen=True, slots=True)
class Index:
    """Fences, checksums and offsets of a run's pages; small, held in memory."""

    page_rows: int
    segments: tuple[Segment, ...]
    pages: pa.Table  # crc32, first, last: one row per page

    def to_bytes(self) -> bytes:
        """The index as the bytes of its file."""
        parts = {"page_rows": self.page_rows, "segments": [_segment_as_list(part) for part in self.segments]}
        table = self.pages.replace_schema_metadata({"index": json.dumps(parts)})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.combine_chunks())
        return bytes(sink.getvalue())

    @classmethod
    def of_bytes(cls, data: bytes) -> Index:
        """Parse an index file; the caller has verified its checksum."""
        table = pa.ipc.open_stream(data).read_all().combine_chunks()
        parts = json.loads(table.schema.metadata[b"index"])
        return cls(parts["page_rows"], tuple(Segment(*part) for part in parts["segments"]), table)


def _segment_as_list(part: Segment) -> list[int]:
    return [part.offset, part.bytes, part.header_bytes, part.header_crc32, part.rows, part.first_page]


def pages_schema(code_type: pa.DataType) -> pa.Schema:
    """The columns of `Index.pages`."""
    return pa.schema([("crc32", pa.uint32()), ("first", code_type), ("last", code_type)])


def header_bytes(message: pa.Buffer) -> int:
    """The length of a record batch message before its buffers."""
    return _PREFIX + int.from_bytes(message.slice(4, 4).to_pybytes(), "little")


def checksum(data: pa.Buffer | bytes | memoryview, start: int = 0) -> int:
    """CRC-32, the fastest available checksum: some 3 GB/s."""
    return zlib.crc32(data, start)


@dataclass(frozen=True, slots=True)
class _Stripe:
    """One buffer of a column, cut by rows."""

    data: memoryview
    bits: int  # per row
    extra: int = 0  # rows beyond the page's last: offsets have one more
    offsets: memoryview | None = None  # cut by these instead

    def part(self, start: int, stop: int) -> memoryview:
        if self.offsets is not None:
            return self.data[self.offsets[start] : self.offsets[stop]]
        return self.data[start * self.bits >> 3 : (stop + self.extra) * self.bits + 7 >> 3]


class Checksums:
    """Checksums of a segment's pages. Its arrays start at row 0, its pages at multiples of 8 rows."""

    def __init__(self, segment: pa.RecordBatch) -> None:
        self._stripes = [stripe for column in segment.columns for stripe in _stripes(column)]

    def of(self, start: int, stop: int) -> int:
        """The checksum of rows `start` … `stop - 1`. A damaged offset changes it, but raises no error."""
        crc = 0
        for stripe in self._stripes:
            crc = zlib.crc32(stripe.part(start, stop), crc)
        return crc


def _stripes(column: pa.Array) -> Iterator[_Stripe]:
    validity, *buffers = column.buffers()
    if validity is not None:
        yield _Stripe(memoryview(validity), 1)
    if len(buffers) == 1:
        yield _Stripe(memoryview(buffers[0]), column.type.bit_width)
        return
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    width = 8 if wide else 4
    offsets = memoryview(buffers[0])[: (len(column) + 1) * width]
    yield _Stripe(offsets, width * 8, extra=1)
    yield _Stripe(memoryview(buffers[1] or b""), 0, offsets=offsets.cast("B").cast("q" if wide else "i"))
