"""Fields of an event and the rules that follow from them.

    quantity = { type = "int", min = 1 }  ──▶  Field("quantity", int32), RangeRule("quantity_in_range", "quantity", 1)

    shortcut         rule
    min, max         <field>_in_range
    after            <field>_not_too_old
    before           <field>_not_in_future when relative to now, else <field>_not_too_late
    one_of           <field>_in_set
    pattern          <field>_matches_pattern

A rule's name states what holds for accepted rows; for a refused row it is the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.contract.errors import Refusal, TomlPath
from etl.contract.model import Bound, Field, PatternRule, RangeRule, RelativeTime, Rule, Scalar, SetRule
from etl.contract.parsing.document import FieldTable, Limits
from etl.contract.words import time_formats, values
from etl.contract.words.types import UnknownType, arrow_type, declared_name


def field(path: TomlPath, name: str, table: FieldTable) -> Field:
    """The field that a table declares."""
    try:
        kind = arrow_type(table.type)
    except UnknownType as error:
        raise Refusal((*path, "type"), str(error)) from None
    if table.default is not None and table.required:
        raise Refusal((*path, "required"), f"{name!r} has a default, so it cannot be required; leave out one of them")
    _check_format(path, name, kind, table)
    return Field(
        name=name,
        type=kind,
        required=table.default is None if table.required is None else table.required,
        default=None if table.default is None else _value((*path, "default"), table.default, kind),
        source=table.source or "",
        format=table.format,
        strip=table.strip or "",
    )


def _check_format(path: TomlPath, name: str, kind: pa.DataType, table: FieldTable) -> None:
    if table.format is None:
        return
    if not values.is_moment(kind):
        raise Refusal(
            (*path, "format"), f"{name!r} is {declared_name(kind)}; only date and timestamp fields have a format"
        )
    wrong = time_formats.mistake(table.format)
    if wrong is not None:
        raise Refusal((*path, "format"), wrong)


def rules(path: TomlPath, field: Field, limits: Limits) -> Iterator[Rule]:
    """The rules that a field's shortcuts stand for."""
    if limits.min is not None or limits.max is not None:
        yield range_rule(path, f"{field.name}_in_range", field, limits)
    if limits.after is not None:
        earliest = _bound(path, "after", field, limits)
        yield RangeRule(f"{field.name}_not_too_old", field.name, min=earliest)
    if limits.before is not None:
        latest = _bound(path, "before", field, limits)
        ending = "not_in_future" if isinstance(latest, RelativeTime) else "not_too_late"
        yield RangeRule(f"{field.name}_{ending}", field.name, max=latest)
    _check_order(path, limits, "after", "before", field)
    if limits.one_of is not None:
        yield set_rule(path, f"{field.name}_in_set", field, limits.one_of)
    if limits.pattern is not None:
        yield pattern_rule(path, f"{field.name}_matches_pattern", field, limits.pattern)


def range_rule(path: TomlPath, name: str, field: Field, limits: Limits) -> RangeRule:
    """A rule about the least and greatest, or earliest and latest, value."""
    low, high = ("min", "max") if limits.min is not None or limits.max is not None else ("after", "before")
    _check_order(path, limits, low, high, field)
    return RangeRule(name, field.name, _bound(path, low, field, limits), _bound(path, high, field, limits))


def set_rule(path: TomlPath, name: str, field: Field, allowed: Sequence[object]) -> SetRule:
    members = tuple(_value((*path, "one_of", number), one, field.type) for number, one in enumerate(allowed))
    if len(set(members)) < len(members):
        raise Refusal((*path, "one_of"), f"one_of of {field.name!r} has a value twice; give each once")
    return SetRule(name, field.name, members)


def pattern_rule(path: TomlPath, name: str, field: Field, pattern: str) -> PatternRule:
    place = (*path, "pattern")
    if not pa.types.is_string(field.type):
        raise Refusal(place, f"{field.name!r} is {declared_name(field.type)}; only string fields have a pattern")
    try:
        pc.match_substring_regex(pa.nulls(1, pa.string()), f"^(?:{pattern})$")
    except pa.ArrowInvalid as error:
        reason = str(error).removeprefix("Invalid regular expression: ").splitlines()[0]
        raise Refusal(place, f"{pattern!r} is not a regular expression of RE2: {reason}") from None
    return PatternRule(name, field.name, pattern)


def _bound(path: TomlPath, key: str, field: Field, limits: Limits) -> Bound:
    given = getattr(limits, key)
    if given is None:
        return None
    fits = values.is_number(field.type) if key in ("min", "max") else values.is_moment(field.type)
    if not fits:
        about = "numbers have min and max" if key in ("min", "max") else "dates and timestamps have after and before"
        raise Refusal((*path, key), f"{field.name!r} is {declared_name(field.type)} and cannot have {key!r}: {about}")
    try:
        return values.bound(given, field.type)
    except ValueError as allowed:
        relative = ", or relative to the batch such as 'now + 24h'" if values.is_moment(field.type) else ""
        raise Refusal(
            (*path, key), f"{key} of {field.name!r} is {shown(given)}, but must be {allowed}{relative}"
        ) from None


def _check_order(path: TomlPath, limits: Limits, low: str, high: str, field: Field) -> None:
    """Check that a range is not empty. Relative times are compared only with each other."""
    least, greatest = _bound(path, low, field, limits), _bound(path, high, field, limits)
    if least is None or greatest is None or isinstance(least, RelativeTime) != isinstance(greatest, RelativeTime):
        return
    if _comparable(least, field.type) > _comparable(greatest, field.type):
        given = f"{low} {shown(getattr(limits, low))} and {high} {shown(getattr(limits, high))}"
        raise Refusal((*path, low), f"{field.name!r} has {given}: no value lies between them")


def _comparable(end: Bound, kind: pa.DataType) -> Any:
    if isinstance(end, RelativeTime):
        return end.offset
    assert end is not None, "only bounds that are given are compared"
    return Decimal(end) if pa.types.is_decimal(kind) and isinstance(end, int | str) else end


def _value(path: TomlPath, given: object, kind: pa.DataType) -> Scalar:
    try:
        return values.value(given, kind)
    except ValueError as allowed:
        raise Refusal(path, f"a value of {declared_name(kind)} is {shown(given)}, but must be {allowed}") from None


def shown(given: object) -> str:
    """A value as it is written in the file."""
    return repr(given) if isinstance(given, str) else str(given).lower() if isinstance(given, bool) else str(given)
