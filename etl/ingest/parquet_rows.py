"""Rows of a Parquet file → the same events as lines give.

    column of the declared type       taken unchanged, where its values are valid
    dates and times of other kinds    converted, without loss of days
    any other scalar                  as text, then read like text: 40.49 → decimal(18,4), 7 → "7"
    lists, structs, durations …       not of any declared type: invalid where present

A file is outside data, too: strings may not be UTF-8, times lie beyond the calendar, values take megabytes. Columns
that are not declared go to `extra`. `raw` is the row as JSON, cut at LONGEST_LINE bytes; a row whose values have more
bytes is refused like a line that is too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from etl.columnar.jit import kernel
from etl.columnar.keys import to_contiguous
from etl.contract.model import Field, Stream
from etl.ingest.events import Events, from_columns
from etl.ingest.kernels.spans import BOOLEAN, I32, NULL, NUMBER, TEXT, UNUSABLE, Mask
from etl.ingest.kernels.times import DAY, FIRST_DAY, LAST_DAY
from etl.ingest.kernels.utf8 import Bytes, is_utf8
from etl.ingest.lines import KEPT_OF_TOO_LONG, LONGEST_LINE
from etl.ingest.parquet_batches import BYTES, beginnings, bounded_batches, plain, row_bytes
from etl.ingest.render import as_json
from etl.ingest.texts import Texts, array_texts, read_only
from etl.ingest.typed import Column, column, completed

_MICROS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}

I64 = npt.NDArray[np.int64]
Choice = Callable[[I64], tuple[Mask, Mask]]
"""Of rows with these numbers, which to parse and which to set aside."""


def every_row(number: I64) -> tuple[Mask, Mask]:
    """Parse all rows."""
    return np.ones(len(number), np.bool_), np.zeros(len(number), np.bool_)


def read_rows(file: BinaryIO, stream: Stream, choice: Choice = every_row, aside: str = "") -> Iterator[Events]:
    """The events of a Parquet file, part by part. An unreadable rest is one refused event.

    Rows that `choice` sets aside are refused with the reason `aside`, and rows too long for a line as such lines are.
    """
    row, batches, damaged = 1, bounded_batches(file), False
    while True:
        try:
            rows = next(batches, None)
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the disk, not the file
            rows, damaged = None, True
        if rows is None:
            break
        number = row + np.arange(rows.num_rows, dtype=np.int64)
        row += rows.num_rows
        kept, deadly = choice(number)
        if deadly.any():
            raw = beginnings(rows.filter(pa.array(deadly)), LONGEST_LINE)
            yield refused_rows(raw, number[deadly], stream, aside)
        if kept.any():
            yield from _events(rows if kept.all() else rows.filter(pa.array(kept)), number[kept], stream)
    if damaged:
        yield from _damaged(file, np.array([row], np.int64), stream, choice, aside)


def _damaged(file: BinaryIO, number: I64, stream: Stream, choice: Choice, aside: str) -> Iterator[Events]:
    """The rest of a file that is no Parquet, or damaged, as one row."""
    kept, deadly = choice(number)
    if kept.any() or deadly.any():
        file.seek(0)
        raw = pa.array([file.read(KEPT_OF_TOO_LONG)], pa.binary())
        yield refused_rows(raw, number, stream, aside if deadly.any() else "malformed_parquet")


def _events(rows: pa.RecordBatch, number: I64, stream: Stream) -> Iterator[Events]:
    """Bounded parts of rows as events."""
    size = row_bytes(rows)
    too_long = size > LONGEST_LINE
    if too_long.any():
        raw = beginnings(rows.filter(pa.array(too_long)), KEPT_OF_TOO_LONG)
        yield refused_rows(raw, number[too_long], stream, "line_too_long")
        rows, number, size = rows.filter(pa.array(~too_long)), number[~too_long], size[~too_long]
    part = np.cumsum(size) // BYTES
    ends = [*np.flatnonzero(part[1:] != part[:-1]) + 1, len(part)] if len(part) else []
    for first, end in zip([0, *ends], ends, strict=False):
        yield parse_rows(plain(rows.slice(first, end - first)), stream, number[first:end])


def parse_rows(rows: pa.RecordBatch | pa.Table, stream: Stream, number: I64 | None = None) -> Events:
    """The events of rows, numbered as lines are numbered."""
    count = rows.num_rows
    columns = [
        _column(to_contiguous(rows.column(field.source_name)), field) if _once(rows, field) else _absent(count, field)
        for field in stream.fields
    ]
    declared = {field.source_name for field in stream.fields}
    undeclared = [number for number, name in enumerate(rows.schema.names) if name not in declared]
    extra = as_json(rows.select(undeclared)) if undeclared else pa.nulls(count, pa.string())
    line = np.arange(1, count + 1, dtype=np.int64) if number is None else number
    return from_columns(columns, extra, stream.fields, (), rows, line)


def refused_rows(raw: pa.Array, number: I64, stream: Stream, reason: str) -> Events:
    """Rows of which no field is known, as refused events."""
    count = len(number)
    columns = [_absent(count, field) for field in stream.fields]
    broken = ((reason, np.ones(count, np.bool_)),)
    return from_columns(columns, pa.nulls(count, pa.string()), stream.fields, broken, raw, number)


def _once(rows: pa.RecordBatch | pa.Table, field: Field) -> bool:
    """Whether exactly one column has the field's name; an ambiguous name counts as absent."""
    return bool(rows.schema.names.count(field.source_name) == 1)


