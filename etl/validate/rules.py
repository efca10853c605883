"""Row rules as predicates inside the plan.

    Rule(column, min, max) ──▶ SQL predicate ──▶ reasons of a row: the names of the rules it breaks

A row without a value breaks the field's own `_missing` or `_invalid` reason, not the rule: every row gets each
cause once. `coalesce(…, false)` closes the gap where NULL would be neither accepted nor quarantined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from etl.errors import TerminalError
from warehouse.contract import Bound, Rule

Bounds = Mapping[str, datetime]
"""What `$name` stands for in this batch."""


def resolve(bound: Bound, bounds: Bounds) -> int | float | datetime | None:
    """The value of a bound in this batch."""
    if not isinstance(bound, str):
        return bound
    name = bound.removeprefix("$")
    if not bound.startswith("$") or name not in bounds:
        raise TerminalError(f"bound {bound!r} is unknown; allowed are numbers and {['$' + n for n in bounds]}")
    return bounds[name]


def predicate(rule: Rule, bounds: Bounds) -> str:
    """Spark SQL that is true when the row keeps the rule, and false (never NULL) when it does not."""
    sides = []
    for operator, bound in ((">=", rule.min), ("<=", rule.max)):
        value = resolve(bound, bounds)
        if value is not None:
            sides.append(f"`{rule.column}` {operator} {_literal(value)}")
    return f"coalesce({' AND '.join(sides)}, false)"


def broken(rules: Iterable[Rule], bounds: Bounds) -> str:
    """Spark SQL for the array of names of the rules a row breaks."""
    cases = [
        f"CASE WHEN `{rule.column}` IS NOT NULL AND NOT {predicate(rule, bounds)} THEN '{rule.name}' END"
        for rule in rules
    ]
    return f"array_compact(array({', '.join(cases)}))"


def _literal(value: int | float | datetime) -> str:
    if isinstance(value, datetime):
        return f"timestamp'{value:%Y-%m-%d %H:%M:%S.%f}Z'"
    return repr(value)
