"""Rows of a Parquet file → the same events as lines give.

    column of the declared type       taken unchanged, where its values are valid
    dates and times of other kinds    converted, without loss of days
    any other scalar                  as text, then read like text: 40.49 → decimal(18,4), 7 → "7"
    lists, structs, durations …       not of any declared type: invalid where present

A file is outside data, too: strings may not be UTF-8, times lie beyond the calendar, values take megabytes. Columns
that are not declared go to `extra`. `raw` is the row as JSON, cut at LONGEST_LINE bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as kinds

from etl.columnar.jit import kernel
from etl.columnar.keys import to_contiguous
from etl.contract.model import Field, Stream
from etl.ingest.events import Events, from_columns
from etl.ingest.kernels.spans import BOOLEAN, I32, NULL, NUMBER, TEXT, UNUSABLE, Mask
from etl.ingest.kernels.times import DAY, FIRST_DAY, LAST_DAY
from etl.ingest.kernels.utf8 import Bytes, is_utf8
from etl.ingest.lines import KEPT_OF_TOO_LONG, LONGEST_LINE
from etl.ingest.render import as_json
from etl.ingest.texts import Texts, array_texts, read_only
from etl.ingest.typed import Column, column, completed

_BATCH_ROWS: Final = 65_536
_MICROS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}


def read_rows(content: pa.Buffer, stream: Stream) -> Iterator[Events]:
    """The events of a whole Parquet file, some thousand rows at a time. An unreadable rest is one refused event."""
    row = 1
    try:
        for rows in pq.ParquetFile(pa.BufferReader(content)).iter_batches(batch_size=_BATCH_ROWS):
            yield parse_rows(rows, stream, row)
            row += rows.num_rows
    except (pa.ArrowException, OSError):
        yield _unreadable(content, stream, row)


def parse_rows(rows: pa.RecordBatch | pa.Table, stream: Stream, first_row: int = 1) -> Events:
    """The events of rows; `first_row` numbers them as lines are numbered."""
    count = rows.num_rows
    columns = [
        _column(to_contiguous(rows.column(field.source_name)), field) if _once(rows, field) else _absent(count, field)
        for field in stream.fields
    ]
    declared = {field.source_name for field in stream.fields}
    undeclared = [number for number, name in enumerate(rows.schema.names) if name not in declared]
    extra = as_json(rows.select(undeclared)) if undeclared else pa.nulls(count, pa.string())
    line = first_row + np.arange(count, dtype=np.int64)
    return from_columns(columns, extra, stream.fields, (), rows, line)


def _unreadable(content: pa.Buffer, stream: Stream, row: int) -> Events:
    """The rest of a file that is no Parquet, or damaged."""
    everything = np.ones(1, np.bool_)
    columns = [_absent(1, field) for field in stream.fields]
    raw = pa.array([content.slice(0, min(content.size, KEPT_OF_TOO_LONG)).to_pybytes()], pa.binary())
    broken = (("malformed_parquet", everything),)
    return from_columns(columns, pa.nulls(1, pa.string()), stream.fields, broken, raw, np.array([row], np.int64))


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
