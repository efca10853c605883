"""Exact decimal arithmetic on whole columns: unscaled integers in NumPy, Spark's result types.

    decimal128(p, s) column  ->  Unscaled(values = value * 10^s, valid)  ->  arithmetic  ->  decimal128(p', s')

Values are int64 as long as every value of the column fits (18 digits: nearly always), and Python integers in an object
array where they do not, so every operation is exact at any size. Arrow's own kernels refuse results of more than 38
digits for their *type* alone; here a value is NULL only when it really does not fit.

Rounding is half up (away from zero), as in Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

MAX_PRECISION = 38
_MIN_SCALE = 6  # of results whose digits do not all fit
_LIMIT = 2**63 - 1
_WORD = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Unscaled:
    """Integers that are `10^scale` times the values; what lies under a NULL is 0."""

    values: npt.NDArray[Any]  # int64, or object holding Python integers
    valid: npt.NDArray[np.bool_]
    scale: int


def bounded(precision: int, scale: int) -> pa.DataType:
    """The type of a result; digits after the point go first when more than 38 are wanted."""
    if precision > MAX_PRECISION:
        whole = precision - scale
        scale = max(MAX_PRECISION - whole, min(scale, _MIN_SCALE))
        precision = MAX_PRECISION
    return pa.decimal128(precision, scale)


def sum_type(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    scale = max(a.scale, b.scale)
    return bounded(max(a.precision - a.scale, b.precision - b.scale) + scale + 1, scale)


def product_type(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    return bounded(a.precision + b.precision + 1, a.scale + b.scale)


def quotient_type(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    scale = max(_MIN_SCALE, a.scale + b.precision + 1)
    return bounded(a.precision - a.scale + b.scale + scale, scale)


def remainder_type(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    scale = max(a.scale, b.scale)
    return bounded(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)


def common_type(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """A type that holds the values of both."""
    scale = max(a.scale, b.scale)
    return bounded(max(a.precision - a.scale, b.precision - b.scale) + scale, scale)


def unscaled(array: pa.Array) -> Unscaled:
    """The integers of a decimal128 or integer column."""
    valid = np.asarray(array.is_valid(), bool)
    if pa.types.is_integer(array.type):
        filled = array.cast(pa.int64()).fill_null(0)
        return Unscaled(np.asarray(filled), valid, 0)
    words = np.frombuffer(array.buffers()[1], np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
    low, high = words[0::2], words[1::2]
    low, high = np.where(valid, low, 0), np.where(valid, high, 0)
    if np.array_equal(low >> 63, high):
        return Unscaled(low, valid, array.type.scale)
    wide = [(int(h) << 64) | (int(w) & _WORD) for w, h in zip(low, high, strict=True)]
    return Unscaled(np.array(wide, object), valid, array.type.scale)


def to_arrow(number: Unscaled, wanted: pa.DataType) -> pa.Array:
    """The column of a result, rounded to the wanted scale; NULL where it has more digits than the type."""
    number = rescale(number, wanted.scale)
    limit = 10**wanted.precision
    values, valid = number.values, number.valid
    if _largest(values) >= limit:
        fits = np.asarray((values < limit) & (values > -limit), bool)
        values, valid = np.where(fits, values, 0), valid & fits
    words = np.empty((len(values), 2), np.int64)
    if values.dtype == object:
        words[:, 0] = np.array([int(v) & _WORD for v in values], np.uint64).view(np.int64)
        words[:, 1] = np.array([int(v) >> 64 for v in values], np.int64)
    else:
        words[:, 0], words[:, 1] = values, values >> 63
    bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(wanted, len(values), [bits, pa.py_buffer(words)])


def to_integers(number: Unscaled) -> pa.Array:
    """int64, digits after the point cut off; NULL where it does not fit."""
    values = _divided(number.values, 10**number.scale)
    fits = np.ones(len(values), bool)
    if values.dtype == object:
        fits = np.array([-_LIMIT - 1 <= int(v) <= _LIMIT for v in values], bool)
        values = np.where(fits, values, 0).astype(np.int64)
    return pa.array(values, pa.int64(), mask=~(number.valid & fits))


def add(a: Unscaled, b: Unscaled) -> Unscaled:
    a, b = _aligned(a, b)
    x, y = _widened(a.values, b.values, bound=_largest(a.values) + _largest(b.values))
    return Unscaled(x + y, a.valid & b.valid, a.scale)


def negate(a: Unscaled) -> Unscaled:
    (x,) = _widened(a.values, bound=_largest(a.values))
    return Unscaled(-x, a.valid, a.scale)


def absolute(a: Unscaled) -> Unscaled:
    (x,) = _widened(a.values, bound=_largest(a.values))
    return Unscaled(abs(x), a.valid, a.scale)


def multiply(a: Unscaled, b: Unscaled) -> Unscaled:
    x, y = _widened(a.values, b.values, bound=_largest(a.values) * _largest(b.values))
    return Unscaled(x * y, a.valid & b.valid, a.scale + b.scale)


def divide(a: Unscaled, b: Unscaled, scale: int) -> Unscaled:
    """Rounded half up at `scale`; NULL where the divisor is 0."""
    valid = a.valid & b.valid & np.asarray(b.values != 0, bool)
    shift = scale + b.scale - a.scale  # the quotient of the integers is the value * 10^(a.scale - b.scale)
    dividend = a if shift >= 0 else rescale(a, a.scale + shift)
    divisor = np.where(valid, b.values, 1)
    return Unscaled(np.where(valid, _long_division(dividend.values, divisor, max(0, shift)), 0), valid, scale)


def remainder(a: Unscaled, b: Unscaled) -> Unscaled:
    """With the sign of the dividend; NULL where the divisor is 0."""
    a, b = _aligned(a, b)
    valid = a.valid & b.valid & np.asarray(b.values != 0, bool)
    x, y = _widened(a.values, np.where(valid, b.values, 1), bound=max(_largest(a.values), _largest(b.values)))
    left = abs(x) % abs(y)
    return Unscaled(np.where(valid, np.where(x < 0, -left, left), 0), valid, a.scale)


def rescale(a: Unscaled, scale: int) -> Unscaled:
    """The same values with another number of digits after the point, rounded half up."""
    if scale == a.scale:
        return a
    factor = 10 ** abs(scale - a.scale)
    if scale > a.scale:
        (x,) = _widened(a.values, bound=_largest(a.values) * factor)
        return Unscaled(x * factor, a.valid, scale)
    return Unscaled(_half_up(a.values, factor), a.valid, scale)


def floor(a: Unscaled) -> Unscaled:
    factor = 10**a.scale
    (x,) = _widened(a.values, bound=max(factor, _largest(a.values)))
    return Unscaled(x // factor, a.valid, 0)


def ceiling(a: Unscaled) -> Unscaled:
    return negate(floor(negate(a)))


def _largest(values: npt.NDArray[Any]) -> int:
    return max(abs(int(values.max())), abs(int(values.min()))) if len(values) else 0


def _widened(*arrays: npt.NDArray[Any], bound: int) -> tuple[npt.NDArray[Any], ...]:
    """The arrays as they are where results up to `bound` fit int64, else as Python integers."""
    if bound <= _LIMIT and all(array.dtype != object for array in arrays):
        return arrays
    return tuple(array.astype(object) for array in arrays)


def _aligned(a: Unscaled, b: Unscaled) -> tuple[Unscaled, Unscaled]:
    scale = max(a.scale, b.scale)
    return rescale(a, scale), rescale(b, scale)


def _divided(values: npt.NDArray[Any], factor: int) -> npt.NDArray[Any]:
    """Towards zero."""
    (x,) = _widened(values, bound=max(factor, _largest(values)))
    whole = abs(x) // factor
    return np.where(x < 0, -whole, whole)


def _half_up(values: npt.NDArray[Any], factor: int) -> npt.NDArray[Any]:
    (x,) = _widened(values, bound=_largest(values) + factor)
    whole = (abs(x) + factor // 2) // factor
    return np.where(x < 0, -whole, whole)


def _long_division(dividend: npt.NDArray[Any], divisor: npt.NDArray[Any], digits: int) -> npt.NDArray[Any]:
    """`dividend * 10^digits / divisor`, rounded half up: by hand, a digit of all rows at a time."""
    top, bottom = _largest(dividend), _largest(divisor)
    narrow = dividend.dtype != object and divisor.dtype != object
    if not narrow or bottom > _LIMIT // 10 or top * 10**digits > _LIMIT:
        dividend, divisor = dividend.astype(object) * 10**digits, divisor.astype(object)
        digits = 0
    negative = (dividend < 0) != (divisor < 0)
    divisor = abs(divisor)
    quotient, left = abs(dividend) // divisor, abs(dividend) % divisor
    for _ in range(digits):
        left = left * 10
        quotient, left = quotient * 10 + left // divisor, left % divisor
    quotient = quotient + (left >= divisor - left)
    return np.asarray(np.where(negative, -quotient, quotient))
