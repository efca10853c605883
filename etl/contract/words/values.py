"""Values in a file (bounds, defaults, members of sets) as values of the field that they are about.

    field      in the file                        in the model
    int        5                                  int, within the type's range
    decimal    5, 0.25, "0.25"                    int, or the digits as text: exact
    double     5, 0.25                            float
    date       2000-01-01, "2000-01-01"           text in ISO 8601
    timestamp  2000-01-01T00:00:00Z, or as text   datetime in UTC (a bound), text in ISO 8601 (a default)

`now + 24h` is a bound of a date or timestamp. An invalid value is a `ValueError` whose text is what is allowed.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from math import inf, isfinite

import pyarrow as pa

from etl.contract.model import Bound, Scalar
from etl.contract.words import times
from etl.contract.words.types import declared_name


def bound(given: object, kind: pa.DataType) -> Bound:
    """One end of a range."""
    if isinstance(given, str) and is_moment(kind):
        relative = times.relative(given)
        if relative is not None:
            return relative
    if pa.types.is_decimal(kind):
        return _decimal(given, None)
    return _moment(given) if pa.types.is_timestamp(kind) else value(given, kind)


def value(given: object, kind: pa.DataType) -> Scalar:
    """A single value of a type."""
    if pa.types.is_integer(kind):
        return _integer(given, kind)
    if pa.types.is_decimal(kind):
        return _decimal(given, kind)
    if pa.types.is_floating(kind):
        return _float(given)
    if pa.types.is_date(kind):
        return _date(given).isoformat()
    if pa.types.is_timestamp(kind):
        return _moment(given).isoformat().replace("+00:00", "Z")
    wanted = bool if pa.types.is_boolean(kind) else str
    if not isinstance(given, wanted):
        raise ValueError("true or false" if wanted is bool else "a text")
    return given


def is_moment(kind: pa.DataType) -> bool:
    """Whether values are dates or times."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _integer(given: object, kind: pa.DataType) -> int:
    limit: int = 2 ** (kind.bit_width - 1)
    if isinstance(given, bool) or not isinstance(given, int) or not -limit <= given < limit:
        raise ValueError(f"a whole number from {-limit} to {limit - 1}")
    return given


def _float(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | Decimal) or not Decimal(given).is_finite():
        raise ValueError("a number")
    try:
        number = float(given)
    except OverflowError:
        number = inf
    if not isfinite(number):
        raise ValueError("a number of ordinary size")
    return number


def _decimal(given: object, kind: pa.DataType | None) -> int | str:
    """A number, exact; with a type it must have that type's digits."""
    if isinstance(given, bool) or not isinstance(given, int | str | Decimal):
        raise ValueError("a number")
    try:
        number = Decimal(given)
    except InvalidOperation:
        raise ValueError("a number") from None
    if not number.is_finite() or abs(number.adjusted()) > 100:
        raise ValueError("a number of ordinary size")
    if kind is not None and not _fits(number, kind):
        raise ValueError(f"a number that {declared_name(kind)} can hold")
    return given if isinstance(given, int) else f"{number:f}"


def _fits(number: Decimal, kind: pa.DataType) -> bool:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), "the number is finite"
    whole_digits = number.adjusted() + 1 if number else 0
    return bool(-exponent <= kind.scale and whole_digits <= kind.precision - kind.scale)


def _date(given: object) -> date:
    if isinstance(given, str):
        with suppress(ValueError):
            return date.fromisoformat(given)
    if isinstance(given, date) and not isinstance(given, datetime):
        return given
    raise ValueError("a date such as 2000-01-01")


def _moment(given: object) -> datetime:
    """A time in UTC; a date is midnight, a time without a zone is in UTC."""
    moment: datetime | None = None
    if isinstance(given, str):
        with suppress(ValueError):
            moment = datetime.fromisoformat(given)
    if isinstance(given, datetime):
        moment = given
    elif isinstance(given, date):
        moment = datetime(given.year, given.month, given.day)
    if moment is None:
        raise ValueError("a time such as 2000-01-01T00:00:00Z")
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("a time whose year in UTC is one of 1 to 9999") from None
