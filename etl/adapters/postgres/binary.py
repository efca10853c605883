"""Arrow rows in COPY's binary format, which Postgres reads without parsing text.

    row     number of fields (16 bits), then for each: bytes that follow (32 bits, -1 for NULL), the value, big-endian
    value   integers, floats, texts as they are; days and microseconds from 2000 on; decimals as digits of base 10,000

A column is encoded as fixed-width bytes, or as bytes with offsets; one pass per column then copies the values to their
place in each row of a chunk. Chunks are small enough to stay in the processor's cache for all passes.

The table must have exactly the types that `etl.contract.words.types.postgres_type` gives: nothing is converted.
"""

from __future__ import annotations

import csv
import io
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from etl.adapters.postgres.copy import BINARY
from etl.columnar.jit import kernel

_HEADER: Final = BINARY + bytes(8)  # no flags, no extension
_TRAILER: Final = b"\xff\xff"
_ROWS: Final = 8192
_DAYS_TO_2000, _MICROS_TO_2000 = 10_957, 946_684_800_000_000
_BIG_ENDIAN: Final = {pa.int32(): ">i4", pa.int64(): ">i8", pa.float64(): ">f8", pa.bool_(): "u1"}

Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]
I64 = npt.NDArray[np.int64]


def write_values(rows: pa.Table, sink: BinaryIO) -> None:
    """Write rows for `copy_file`: a line that names the columns, then one COPY."""
    names = io.StringIO()
    csv.writer(names, lineterminator="\n").writerow(rows.column_names)
    sink.write(names.getvalue().encode() + _HEADER)
    for chunk in rows.combine_chunks().to_batches(_ROWS):
        sink.write(_chunk(chunk).data)
    sink.write(_TRAILER)


def _chunk(rows: pa.RecordBatch) -> Bytes:
    valid = [column.is_valid().to_numpy(zero_copy_only=False) for column in rows.columns]
    parts = [_layout(column) for column in rows.columns]
    sizes = np.full(rows.num_rows, 2 + 4 * rows.num_columns, np.int64)
    for part, flags in zip(parts, valid, strict=True):
        sizes += _widths(part) * flags
    ends = np.cumsum(sizes)
    out, at = np.empty(int(ends[-1]), np.uint8), ends - sizes
    _begin(out, at, rows.num_columns)
    for part, flags in zip(parts, valid, strict=True):
        if isinstance(part, np.ndarray):
            _put_fixed(out, at, part, flags)
        else:
            _put_texts(out, at, *part, flags)
    return out


def _widths(part: Bytes | tuple[Bytes, I64]) -> Any:
    return part.shape[1] if isinstance(part, np.ndarray) else np.diff(part[1])


