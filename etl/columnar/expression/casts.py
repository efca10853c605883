"""From one type to another, whole columns at a time; a value that cannot be converted becomes NULL.

Arrow's casts raise for the whole column when one value is bad. `_each` halves the column until only bad values are
left: a few bad values cost a few casts more. Texts are checked by pattern before, so bad ones among them cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.columnar import decimals
from etl.columnar.expression import types

Convert = Callable[[pa.Array], pa.Array]

_INTEGER = r"^\s*[+-]?[0-9]+\s*$"
_NUMBER = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?\s*$"
_PLAIN_NUMBER = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)\s*$"
_DATE = r"^\s*[0-9]{4}-[0-9]{2}-[0-9]{2}\s*$"
_MOMENT = (
    r"^\s*[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?\s*$"
)
_ZONED = r"(Z|:[0-9.]+[+-][0-9]{2}:?[0-9]{2})\s*$"
_TRUE, _FALSE = ["true", "t", "yes", "y", "1"], ["false", "f", "no", "n", "0"]


def conversion(given: pa.DataType, wanted: pa.DataType, timezone: str) -> Convert | None:
    """The function that converts a column, None if no value of the one type is a value of the other."""
    if given == wanted:
        return lambda array: array
    if pa.types.is_null(given):
        return lambda array: pa.nulls(len(array), wanted)
    if types.is_text(given):
        return _from_text(wanted, timezone)
    if types.is_text(wanted):
        return _to_text(given, wanted, timezone)
    if types.is_moment(given) and types.is_moment(wanted):
        return lambda array: moment(array, wanted, timezone)
    if pa.types.is_boolean(given) and types.is_number(wanted):
        return lambda array: _number(array.cast(pa.int8()), wanted)
    if types.is_number(given) and pa.types.is_boolean(wanted):
        return lambda array: pc.not_equal(
            array, pa.scalar(0, given) if not pa.types.is_decimal(given) else pa.scalar(0)
        )
    if types.is_number(given) and types.is_number(wanted):
        return lambda array: _number(array, wanted)
    return None


def _each(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Arrow's cast, NULL where it fails: halves are tried until the values that fail stand alone."""
    try:
        return array.cast(wanted)
    except pa.ArrowInvalid:
        if len(array) <= 1:
            return pa.nulls(len(array), wanted)
    middle = len(array) // 2
    return pa.concat_arrays([_each(array.slice(0, middle), wanted), _each(array.slice(middle), wanted)])