def _absent(count: int, field: Field) -> Column:
    nobody = np.zeros(count, np.bool_)
    return completed(Column(pa.nulls(count, field.type), ~nobody, nobody), field)


def _column(values: pa.Array, field: Field) -> Column:
    same = values.type == field.type and not field.strip
    if same and (kinds.is_integer(field.type) or kinds.is_boolean(field.type)):
        return _taken(values, np.ones(len(values), np.bool_), field)
    if same and kinds.is_floating(field.type):
        return _taken(values, np.isfinite(np.asarray(values.fill_null(0.0))), field)
    if kinds.is_temporal(field.type) and (kinds.is_timestamp(values.type) or kinds.is_date(values.type)):
        return _moments(values, field)
    return column(_texts(values), field)


def _taken(values: pa.Array, sound: Mask, field: Field) -> Column:
    """The values unchanged, but NULL where they are not valid."""
    valid = np.asarray(values.is_valid())
    kept = values if sound.all() else pc.if_else(pa.array(sound), values, pa.scalar(None, values.type))
    return completed(Column(kept, ~valid, valid & ~sound), field)


def _moments(values: pa.Array, field: Field) -> Column:
    """Dates and timestamps of any unit in the field's type, if they lie in the calendar; a date has no time of day."""
    micros, sound = _as_micros(values)
    days = np.floor_divide(micros, DAY)
    sound &= (days >= FIRST_DAY) & (days <= LAST_DAY)
    if kinds.is_date(field.type):
        sound &= days * DAY == micros
        typed = pa.array(np.where(sound, days, 0).astype(np.int32)).view(field.type)
    else:
        typed = pa.array(np.where(sound, micros, 0)).view(field.type)
    valid = np.asarray(values.is_valid())
    typed = pc.if_else(pa.array(valid), typed, pa.scalar(None, field.type))
    return _taken(typed, sound | ~valid, field)


def _as_micros(values: pa.Array) -> tuple[npt.NDArray[np.int64], Mask]:
    """Microseconds since 1970, and where they do not overflow. Times without a zone are in UTC."""
    kind = values.type
    width = pa.int32() if kinds.is_date32(kind) else pa.int64()
    numbers = np.asarray(values.view(width).fill_null(0)).astype(np.int64)
    if kinds.is_timestamp(kind) and kind.unit == "ns":
        return np.floor_divide(numbers, 1_000), np.ones(len(numbers), np.bool_)
    factor = DAY if kinds.is_date32(kind) else _MICROS["ms" if kinds.is_date64(kind) else kind.unit]
    sound = np.abs(numbers.astype(np.float64)) < 2.0**62 / factor
    return np.where(sound, numbers, 0) * factor, sound


def _texts(values: pa.Array) -> Texts:
    """Scalars as text: numbers as NUMBER, strings as TEXT, anything else as UNUSABLE."""
    kind, valid = values.type, np.asarray(values.is_valid())
    textual = kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind)
    binary = kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_binary_view(kind)
    if textual or binary or kinds.is_fixed_size_binary(kind):
        found = array_texts(values.cast(pa.binary()), TEXT)
        _mark_unusable(found.data, found.start, found.end, found.kind)
        return found
    if kinds.is_boolean(kind) or kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind):
        return array_texts(values.cast(pa.string()), BOOLEAN if kinds.is_boolean(kind) else NUMBER)
    nowhere = np.zeros(len(values), np.int32)
    return Texts(read_only(np.zeros(0, np.uint8)), nowhere, nowhere, np.where(valid, UNUSABLE, NULL).astype(np.uint8))


@kernel
def _mark_unusable(data: Bytes, start: I32, end: I32, kind: Bytes) -> None:
    """Mark values that are longer than a line may be, or not UTF-8."""
    for row in range(len(start)):
        if kind[row] == TEXT and (end[row] - start[row] > LONGEST_LINE or not is_utf8(data, start[row], end[row])):
            kind[row] = UNUSABLE
