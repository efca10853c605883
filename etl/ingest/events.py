"""From lines or rows to typed events: no input can fail a batch.

    Lines ──json_lines / csv_lines──▶ Parsed ──typed──▶ Events    one row per line, in the order of the lines

    reason            the event
    line_too_long     is longer than LONGEST_LINE
    bad_utf8          is not UTF-8
    malformed_json    is not exactly one JSON object, says a declared field twice, or nests deeper than 64
    malformed_csv     has more or fewer values than its header, or quotes that do not close; or has no usable header
    malformed_parquet is the rest of a damaged file, or one that is no Parquet: its number of events is unknown
    FIELD_missing     lacks a required field that has no default; null and an empty CSV value count as lacking
    FIELD_invalid     has a value that is not of the declared type

The first five exclude all others: of such an event no field is known. Fields report in declared order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from etl.columnar.labels import label_lists
from etl.contract.model import Field, Stream
from etl.ingest import csv_lines, json_lines
from etl.ingest.kernels.spans import Mask
from etl.ingest.lines import LONGEST_LINE, Lines
from etl.ingest.render import as_json
from etl.ingest.texts import Parsed
from etl.ingest.typed import Column, column

EXTRA = "extra"
"""The column of undeclared fields, as JSON."""
BROKEN = ("line_too_long", "bad_utf8", "malformed_json", "malformed_csv", "malformed_parquet")
"""Reasons of a line that cannot be parsed."""


@dataclass(frozen=True, slots=True)
class Events:
    """Typed events, one row per line that was read."""

    batch: pa.RecordBatch  # declared fields in declared order, then `extra`
    original: pa.Array | pa.RecordBatch | pa.Table  # what was read: the bytes of lines, or rows
    line: npt.NDArray[np.int64]
    reasons: pa.ListArray  # of strings: empty when the event is clean

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    @property
    def raw(self) -> pa.Array:
        """The input as bytes. Rows are rendered as JSON lazily: that costs more than reading them."""
        if isinstance(self.original, pa.Array):
            return self.original
        return pc.binary_slice(as_json(self.original, nulls=True).cast(pa.binary()), 0, LONGEST_LINE)

    def filter(self, mask: Mask) -> Events:
        """Some of the events."""
        some = pa.array(mask)
        return Events(self.batch.filter(some), self.original.filter(some), self.line[mask], self.reasons.filter(some))


def reason_names(fields: Iterable[Field]) -> tuple[str, ...]:
    """Every reason that parsing may give."""
    return (*BROKEN, *(f"{field.name}_{why}" for field in fields for why in ("missing", "invalid")))


def parse_events(lines: Lines, stream: Stream, header: bytes | None = None) -> Events:
    """The events of text lines in the stream's format; `header` is the first line of a CSV file."""
    if stream.source.format == "csv":
        parsed = csv_lines.parse(lines, stream.fields, header or b"", stream.source.delimiter)
    else:
        parsed = json_lines.parse(lines, stream.fields)
    return _events(parsed, stream.fields, lines.raw, lines.number)


def _events(parsed: Parsed, fields: Sequence[Field], raw: pa.Array, line: npt.NDArray[np.int64]) -> Events:
    """Convert all fields."""
    columns = [column(texts, field) for texts, field in zip(parsed.fields, fields, strict=True)]
    return from_columns(columns, parsed.extra, fields, parsed.broken, raw, line)


def from_columns(
    columns: Sequence[Column],
    extra: pa.Array,
    fields: Sequence[Field],
    broken: Sequence[tuple[str, Mask]],
    original: pa.Array | pa.RecordBatch | pa.Table,
    line: npt.NDArray[np.int64],
) -> Events:
    """Combine typed columns and their reasons into events."""
    readable = np.ones(len(line), np.bool_)
    for _, rows in broken:
        readable &= ~rows
    reasons = label_lists([*broken, *_field_reasons(columns, fields, readable)], len(line))
    schema = pa.schema([*(pa.field(field.name, field.type) for field in fields), pa.field(EXTRA, pa.string())])
    batch = pa.RecordBatch.from_arrays([*(typed.values for typed in columns), extra], schema=schema)
    return Events(batch, original, line, reasons)


def _field_reasons(columns: Sequence[Column], fields: Sequence[Field], readable: Mask) -> Iterator[tuple[str, Mask]]:
    """Reasons by field, with their rows."""
    for typed, field in zip(columns, fields, strict=True):
        yield f"{field.name}_missing", typed.missing & readable
        yield f"{field.name}_invalid", typed.invalid & readable
