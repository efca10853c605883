"""Which changes of a declaration can be applied to existing tables (ADR 22).

applied             a nullable field, a measure, a mart table, a column of a mart table with rows; a rule, an
                    expectation, and settings that no table depends on (schedule, deadline, grace, …)
refused             everything else: the meaning of existing rows would change from one batch to the next
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from etl.contract.dump import as_dict, as_json
from etl.contract.model import Pipeline
from etl.errors import TerminalError

Kind = Literal["field", "rule", "measure", "mart_table", "mart_column", "setting"]
_SETTINGS = (
    "schedule",
    "deadline",
    "freshness",
    "shedding",
    "grace",
    "expectations",
    "sensitive",
    "schema_drift",
    "held",
    "hold_on",
    "after_grace",
)
_REMEDY = "undo it, or declare it as a pipeline of another name"


class ChangeRefused(TerminalError):
    """A declaration cannot be applied to the existing tables."""

    exit_code = 78

    def __init__(self, pipeline: str, sentence: str) -> None:
        super().__init__(pipeline, sentence)
        self.pipeline, self.sentence = pipeline, sentence

    def __str__(self) -> str:
        return f"pipeline {self.pipeline!r} cannot be changed like this: {self.sentence}; {_REMEDY}"


@dataclass(frozen=True, slots=True)
class Change:
    """An addition by a new declaration (`what`), in `table` for a column of the mart."""

    kind: Kind
    what: str
    table: str = ""


def compatible(old: Pipeline | dict[str, Any] | str, new: Pipeline) -> list[Change]:
    """The changes to apply, in order. `old` may be a result of `as_dict` or `as_json`. Raises `ChangeRefused`."""
    before, after = _declaration(old), _declaration(as_json(new))
    return [*_changes(new.name, before, after)]


def moved_masters(old: Pipeline | dict[str, Any] | str, new: Pipeline) -> list[str]:
    """The masters whose table is another one than before, by name."""
    before = _by_name(_declaration(old)["masters"])
    after = _by_name(_declaration(new)["masters"])
    return [name for name, one in after.items() if name in before and _place(before[name]) != _place(one)]


def _place(master: dict[str, Any]) -> tuple[str, str]:
    return master["store"], master["table"]


def _declaration(given: Pipeline | dict[str, Any] | str) -> dict[str, Any]:
    """Normalize a declaration to its JSON form."""
    if isinstance(given, Pipeline):
        given = as_dict(given)
    declaration: dict[str, Any] = json.loads(given if isinstance(given, str) else json.dumps(given))
    return declaration


def _changes(name: str, before: dict[str, Any], after: dict[str, Any]) -> Iterator[Change]:
    if before["name"] != after["name"]:
        raise ChangeRefused(name, f"the tables belong to {before['name']!r}")
    yield from _stream(name, before["stream"], after["stream"])
    yield from _rules(before, after)
    _masters(name, _by_name(before["masters"]), _by_name(after["masters"]))
    yield from _measures(name, before["measures"], after["measures"])
    yield from _mart(name, _by_name(before["mart"]), _by_name(after["mart"]))
    yield from (Change("setting", key) for key in _SETTINGS if before.get(key, after[key]) != after[key])


def _stream(name: str, before: dict[str, Any], after: dict[str, Any]) -> Iterator[Change]:
    for what, key in (("key", "key"), ("event_time", "event_time")):
        if before[key] != after[key]:
            raise ChangeRefused(name, f"{what} was {_shown(before[key])} and would be {_shown(after[key])}")
    old, new = _by_name(before["fields"]), _by_name(after["fields"])
    _none_gone(name, "field", old, new)
    for field, declared in new.items():
        if field not in old:
            if not _nullable(declared):
                raise ChangeRefused(
                    name, f"new field {field!r} must be optional without a default: old events have none"
                )
            yield Change("field", field)
            continue
        if old[field]["type"] != declared["type"]:
            raise ChangeRefused(name, f"field {field!r} was {old[field]['type']} and would be {declared['type']}")
        if not old[field]["required"] and declared["required"]:
            raise ChangeRefused(name, f"field {field!r} was optional and would be required")
        if old[field]["required"] and _nullable(declared):
            raise ChangeRefused(name, f"field {field!r} always had a value and would be optional")
        if old[field] != declared:
            yield Change("setting", f"field {field}")
    _same_tombstones(name, before["source"].get("topic"), after["source"]["topic"])
    if before["source"] != after["source"]:
        yield Change("setting", "source")


def _same_tombstones(name: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
    """Refuse a change of tombstones: an audit recounts messages by the current declaration."""
    if before and after and before["name"] == after["name"] and before["tombstones"] != after["tombstones"]:
        was, would = _shown(before["tombstones"]), _shown(after["tombstones"])
        raise ChangeRefused(name, f"tombstones of topic {after['name']!r} was {was} and would be {would}")


def _nullable(field: dict[str, Any]) -> bool:
    return not field["required"] and field["default"] is None


def _rules(before: dict[str, Any], after: dict[str, Any]) -> Iterator[Change]:
    """Rules apply to future events only; no table depends on them."""
    old, new = _by_name(before["rules"]), _by_name(after["rules"])
    yield from (Change("rule", rule) for rule in new if old.get(rule) != new[rule])
    yield from (Change("setting", f"rule {rule}") for rule in old if rule not in new)


def _masters(name: str, old: dict[str, Any], new: dict[str, Any]) -> None:
    _none_gone(name, "master", old, new)
    for master, declared in new.items():
        if master not in old:
            raise ChangeRefused(name, f"facts that are there have never met the new master {master!r}")
        for key, value in declared.items():
            if key not in ("follow", "table", "store") and value != old[master][key]:
                given = f"{key} of master {master!r} was {_shown(old[master][key])} and would be {_shown(value)}"
                raise ChangeRefused(name, given)


def _measures(name: str, old: dict[str, str], new: dict[str, str]) -> Iterator[Change]:
    _none_gone(name, "measure", old, new)
    for measure, sql in new.items():
        if measure not in old:
            yield Change("measure", measure)
        elif old[measure] != sql:
            raise ChangeRefused(name, f"measure {measure!r} was {_shown(old[measure])} and would be {_shown(sql)}")


def _mart(name: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[Change]:
    _none_gone(name, "mart table", old, new)
    for table, declared in new.items():
        if table not in old:
            yield Change("mart_table", table)
            continue
        for part in ("group_by", "values"):
            if old[table][part] != declared[part]:
                raise ChangeRefused(
                    name, f"{part} of mart table {table!r} would be different; add another table for it"
                )
        _none_gone(name, f"column of mart table {table!r},", old[table]["columns"], declared["columns"])
        for column, sql in declared["columns"].items():
            before = old[table]["columns"].get(column)
            if before is None:
                yield Change("mart_column", column, table)
            elif before != sql:
                given = f"column {column!r} of mart table {table!r} was {_shown(before)} and would be {_shown(sql)}"
                raise ChangeRefused(name, given)


def _none_gone(name: str, what: str, old: dict[str, Any], new: dict[str, Any]) -> None:
    for one in old:
        if one not in new:
            raise ChangeRefused(name, f"{what} {one!r} would be gone, and tables have it")


def _by_name(declared: list[dict[str, Any]]) -> dict[str, Any]:
    return {one["name"]: one for one in declared}


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str) else json.dumps(value)