def _number(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(wanted):
        exact = not pa.types.is_floating(array.type)
        return decimals.to_arrow(decimals.unscaled(array), wanted) if exact else _each(array, wanted)
    if pa.types.is_floating(wanted):
        return array.cast(wanted, safe=False)
    if pa.types.is_decimal(array.type):
        array = decimals.to_integers(decimals.unscaled(array))
    elif pa.types.is_floating(array.type):
        array = _whole(array)
    return _each(array, wanted)


def _whole(array: pa.Array) -> pa.Array:
    """int64 of floats, towards zero; NULL for NaN and what is too large."""
    values = np.asarray(array.cast(pa.float64(), safe=False).fill_null(0.0))
    fits = (values >= -(2.0**63)) & (values < 2.0**63)
    whole = np.trunc(np.where(fits, values, 0.0)).astype(np.int64)
    return pa.array(whole, mask=~(fits & np.asarray(array.is_valid(), bool)))


def _from_text(wanted: pa.DataType, timezone: str) -> Convert | None:
    if types.is_text(wanted) or pa.types.is_binary(wanted):
        return lambda array: array.cast(wanted)
    if pa.types.is_boolean(wanted):
        return _boolean
    if pa.types.is_decimal(wanted):
        return lambda array: _text_to_decimal(array, wanted)
    if pa.types.is_integer(wanted):
        return lambda array: _each(_matching(array, _INTEGER, strip_plus=True), wanted)
    if pa.types.is_floating(wanted):
        return lambda array: _each(_matching(array, _NUMBER, strip_plus=True), wanted)
    if pa.types.is_date(wanted):
        return lambda array: _text_to_date(array, timezone)
    return (lambda array: _text_to_timestamp(array, wanted, timezone)) if pa.types.is_timestamp(wanted) else None


def _matching(array: pa.Array, pattern: str, *, strip_plus: bool = False) -> pa.Array:
    """The trimmed texts that match, NULL for the others."""
    matches = pc.match_substring_regex(array, pattern)
    trimmed = pc.utf8_trim_whitespace(pc.if_else(matches, array, pa.scalar(None, array.type)))
    return pc.replace_substring_regex(trimmed, r"^\+", "") if strip_plus else trimmed


def _boolean(array: pa.Array) -> pa.Array:
    lowered = pc.utf8_lower(pc.utf8_trim_whitespace(array)).cast(pa.string())
    true, false = (pc.is_in(lowered, value_set=pa.array(words)) for words in (_TRUE, _FALSE))
    return pc.if_else(pc.or_(true, false), true, pa.scalar(None, pa.bool_()))


def _text_to_decimal(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Only one digit more than wanted matters for rounding half up."""
    texts = _matching(array, _PLAIN_NUMBER, strip_plus=True)
    digits = min(wanted.scale + 1, decimals.MAX_PRECISION)
    cut = pc.replace_substring_regex(texts, rf"(\.[0-9]{{{digits}}})[0-9]+$", r"\1")
    exact = _each(cut, pa.decimal128(decimals.MAX_PRECISION, digits))
    return decimals.to_arrow(decimals.unscaled(exact), wanted)


def _text_to_date(array: pa.Array, timezone: str) -> pa.Array:
    dates = _each(_matching(array, _DATE).cast(pa.string()), pa.date32())
    if dates.null_count == array.null_count:
        return dates
    moments = _text_to_timestamp(array, pa.timestamp("us"), timezone)
    return pc.coalesce(dates, moments.cast(pa.date32(), safe=False))


def _text_to_timestamp(array: pa.Array, wanted: pa.DataType, timezone: str) -> pa.Array:
    texts = _matching(array, _MOMENT).cast(pa.string())
    zoned = pc.match_substring_regex(texts, _ZONED)
    nothing = pa.scalar(None, pa.string())
    aware = _each(pc.if_else(zoned, texts, nothing), pa.timestamp("ns", "UTC"))
    local = _each(pc.if_else(zoned, nothing, texts), pa.timestamp("ns"))
    instants = pc.coalesce(
        aware.cast(pa.timestamp("us", "UTC"), safe=False),
        moment(local.cast(pa.timestamp("us"), safe=False), pa.timestamp("us", "UTC"), timezone),
    )
    return moment(instants, wanted, timezone)


def moment(array: pa.Array, wanted: pa.DataType, timezone: str) -> pa.Array:
    """Dates and timestamps; what has no zone is in `timezone`."""
    if pa.types.is_date(array.type):
        array = array.cast(pa.date32(), safe=False).cast(pa.timestamp("us"))
    elif array.type.unit != "us":
        array = array.cast(pa.timestamp("us", array.type.tz), safe=False)
    if pa.types.is_date(wanted):
        return _local(array, timezone).cast(pa.date32(), safe=False)
    if not wanted.tz:
        return _local(array, timezone)
    if array.type.tz is None:
        array = pc.assume_timezone(array, timezone, ambiguous="earliest", nonexistent="earliest")
    return array.cast(wanted)


def _local(array: pa.Array, timezone: str) -> pa.Array:
    """Wall-clock time."""
    return array if array.type.tz is None else pc.local_timestamp(array.cast(pa.timestamp("us", timezone)))


def _to_text(given: pa.DataType, wanted: pa.DataType, timezone: str) -> Convert | None:
    if pa.types.is_timestamp(given):
        return lambda array: _moment_to_text(_local(moment(array, array.type, timezone), timezone)).cast(wanted)
    if types.is_number(given) or pa.types.is_boolean(given) or pa.types.is_date(given):
        return lambda array: array.cast(wanted)
    return None


def _moment_to_text(array: pa.Array) -> pa.Array:
    """`2026-01-02 03:04:05.678`, without zeros at the end of the fraction."""
    texts = pc.replace_substring_regex(array.cast(pa.string()), r"\.([0-9]*[1-9])?0*$", r".\1")
    return pc.replace_substring_regex(texts, r"\.$", "")
