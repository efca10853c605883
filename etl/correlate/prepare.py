"""From rows to tuples, before routing: selection, lanes of the key, band values.

A row whose key or band value is NULL (or NaN) can match nothing: it is left out and counted. The range of the other
side's values that a probe may match is computed here once: units only compare integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etl.columnar import decimals
from etl.columnar import keys as key_codec
from etl.columnar.expression import Expression, casts
from etl.correlate.model import FIRST, I64, LAST, U64, Side, Tuples, order_preserving, shifted
from etl.correlate.query.condition import Band, BandSide, Bound, Condition

_SLACK = 1e-9  # relative width added to bounds of floats; candidates are checked again
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Prepared:
    tuples: Tuples
    unmatchable: int  # rows with a NULL where the condition needs a value


def selected(selection: Expression | None, batch: pa.RecordBatch) -> I64:
    """Positions of the rows that satisfy a stream's selection; NULL does not."""
    if selection is None:
        return np.arange(batch.num_rows)
    return np.flatnonzero(np.asarray(selection.evaluate(batch).fill_null(False)))


def event_times(column: pa.Array | pa.ChunkedArray) -> I64:
    """Microseconds since 1970; no NULL may be among them."""
    column = key_codec.to_contiguous(column)
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("us"))
    return np.asarray(column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64()))


def prepare(condition: Condition, side: Side, batch: pa.RecordBatch, refs: I64, times: I64, places: I64) -> Prepared:
    """Tuples of one side of a join. `batch` has the condition's columns, row by row with refs, times and places."""
    valid = np.ones(batch.num_rows, bool)
    lo, hi, value, low, high = np.zeros(0, np.uint64), np.zeros(0, np.uint64), *[np.zeros(0, np.int64)] * 3
    if condition.keys:
        lo, hi, known = _lanes(condition, side, batch)
        valid &= known
    if condition.band is not None:
        value, low, high, known = _ranges(condition.band, side, batch)
        valid &= known
    tuples = Tuples(refs, times, places, lo, hi, value, low, high)
    return Prepared(tuples if valid.all() else tuples.take(valid), int(len(valid) - np.count_nonzero(valid)))


def _lanes(condition: Condition, side: Side, batch: pa.RecordBatch) -> tuple[U64, U64, Mask]:
    parts, valid = [], np.ones(batch.num_rows, bool)
    for key in condition.keys:
        expression = key.left if side == "left" else key.right
        column = _converted(expression, key.type, batch)
        part, known = _key_part(column, key.type)
        parts.append(part)
        valid &= known
    whole = parts[0] if len(parts) == 1 else pa.StructArray.from_arrays(parts, [str(i) for i in range(len(parts))])
    keys = key_codec.encode(whole)
    return keys.lo, np.zeros(0, np.uint64) if keys.hi is None else keys.hi, valid


def _converted(expression: Expression, wanted: pa.DataType, batch: pa.RecordBatch) -> pa.Array:
    convert = casts.conversion(expression.type, wanted, expression.timezone)
    assert convert is not None, "a type in common was found when the condition was made"
    return convert(expression.evaluate(batch))


def _key_part(column: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    """int64 or text without NULLs, and the mask of known values."""
    valid = np.asarray(column.is_valid(), bool)
    if pa.types.is_decimal(kind):
        if kind.precision <= 18:
            return pa.array(decimals.unscaled(column).values), valid
        column = column.cast(pa.string())
    elif pa.types.is_floating(kind):
        numbers = np.asarray(column.cast(pa.float64()).fill_null(0.0))
        return pa.array(order_preserving(numbers)), valid & ~np.isnan(numbers)
    elif pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        return pa.array(_moments(column)), valid
    elif not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind)):
        return column.cast(pa.int64()).fill_null(0), valid
    return column.fill_null(b"" if pa.types.is_binary(column.type) else ""), valid


def _moments(column: pa.Array) -> I64:
    epoch = pa.scalar(0, pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    return event_times(column.fill_null(epoch.cast(column.type)))


def _ranges(band: Band, side: Side, batch: pa.RecordBatch) -> tuple[I64, I64, I64, Mask]:
    own = band.side(side)
    array = _converted(own.value, band.type, batch)
    valid = np.asarray(array.is_valid(), bool)
    if band.encoding == "float":
        numbers = np.asarray(array.cast(pa.float64(), safe=False).fill_null(0.0))
        low, high = _float_range(own, numbers)
        return order_preserving(numbers), low, high, valid & ~np.isnan(numbers)
    value = _integers(array, band)
    low, high = np.full(len(value), FIRST), np.full(len(value), LAST)
    for bound in own.bounds:
        numbers = _whole_bound(value, bound)
        low, high = (low, np.minimum(high, numbers)) if bound.upper else (np.maximum(low, numbers), high)
    return value, low, high, valid


def _integers(array: pa.Array, band: Band) -> I64:
    if band.encoding == "moment":
        return _moments(array)
    if band.encoding == "integer":
        return np.asarray(array.cast(pa.int64()).fill_null(0))
    return np.asarray(decimals.unscaled(array).values, np.int64)


def _whole_bound(value: I64, bound: Bound) -> I64:
    """The nearest integer that the bound allows; factors are 1 or -1."""
    offset = bound.offset
    whole = offset.numerator // offset.denominator if bound.upper else -(-offset.numerator // offset.denominator)
    if bound.strict and Fraction(whole) == offset:
        whole += -1 if bound.upper else 1
    base = value if bound.factor > 0 else -value
    limited = max(int(FIRST) + 1, min(int(LAST), whole))
    return shifted(base, limited, LAST)


def _float_range(own: BandSide, numbers: npt.NDArray[np.float64]) -> tuple[I64, I64]:
    low, high = np.full(len(numbers), -np.inf), np.full(len(numbers), np.inf)
    for bound in own.bounds:
        with np.errstate(over="ignore", invalid="ignore"):
            at = numbers * float(bound.factor) + float(bound.offset)
            slack = _SLACK * (np.abs(numbers * float(bound.factor)) + abs(float(bound.offset)) + 1e-300)
        if bound.upper:
            high = np.minimum(high, np.where(np.isnan(at), np.inf, at + slack))
        else:
            low = np.maximum(low, np.where(np.isnan(at), -np.inf, at - slack))
    return order_preserving(low), order_preserving(high)
