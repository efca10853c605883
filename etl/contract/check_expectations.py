"""Checks of declared expectations: what Great Expectations would refuse, or never find true, when a batch is audited.

argument                       must be
column, column_list, …         columns of the fact, of a kind that the expectation is about
min_value, max_value           numbers; dates or times for expectations of such a column's values
value_set, value_pairs_set     values of the columns' kinds
regex, regex_list              expressions of Python's `re`, which Great Expectations uses
others                         the type that they have there
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa

from etl.contract.errors import Mistake, TomlPath, unknown
from etl.contract.model import Expectation
from etl.contract.words.expectation_types import (
    BOUNDED,
    COLUMN_ARGUMENTS,
    COMMON,
    EXPECTATIONS,
    NOT_OF_MOMENTS,
    OF_NUMBERS,
    OF_ORDERED,
    SEVERITIES,
)
from etl.contract.words.types import declared_name
from etl.contract.words.values import is_moment

Types = Mapping[str, pa.DataType | None]
"""The columns of the fact with their types; None where a master has it."""


def mistakes(path: TomlPath, expectation: Expectation, columns: Types | None) -> Iterator[Mistake]:
    """All mistakes of an expectation. `columns` is None while columns of masters are not listed."""
    arguments = EXPECTATIONS.get(expectation.type)
    if arguments is None:
        yield Mistake(
            (*path, "type"), unknown("an expectation", expectation.type, sorted(EXPECTATIONS), "expectations")
        )
        return
    allowed, found = (*arguments.names, *COMMON), False
    for name, given in expectation.arguments.items():
        if name not in allowed:
            yield Mistake((*path, name), unknown(f"an argument of {expectation.type}", name, allowed, "arguments"))
            found = True
            continue
        for sentence in _argument(expectation, name, given, columns):
            yield Mistake((*path, name), sentence)
            found = True
    for name in arguments.needed:
        if name not in expectation.arguments:
            yield Mistake(path, f"{expectation.type} has no {name!r}; it needs one")
            found = True
    if expectation.type in BOUNDED and not {"min_value", "max_value"} & expectation.arguments.keys():
        yield Mistake(path, f"{expectation.type} has no 'min_value' and no 'max_value'; it needs one of them")
    if not found:
        yield from _together(path, expectation, {} if columns is None else columns)


def _argument(expectation: Expectation, name: str, given: Any, columns: Types | None) -> Iterator[str]:
    """What is wrong with one argument, whatever the others are."""
    if name in COLUMN_ARGUMENTS:
        yield from _columns(name, given, columns)
    elif name == "severity" and given not in SEVERITIES:
        yield unknown("a severity", str(given), SEVERITIES, "severities")
    elif name == "mostly" and not (_is_number(given) and 0 <= given <= 1):
        yield f"mostly is {given!r}, but must be a share from 0 to 1"
    elif name in ("regex", "regex_list"):
        yield from _patterns(name, given)
    elif name == "ignore_row_if":
        known = _IGNORED_OF_PAIRS if "_pair_" in expectation.type else _IGNORED_OF_LISTS
        if given not in known:
            yield unknown("a choice of rows to ignore", str(given), known, "choices")
    elif name in _ALLOWED:
        fits, allowed = _ALLOWED[name]
        if not fits(given):
            yield f"{name} is {given!r}, but must be {allowed}"


def _columns(name: str, given: Any, columns: Types | None) -> Iterator[str]:
    several = name == "column_list"
    if not (_is_list_of(_is_text)(given) and len(given) > 1 if several else isinstance(given, str)):
        yield f"{name} is {given!r}, but must be {'a list of two columns or more' if several else 'one column'}"
        return
    for column in given if several else [given]:
        if columns is not None and column not in columns:
            yield unknown("a column of the fact", column, [*columns], "columns")


def _patterns(name: str, given: Any) -> Iterator[str]:
    if not (isinstance(given, str) if name == "regex" else _is_list_of(_is_text)(given) and given):
        yield f"{name} is {given!r}, but must be {'text' if name == 'regex' else 'a list of texts'}"
        return
    for pattern in [given] if name == "regex" else given:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                re.compile(pattern)
            except (re.error, RecursionError, OverflowError) as error:
                yield f"{name} has {pattern!r}, which is no regular expression of Python: {error}"


# ── arguments that belong together ─────────────────────────────────────────────────────────────────────────────────


def _together(path: TomlPath, expectation: Expectation, columns: Types) -> Iterator[Mistake]:
    """What is wrong with arguments, given the types of columns."""
    given = expectation.arguments
    named = [(name, one) for name in COLUMN_ARGUMENTS for one in _as_list(given.get(name))]
    types = [columns.get(column) for _, column in named]
    for (name, column), kind in zip(named, types, strict=True):
        if kind is not None and (sentence := _unfit(expectation.type, column, kind)):
            yield Mistake((*path, name), sentence)
            return
    if "_greater_than_" in expectation.type and None not in types and len({_kind(one) for one in types}) > 1:
        yield Mistake((*path, "column_B"), f"{named[0][1]!r} and {named[1][1]!r} are of two kinds; compare one kind")
    of_values = expectation.type in OF_ORDERED
    yield from _bounds(path, given, types[0] if of_values else pa.float64())
    for member in _as_list(given.get("value_set")):
        if sentence := _member(member, types[0]):
            yield Mistake((*path, "value_set"), sentence)
    for pair in _as_list(given.get("value_pairs_set")):
        for member, kind in zip(pair, types, strict=True):
            if sentence := _member(member, kind):
                yield Mistake((*path, "value_pairs_set"), sentence)


def _unfit(expectation: str, column: str, kind: pa.DataType) -> str | None:
    what = f"column {column!r} is {declared_name(kind)}"
    if expectation in OF_NUMBERS and _kind(kind) not in ("number", "boolean"):
        return f"{what}, and {expectation} is about numbers"
    if expectation in OF_ORDERED and _kind(kind) == "text":
        return f"{what}, and {expectation} is about numbers, dates and times"
    if expectation in NOT_OF_MOMENTS and _kind(kind) == "moment":
        return f"{what}, and {expectation} is about numbers and texts"
    return None


def _bounds(path: TomlPath, given: Mapping[str, Any], kind: pa.DataType | None) -> Iterator[Mistake]:
    """Mistakes of `min_value` and `max_value` as values of a type; None is a type that is not known yet."""
    ends = {name: given[name] for name in ("min_value", "max_value") if name in given}
    moments = kind is not None and _kind(kind) == "moment"
    fits = _is_moment if moments else _is_number if kind is not None else lambda one: _is_moment(one) or _is_number(one)
    for name, end in ends.items():
        if not fits(end):
            allowed = "a date or time" if moments else "a number"
            yield Mistake((*path, name), f"{name} is {end!r}, but must be {allowed}")
            return
    if len(ends) == 2 and kind is not None:
        low, high = (moment_of(ends[name]) if moments else ends[name] for name in ("min_value", "max_value"))
        if low > high:
            yield Mistake((*path, "min_value"), "min_value is greater than max_value, so that no value fits")


def _member(value: Any, kind: pa.DataType | None) -> str | None:
    """What is wrong with a value of a set of a column's values."""
    wanted = None if kind is None else _kind(kind)
    fits = {None: _is_scalar, "number": _is_number, "text": _is_text, "moment": _is_moment, "boolean": _is_flag}[wanted]
    if fits(value):
        return None
    words = {None: "a number, text or boolean", "number": "a number", "text": "text", "boolean": "true or false"}
    return f"{value!r} is in the set, but must be {words.get(wanted, 'a date or time')}"


