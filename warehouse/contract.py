"""What an order is, read from `orders.toml`: its fields, its row rules, and the masters that enrich it.

    orders.toml ─┬─ fields  → what ingest parses
                 ├─ rules   → predicates inside the Spark plan, and the suite of the gate
                 └─ masters → the joins every order meets

The values are frozen; a mistake in the file is a `TerminalError` that names it.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etl.errors import TerminalError

ORDERS = Path(__file__).with_name("orders.toml")

LINE_REASONS = ("line_too_long", "bad_utf8", "malformed_json", "conflicting_payload")
"""What can be wrong with a line as a whole."""

Bound = int | float | str | None
"""A literal, or `$name`: a value fixed when the batch starts."""


@dataclass(frozen=True, slots=True)
class Field:
    """One typed value of an order. Every field is required."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A row rule: the column lies between two bounds, both inclusive and either may be absent."""

    name: str
    column: str
    min: Bound = None
    max: Bound = None


@dataclass(frozen=True, slots=True)
class Master:
    """One master table and the columns that orders receive from it, as a struct called `name`."""

    name: str
    table: str
    key: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Contract:
    """Everything declared about orders."""

    fields: tuple[Field, ...]
    rules: tuple[Rule, ...]
    masters: tuple[Master, ...]

    def reasons(self) -> set[str]:
        """Every reason for which a line can be refused."""
        fields = {f"{field.name}_{what}" for field in self.fields for what in ("missing", "invalid")}
        unknown = {f"unknown_{master.name}" for master in self.masters}
        return {*LINE_REASONS, *fields, *unknown, *(rule.name for rule in self.rules)}

    def __post_init__(self) -> None:
        known = {field.name for field in self.fields}
        for rule in self.rules:
            if rule.column not in known:
                raise TerminalError(f"rule {rule.name!r} is about {rule.column!r}; fields are {sorted(known)}")
            if rule.min is None and rule.max is None:
                raise TerminalError(f"rule {rule.name!r} has neither min nor max; give it one")
        for master in self.masters:
            if master.key not in known:
                raise TerminalError(f"master {master.name!r} has key {master.key!r}; fields are {sorted(known)}")
            if "updated_at" not in master.columns:
                raise TerminalError(f"master {master.name!r} needs column 'updated_at': it dates the dimension's rows")


def load(path: Path = ORDERS) -> Contract:
    """The contract that `path` declares."""
    try:
        declared: dict[str, list[dict[str, Any]]] = tomllib.loads(path.read_text())
        return Contract(
            fields=tuple(Field(**field) for field in declared["field"]),
            rules=tuple(Rule(**rule) for rule in declared["rule"]),
            masters=tuple(Master(**{**m, "columns": tuple(m["columns"])}) for m in declared["master"]),
        )
    except (TypeError, KeyError, tomllib.TOMLDecodeError) as error:
        raise TerminalError(f"{path.name} is not a contract for orders: {error}") from None
