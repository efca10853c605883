"""Read landed files line by line with Python's own JSON: an independent check of what is accepted.

A line is accepted if it is one JSON object whose declared fields have their types and keep their rules. The engine has
kernels for that (`etl.ingest`); nothing of them is used here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import pyarrow as pa

from etl.contract.model import Field, PatternRule, RangeRule, RelativeTime, Rule, SetRule


class _Refused(Exception):
    """A line that is not accepted."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """Events of some files, in the order of their lines, and how many lines were refused."""

    events: pa.Table
    refused: int


def read(files: Sequence[Path], fields: Sequence[Field], rules: Sequence[Rule], now: datetime) -> Accepted:
    """The events of files. Expression rules are left to SQL."""
    events: list[dict[str, Any]] = []
    refused = 0
    for line in (line for file in files for line in file.read_bytes().split(b"\n") if line):
        try:
            events.append(_event(line, fields, rules, now))
        except (_Refused, ValueError, InvalidOperation):
            refused += 1
    schema = pa.schema([pa.field(one.name, one.type) for one in fields])
    return Accepted(pa.Table.from_pylist(events, schema), refused)


def _event(line: bytes, fields: Sequence[Field], rules: Sequence[Rule], now: datetime) -> dict[str, Any]:
    parsed = json.loads(line.decode(), parse_float=Decimal, parse_constant=_refuse)
    if not isinstance(parsed, dict):
        raise _Refused
    event = {one.name: _value(one, parsed.get(one.source_name)) for one in fields}
    if not all(_keeps(rule, event, now) for rule in rules):
        raise _Refused
    return event


def _refuse(_text: str) -> None:
    raise _Refused


def _value(field: Field, given: Any) -> Any:
    if given is None:
        if not field.nullable and field.default is None:
            raise _Refused
        return field.default
    if pa.types.is_integer(field.type) and isinstance(given, int) and not isinstance(given, bool):
        return given
    if pa.types.is_decimal(field.type) and isinstance(given, int | Decimal):
        return Decimal(given)
    if pa.types.is_floating(field.type) and isinstance(given, int | Decimal):
        return float(given)
    if pa.types.is_timestamp(field.type) and isinstance(given, str):
        at = datetime.fromisoformat(given)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at
    if pa.types.is_date(field.type) and isinstance(given, str):
        return date.fromisoformat(given)
    if pa.types.is_string(field.type) and isinstance(given, str):
        return given
    raise _Refused


def _keeps(rule: Rule, event: dict[str, Any], now: datetime) -> bool:
    if isinstance(rule, RangeRule | SetRule | PatternRule) and event[rule.column] is None:
        return True
    if isinstance(rule, SetRule):
        return event[rule.column] in rule.values
    if isinstance(rule, PatternRule):
        return re.fullmatch(rule.pattern, event[rule.column]) is not None
    if isinstance(rule, RangeRule):
        value = event[rule.column]
        low, high = (_bound(bound, value, now) for bound in (rule.min, rule.max))
        return (low is None or value >= low) and (high is None or value <= high)
    return True


def _bound(bound: Any, value: Any, now: datetime) -> Any:
    """A bound as something that compares with the value."""
    if isinstance(bound, RelativeTime):
        return now + bound.offset
    if not isinstance(bound, str):
        return bound
    if isinstance(value, datetime):
        at = datetime.fromisoformat(bound)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at
    return date.fromisoformat(bound) if isinstance(value, date) else Decimal(bound)
