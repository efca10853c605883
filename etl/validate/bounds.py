"""Bounds and members of rules as values of their column's type, so that comparisons are exact.

    column           bound                     compared as
    int, bigint      0.5                       ≥ 1 (rounded into the range)
    decimal(p,s)     5, "0.25", 0.00001        rounded into the range, at the column's scale
    timestamp        text, time, now + 24h     microseconds in UTC
    date             text, time, now + 24h     days

A bound beyond what the type can hold either allows everything (it is left out) or nothing (the range is empty).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

import pyarrow as pa
import pyarrow.types as kinds

from etl.contract.model import Bound, RangeRule, RelativeTime, Scalar, SetRule

_EXACT = Context(prec=2_000, Emax=999_999, Emin=-999_999)


@dataclass(frozen=True, slots=True)
class Ends:
    """A range in its column's type; `empty` allows no value at all."""

    low: pa.Scalar | None = None
    high: pa.Scalar | None = None
    empty: bool = False


def fits(rule: RangeRule, kind: pa.DataType, now: datetime) -> Ends:
    """The range of a rule in the type of its column."""
    if kinds.is_integer(kind) or kinds.is_decimal(kind):
        return _exact_ends(rule, kind)
    low, high = (None if end is None else pa.scalar(_plain(end, kind, now), kind) for end in (rule.min, rule.max))
    return Ends(low, high)


def members(rule: SetRule, kind: pa.DataType) -> pa.Array:
    """The values of a set; those that the type cannot hold equal no value."""
    found = [_member(value, kind) for value in rule.values if value is not None]
    return pa.array([value for value in found if value is not None], kind)


def _exact_ends(rule: RangeRule, kind: pa.DataType) -> Ends:
    scale = kind.scale if kinds.is_decimal(kind) else 0
    if kinds.is_decimal(kind):
        most = Decimal(10**kind.precision - 1).scaleb(-scale, _EXACT)
        least = -most
    else:
        least, most = Decimal(-(2 ** (kind.bit_width - 1))), Decimal(2 ** (kind.bit_width - 1) - 1)
    low = None if rule.min is None else _rounded(rule.min, scale, ROUND_CEILING)
    high = None if rule.max is None else _rounded(rule.max, scale, ROUND_FLOOR)
    empty = (low is not None and low > most) or (high is not None and high < least)
    return Ends(
        None if low is None or low <= least or empty else _scalar(low, kind),
        None if high is None or high >= most or empty else _scalar(high, kind),
        empty,
    )


def _rounded(bound: Bound, scale: int, rounding: str) -> Decimal:
    return Decimal(str(bound)).quantize(Decimal(1).scaleb(-scale), rounding, _EXACT)


def _scalar(value: Decimal, kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(int(value) if kinds.is_integer(kind) else value, kind)


def _plain(bound: Bound | Scalar, kind: pa.DataType, now: datetime | None) -> object:
    """The Python value of a bound or member that is no exact number."""
    if kinds.is_floating(kind):
        return float(str(bound))
    if not kinds.is_temporal(kind):
        return bound
    if isinstance(bound, RelativeTime):
        assert now is not None, "only ranges are relative to now"
        moment = now + bound.offset
    else:
        moment = bound if isinstance(bound, datetime) else datetime.fromisoformat(str(bound))
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment.date() if kinds.is_date(kind) else moment


def _member(value: Scalar, kind: pa.DataType) -> object | None:
    if kinds.is_decimal(kind):
        exact = Decimal(str(value))
        rounded = _rounded(str(value), kind.scale, ROUND_FLOOR)
        return rounded if rounded == exact and abs(rounded) < Decimal(10) ** (kind.precision - kind.scale) else None
    if kinds.is_date(kind):
        return date.fromisoformat(str(value))
    return _plain(value, kind, None)