def _kind(kind: pa.DataType | None) -> str:
    if kind is None or pa.types.is_boolean(kind):
        return "boolean"
    if is_moment(kind):
        return "moment"
    return "number" if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) else "text"


# ── types of arguments ─────────────────────────────────────────────────────────────────────────────────────────────


def moment_of(text: str) -> datetime:
    """A declared date or time, as a moment; in UTC unless it says otherwise. Raises `ValueError`."""
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _is_flag(given: Any) -> bool:
    return isinstance(given, bool)


def _is_text(given: Any) -> bool:
    return isinstance(given, str)


def _is_number(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given)


def _is_scalar(given: Any) -> bool:
    return isinstance(given, bool | str) or _is_number(given)


def _is_moment(given: Any) -> bool:
    try:
        return isinstance(given, str) and moment_of(given) is not None
    except ValueError:
        return False


def _is_list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda given: isinstance(given, list) and all(fits(one) for one in given)


def _is_pair(given: Any) -> bool:
    return _is_list_of(_is_scalar)(given) and len(given) == 2


def _are_quantiles(given: Any) -> bool:
    """Whether quantiles come with a range each."""
    if not (isinstance(given, dict) and given.keys() == {"quantiles", "value_ranges"}):
        return False
    quantiles, ranges = given["quantiles"], given["value_ranges"]
    shares = _is_list_of(lambda one: _is_number(one) and 0 <= one <= 1)(quantiles)
    pairs = _is_list_of(lambda one: _is_list_of(_is_number)(one) and len(one) == 2 and one[0] <= one[1])(ranges)
    return shares and pairs and 0 < len(quantiles) == len(ranges)


def _as_list(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [] if given is None else [given]


_IGNORED_OF_PAIRS: Final = ("both_values_are_missing", "either_value_is_missing", "neither")
_IGNORED_OF_LISTS: Final = ("all_values_are_missing", "any_value_is_missing", "never")
_FLAG: Final = (_is_flag, "true or false")
_NUMBER: Final = (_is_number, "a number")
_TEXT: Final = (_is_text, "text")
_ALLOWED: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "strict_min": _FLAG,
    "strict_max": _FLAG,
    "or_equal": _FLAG,
    "ties_okay": _FLAG,
    "double_sided": _FLAG,
    "allow_relative_error": _FLAG,
    "threshold": _NUMBER,
    "sum_total": _NUMBER,
    "value": (lambda given: isinstance(given, int) and _is_number(given) and given >= 0, "a whole number"),
    "match_on": (lambda given: given in ("any", "all"), "'any' or 'all'"),
    "value_set": (_is_list_of(_is_scalar), "a list of values"),
    "value_pairs_set": (_is_list_of(_is_pair), "a list of pairs of values"),
    "quantile_ranges": (_are_quantiles, "quantiles from 0 to 1 and as many value_ranges, each [lowest, highest]"),
    "description": _TEXT,
    "notes": (lambda given: _is_text(given) or _is_list_of(_is_text)(given), "text"),
}