def _layout(column: pa.Array) -> Bytes | tuple[Bytes, I64]:
    """The encoded values of a column: fixed-width rows, or all bytes and their offsets."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _texts(column.cast(pa.binary()))
    if pa.types.is_decimal128(kind):
        return _numeric(column)
    if pa.types.is_timestamp(kind):
        return _fixed(_plain(column.cast(pa.timestamp("us", kind.tz)).view(pa.int64())) - _MICROS_TO_2000, ">i8")
    if pa.types.is_date32(kind):
        return _fixed(_plain(column.view(pa.int32())) - _DAYS_TO_2000, ">i4")
    assert kind in _BIG_ENDIAN, f"a mart has no column of type {kind}"
    return _fixed(_plain(column), _BIG_ENDIAN[kind])


def _plain(column: pa.Array) -> npt.NDArray[Any]:
    zero = pa.scalar(0, pa.int64()).cast(column.type)
    found: npt.NDArray[Any] = pc.fill_null(column, zero).to_numpy(zero_copy_only=False)
    return found


def _fixed(values: npt.NDArray[Any], kind: str) -> Bytes:
    return np.ascontiguousarray(values.astype(kind)).view(np.uint8).reshape(len(values), -1)


def _texts(column: pa.Array) -> tuple[Bytes, I64]:
    _, offsets, data = column.buffers()
    starts = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    return (np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)), starts


def _numeric(column: pa.Array) -> Bytes:
    """Decimals as Postgres has them: how many digits, the power of the first, sign, scale, digits of base 10,000."""
    scale = column.type.scale
    fraction, whole = -(-scale // 4), -(-(column.type.precision - scale) // 4)
    first = column.offset * 2
    words = np.frombuffer(column.buffers()[1], np.uint64)[first : first + 2 * len(column)].reshape(-1, 2)
    out = np.empty((len(column), 8 + 2 * (whole + fraction)), np.uint8)
    heads = np.array([whole + fraction, whole - 1, 0, scale], ">i2").view(np.uint8)
    _digits(words, np.uint64(10 ** (4 * fraction - scale)), heads, out)
    return out


@kernel
def _digits(words: Any, factor: Any, heads: Any, out: Any) -> None:
    half, low, base = np.uint64(32), np.uint64(0xFFFFFFFF), np.uint64(10_000)
    zero, one, byte = np.uint64(0), np.uint64(1), np.uint64(8)
    for row in range(len(words)):
        lower, upper = words[row, 0], words[row, 1]
        negative = upper >> np.uint64(63) == one
        if negative:  # two's complement
            lower, upper = ~lower + one, ~upper
            if lower == zero:
                upper += one
        for index in range(8):
            out[row, index] = heads[index]
        if negative:
            out[row, 4] = np.uint8(0x40)
        # 1. The value times a power of ten that makes its fraction whole digits, in limbs of 32 bits.
        carry = (lower & low) * factor
        a = carry & low
        carry = (lower >> half) * factor + (carry >> half)
        b = carry & low
        carry = (upper & low) * factor + (carry >> half)
        c = carry & low
        carry = (upper >> half) * factor + (carry >> half)
        d = carry & low
        e = carry >> half
        # 2. Digits from the last to the first.
        for at in range(out.shape[1] - 2, 7, -2):
            if (c | d | e) == zero:
                rest = (b << half) | a
                digit = rest % base
                rest //= base
                a, b = rest & low, rest >> half
            else:
                digit = e % base
                e //= base
                rest = (digit << half) | d
                d, digit = rest // base, rest % base
                rest = (digit << half) | c
                c, digit = rest // base, rest % base
                rest = (digit << half) | b
                b, digit = rest // base, rest % base
                rest = (digit << half) | a
                a, digit = rest // base, rest % base
            out[row, at] = np.uint8(digit >> byte)
            out[row, at + 1] = np.uint8(digit & np.uint64(255))


@kernel
def _begin(out: Any, at: Any, fields: int) -> None:
    for row in range(len(at)):
        out[at[row]] = fields >> 8
        out[at[row] + 1] = fields & 255
        at[row] += 2


@kernel
def _put_length(out: Any, at: int, length: int) -> None:
    out[at] = (length >> 24) & 255
    out[at + 1] = (length >> 16) & 255
    out[at + 2] = (length >> 8) & 255
    out[at + 3] = length & 255


@kernel
def _put_fixed(out: Any, at: Any, values: Any, valid: Any) -> None:
    width = values.shape[1]
    for row in range(len(at)):
        start = at[row]
        if not valid[row]:
            _put_length(out, start, -1)
            at[row] = start + 4
            continue
        _put_length(out, start, width)
        for index in range(width):
            out[start + 4 + index] = values[row, index]
        at[row] = start + 4 + width


@kernel
def _put_texts(out: Any, at: Any, data: Any, starts: Any, valid: Any) -> None:
    for row in range(len(at)):
        start = at[row]
        if not valid[row]:
            _put_length(out, start, -1)
            at[row] = start + 4
            continue
        first, length = starts[row], starts[row + 1] - starts[row]
        _put_length(out, start, length)
        for index in range(length):
            out[start + 4 + index] = data[first + index]
        at[row] = start + 4 + length
