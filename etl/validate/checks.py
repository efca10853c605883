"""Row rules over a batch of typed events: which rules does each row break?

    rules, schema, now ──compile──▶ Checks ──add(batch, reasons)──▶ reasons and the names of broken rules

A row without a value breaks no range, set or pattern: that is the field's own reason. An expression sees only whole
rows, of which parsing refused nothing; there NULL is not true, so the rule is broken. Moments relative to now are fixed
at compile time: one batch, one now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from etl.columnar.expression import compile_expression
from etl.columnar.labels import joined_lists, label_lists, unlabelled
from etl.contract.model import ExpressionRule, PatternRule, RangeRule, Rule, SetRule
from etl.errors import TerminalError
from etl.validate.bounds import Ends, fits, members

Mask = npt.NDArray[np.bool_]
Test = Callable[[pa.RecordBatch], Mask]


class RuleColumnUnknown(TerminalError):
    """A rule on a column that events do not have."""

    def __init__(self, rule: str, column: str, columns: tuple[str, ...]) -> None:
        super().__init__(rule, column, columns)
        self.rule, self.column, self.columns = rule, column, columns

    def __str__(self) -> str:
        return f"rule {self.rule!r} is about {self.column!r}; allowed are {', '.join(self.columns)}"


@dataclass(frozen=True, slots=True)
class Check:
    """One compiled rule."""

    name: str
    breaks: Test  # the rows that break it
    whole_rows: bool  # it says something about rows without any reason only


@dataclass(frozen=True, slots=True)
class Checks:
    """All rules of a stream, in declared order."""

    checks: tuple[Check, ...]

    @classmethod
    def compile(cls, rules: Iterable[Rule], schema: pa.Schema, now: datetime) -> Checks:
        return cls(tuple(_compiled(rule, schema, now) for rule in rules))

    def broken(self, batch: pa.RecordBatch, clean: Mask | None = None) -> pa.ListArray:
        """The names of the rules that each row breaks. `clean`: the rows without a reason so far; all if not given."""
        found = []
        for check in self.checks:
            rows = check.breaks(batch)
            found.append((check.name, rows & clean if check.whole_rows and clean is not None else rows))
        return label_lists(found, batch.num_rows)

    def add(self, batch: pa.RecordBatch, reasons: pa.ListArray) -> pa.ListArray:
        """The reasons of parsing, followed by the rules that are broken."""
        return joined_lists(reasons, self.broken(batch, unlabelled(reasons)))


def _compiled(rule: Rule, schema: pa.Schema, now: datetime) -> Check:
    if isinstance(rule, ExpressionRule):
        return Check(rule.name, _expression(rule, schema), True)
    if rule.column not in schema.names:
        raise RuleColumnUnknown(rule.name, rule.column, tuple(schema.names))
    kind = schema.field(rule.column).type
    if isinstance(rule, RangeRule):
        return Check(rule.name, _range(rule.column, fits(rule, kind, now)), False)
    return Check(rule.name, _set(rule, kind) if isinstance(rule, SetRule) else _pattern(rule), False)


def _expression(rule: ExpressionRule, schema: pa.Schema) -> Test:
    expression = compile_expression(rule.sql, schema, wanted=pa.bool_())
    return lambda batch: ~_mask(expression.evaluate(batch), missing=False)


def _range(column: str, ends: Ends) -> Test:
    def breaks(batch: pa.RecordBatch) -> Mask:
        values = batch.column(column)
        rows = np.zeros(batch.num_rows, np.bool_)
        if ends.empty:
            return _mask(values.is_valid(), missing=False)
        if ends.low is not None:
            rows |= _mask(pc.less(values, ends.low), missing=False)
        if ends.high is not None:
            rows |= _mask(pc.greater(values, ends.high), missing=False)
        return rows

    return breaks


def _set(rule: SetRule, kind: pa.DataType) -> Test:
    allowed = members(rule, kind)
    return lambda batch: _mask(
        pc.and_not(batch.column(rule.column).is_valid(), pc.is_in(batch.column(rule.column), value_set=allowed)),
        missing=False,
    )


def _pattern(rule: PatternRule) -> Test:
    whole = rf"\A(?:{rule.pattern})\z"
    return lambda batch: ~_mask(pc.match_substring_regex(batch.column(rule.column), whole), missing=True)


def _mask(flags: pa.Array, missing: bool) -> Mask:
    """Flags as a writable array; NULL becomes `missing`."""
    mask: Mask = np.array(flags.fill_null(missing), np.bool_)
    return mask
