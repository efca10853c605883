"""From texts to a declared type: a value, or the reason why there is none.

    text of a field ──strip──▶ kernel of its type ──▶ Column(values, missing, invalid)

    declared           accepted                                                        as NULL
    int, bigint        digits with a sign, as number or text; not 12.0, not 1e3        out of range
    decimal(p,s)       any finite number, as number or text; rounded half up to s      more than p digits
    double             any finite number, as number or text                            NaN, infinities
    boolean            true/t/yes/y/1 and false/f/no/n/0, in any case
    string             text; a number, boolean or nested value as it stands in JSON    NUL, half a surrogate pair
    date, timestamp    ISO 8601, or the declared format; years 1 to 9999               date with a time

`strip` removes characters wherever they occur. A field that is absent or null takes its default; without one it is
NULL if optional and a reason if required. What is present and not of the type is invalid, required or not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from etl.contract.model import Field
from etl.errors import TerminalError
from etl.ingest.formats import compile_format
from etl.ingest.kernels import numbers, times
from etl.ingest.kernels.spans import TEXT, Mask
from etl.ingest.texts import Texts, read_only, strings

_BOOLEAN_WORDS = (b"true", b"false", b"t", b"f", b"yes", b"no", b"y", b"n", b"1", b"0")
"""True and false in turn."""


class DefaultInvalid(TerminalError):
    """A default that is not of its field's type."""

    def __init__(self, field: str, text: str, type_name: str) -> None:
        super().__init__(field, text, type_name)
        self.field, self.text, self.type_name = field, text, type_name

    def __str__(self) -> str:
        return f"default {self.text!r} of field {self.field!r} is not a {self.type_name}; give a value of that type"


@dataclass(frozen=True, slots=True)
class Column:
    """One field of all rows."""

    values: pa.Array
    missing: Mask
    invalid: Mask


def column(texts: Texts, field: Field) -> Column:
    """The values of a field, with its default where it is absent."""
    values, ok = _converted(texts, field)
    present = texts.present
    return completed(Column(values, ~present, present & ~ok), field)


def completed(typed: Column, field: Field) -> Column:
    """Fill in the default; nothing is missing then, nor when the field is optional."""
    if field.default is None or not typed.missing.any():
        return typed if field.required else Column(typed.values, np.zeros_like(typed.missing), typed.invalid)
    values = pc.if_else(pa.array(typed.missing), default_value(field), typed.values)
    return Column(values, np.zeros_like(typed.missing), typed.invalid)


def default_value(field: Field) -> pa.Scalar:
    """The default in the field's type: declared in ISO 8601 and without characters to strip, unlike the events."""
    text = str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
    data = read_only(np.frombuffer(text.encode(), np.uint8))
    span = np.array([0], np.int32), np.array([len(data)], np.int32)
    plain = replace(field, format=None, strip="")
    values, ok = _converted(Texts(data, *span, np.array([TEXT], np.uint8)), plain)
    if not ok[0]:
        raise DefaultInvalid(field.name, text, str(field.type))
    return values[0]


def _converted(texts: Texts, field: Field) -> tuple[pa.Array, Mask]:
    kind = field.type
    if pa.types.is_string(kind):
        data, offsets, ok = texts.written(field.strip)
        return strings(data, offsets, ok), ok
    texts = texts.plain(field.strip)
    if pa.types.is_integer(kind):
        return _integers(texts, kind)
    if pa.types.is_decimal(kind):
        return _decimals(texts, kind)
    if pa.types.is_floating(kind):
        return _doubles(texts)
    if pa.types.is_boolean(kind):
        return _booleans(texts)
    return _times(texts, field)


def _array(kind: pa.DataType, values: npt.NDArray[Any], ok: Mask) -> pa.Array:
    """An Arrow array of fixed-width values, without copying them."""
    bitmap = None if ok.all() else pa.py_buffer(np.packbits(ok, bitorder="little"))
    return pa.Array.from_buffers(kind, len(ok), [bitmap, pa.py_buffer(values)])


def _integers(texts: Texts, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    out, ok = np.empty(len(texts), np.int64), np.empty(len(texts), np.bool_)
    low, high = -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
    numbers.integers(texts.data, texts.start, texts.end, texts.kind, low, high, out, ok)
    return _array(kind, out.astype(kind.to_pandas_dtype(), copy=False), ok), ok


def _decimals(texts: Texts, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    out, ok = np.empty((len(texts), 2), np.uint64), np.empty(len(texts), np.bool_)
    power = 10**kind.precision
    limit = np.array([power % 2**64, power // 2**64], np.uint64)
    numbers.decimals(texts.data, texts.start, texts.end, texts.kind, kind.precision, kind.scale, limit, out, ok)
    return _array(kind, out, ok), ok


def _doubles(texts: Texts) -> tuple[pa.Array, Mask]:
    out = np.empty(len(texts), np.float64)
    ok, hard = np.empty((2, len(texts)), np.bool_)
    numbers.doubles(texts.data, texts.start, texts.end, texts.kind, out, ok, hard)
    for row in np.flatnonzero(hard):  # more than 15 digits, or very large or small: rare
        out[row] = float(texts.data[texts.start[row] : texts.end[row]].tobytes())
    ok &= np.isfinite(out)
    return _array(pa.float64(), out, ok), ok


def _booleans(texts: Texts) -> tuple[pa.Array, Mask]:
    out, ok = np.empty((2, len(texts)), np.bool_)
    words = read_only(np.frombuffer(b"".join(_BOOLEAN_WORDS), np.uint8))
    ends = np.cumsum([len(word) for word in _BOOLEAN_WORDS], dtype=np.int32)
    numbers.booleans(texts.data, texts.start, texts.end, texts.kind, words, ends, out, ok)
    return pa.array(out, mask=~ok), ok


def _times(texts: Texts, field: Field) -> tuple[pa.Array, Mask]:
    out, ok = np.empty(len(texts), np.int64), np.empty(len(texts), np.bool_)
    pattern = compile_format(field.format)
    if pa.types.is_date32(field.type):
        times.dates(texts.data, texts.start, texts.end, texts.kind, pattern, out, ok)
        return _array(field.type, out.astype(np.int32), ok), ok
    times.timestamps(texts.data, texts.start, texts.end, texts.kind, pattern, out, ok)
    return _array(field.type, out, ok), ok
