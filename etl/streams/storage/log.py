"""The stream log: one immutable Arrow segment per stream and dispatcher of a batch.

    segments/<stream>/<number>.arrow      numbers come from the ledger and are never used twice

A reference is (segment, row), so a task finds the row of a reference without a lookup service. Segments are
uncompressed Arrow IPC: opening one is mapping it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from etl.correlate.model import I64
from etl.correlate.prepare import event_times
from etl.correlate.rows import take_rows
from etl.streams.storage.files import FileDamaged, FileStore


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment in the ledger; times are microseconds since 1970."""

    stream: str
    number: int
    rows: int
    bytes: int
    earliest: int
    latest: int

    @property
    def name(self) -> str:
        return segment_name(self.stream, self.number)


def segment_name(stream: str, number: int) -> str:
    return f"segments/{stream}/{number:010d}.arrow"


def newest_number(store: FileStore) -> int:
    """The highest segment number of any stream; lists all files."""
    return max((int(Path(name).stem) for name, _ in store.names("segments")), default=0)


def write_segment(store: FileStore, stream: str, number: int, rows: pa.RecordBatch, event_time: str) -> Segment:
    """Write the rows of one dispatcher; at least one."""
    size = store.write(segment_name(stream, number), to_ipc([rows]))
    times = event_times(rows.column(event_time))
    return Segment(stream, number, rows.num_rows, size, int(times.min()), int(times.max()))


@dataclass(frozen=True, slots=True)
class SegmentRows:
    """Rows of one stream by reference: the port `etl.correlate.rows.Rows` on files."""

    store: FileStore
    stream: str
    schema: pa.Schema

    def take(self, refs: I64, columns: Sequence[str]) -> pa.RecordBatch:
        wanted = pa.schema([self.schema.field(name) for name in columns])
        return take_rows(refs, wanted, self._columns)

    def _columns(self, number: int, wanted: pa.Schema) -> pa.RecordBatch:
        """Columns of one segment; NULL for fields declared after it was written."""
        name = segment_name(self.stream, number)
        (rows,) = self.store.open(name, from_ipc)
        arrays = [
            rows.column(one.name) if one.name in rows.schema.names else pa.nulls(rows.num_rows, one.type)
            for one in wanted
        ]
        return pa.RecordBatch.from_arrays(arrays, names=wanted.names)


def to_ipc(batches: list[pa.RecordBatch]) -> pa.Buffer:
    """Concatenate record batches, each as its own Arrow stream: their schemas may differ."""
    sink = pa.BufferOutputStream()
    for batch in batches:
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
    return sink.getvalue()


def from_ipc(content: pa.Buffer, name: str) -> list[pa.RecordBatch]:
    """The record batches of a file, without copying them."""
    source, found = pa.BufferReader(content), []
    try:
        while source.tell() < content.size:
            with pa.ipc.open_stream(source) as reader:
                found += list(reader)
    except pa.ArrowInvalid as error:
        raise FileDamaged(name, f"is not Arrow: {str(error).splitlines()[0]}") from None
    return found
