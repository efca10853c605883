"""The three domains in which selections compare and aggregates compute, for all Arrow types.

    integer   int64: integers, booleans, dates, times, timestamps, decimals of up to 18 digits (unscaled)
    float     float64
    text      strings, compared by their bytes

A query's constant is converted to its column's domain once, at creation; a bucket's column once, when the bucket is
built.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etl.columnar.keys import to_contiguous

Domain = Literal["integer", "float", "text"]
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_DIGITS = 18  # of a decimal whose unscaled value is an int64


def domain_of(kind: pa.DataType) -> Domain | None:
    """The domain of a type; None for types that can be selected but not compared."""
    if _is_text(kind):
        return "text"
    if pa.types.is_floating(kind):
        return "float"
    whole = pa.types.is_integer(kind) and not pa.types.is_uint64(kind)
    decimal = pa.types.is_decimal(kind) and kind.precision <= _DIGITS and kind.scale >= 0
    return "integer" if whole or decimal or pa.types.is_boolean(kind) or _is_temporal(kind) else None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_temporal(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind))


def constant(value: Any, kind: pa.DataType) -> Any:
    """Convert a constant to the domain of `kind`: int or Decimal, float, str. Raises ValueError if impossible."""
    domain = domain_of(kind)
    if domain == "text":
        if not isinstance(value, str):
            raise ValueError("compare it with a string")
        return value
    if _is_temporal(kind):
        return _temporal(value, kind)
    if pa.types.is_boolean(kind):
        if not isinstance(value, bool):
            raise ValueError("compare it with true or false")
        return int(value)
    if not isinstance(value, Decimal):
        raise ValueError("compare it with a number")
    if domain == "float":
        return float(value)
    return _EXACT.scaleb(value, kind.scale) if pa.types.is_decimal(kind) else value


def _temporal(value: Any, kind: pa.DataType) -> int:
    if not isinstance(value, str):
        raise ValueError("compare it with a time in quotes")
    try:
        return int(pa.scalar(value).cast(kind).cast(_integer_of(kind)).as_py())
    except pa.ArrowException as error:
        raise ValueError(f"{value!r} is not a {kind}") from error


def _integer_of(kind: pa.DataType) -> pa.DataType:
    return pa.int32() if kind.bit_width == 32 else pa.int64()


def to_numbers(array: pa.Array | pa.ChunkedArray) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
    """A column of the integer or float domain as NumPy, NULL as 0; and the mask of NULLs, None without any."""
    array = to_contiguous(array)
    missing = None if not array.null_count else np.asarray(array.is_null())
    if pa.types.is_decimal(array.type):
        wide = array.cast(pa.decimal128(38, array.type.scale))
        lanes = np.frombuffer(wide.buffers()[1], np.int64)[2 * wide.offset : 2 * (wide.offset + len(wide))]
        values = lanes.reshape(-1, 2)[:, 0].copy()
        if missing is not None:
            values[missing] = 0
        return values, missing
    target = pa.float64() if domain_of(array.type) == "float" else pa.int64()
    if _is_temporal(array.type):
        array = array.cast(_integer_of(array.type))
    return array.cast(target).fill_null(0).to_numpy(zero_copy_only=False), missing


def from_numbers(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    """Convert numbers of a domain back to a column of `kind`."""
    if pa.types.is_decimal(kind):
        lanes = np.stack([values.astype(np.int64), values.astype(np.int64) >> 63], axis=1)
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little").tobytes())
        exact = pa.Array.from_buffers(
            pa.decimal128(38, kind.scale), len(values), [valid, pa.py_buffer(np.ascontiguousarray(lanes).tobytes())]
        )
        return exact.cast(kind)
    plain = pa.array(values, mask=missing)
    if _is_temporal(kind):
        plain = plain.cast(_integer_of(kind))
    return plain.cast(kind)
