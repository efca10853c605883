"""Expressions of a file, checked as far as the types of their columns are known.

When a file is read, the types of its fields are known and those of master columns are not: an expression over fields is
compiled in full, one that uses `master.column` has its names checked. With the masters' schemas (`resolve.py`)
everything is known and everything is compiled.

An aggregate's value is one call of count, sum, min or max, which can be updated incrementally. avg and count distinct
cannot.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa
from sqlglot import exp

from etl.columnar.expression import ExpressionRefused, compile_tree, parse
from etl.contract.errors import unknown

Function = Literal["count", "sum", "min", "max"]
_FUNCTIONS: dict[type[exp.Expr], Function] = {exp.Count: "count", exp.Sum: "sum", exp.Min: "min", exp.Max: "max"}
_SUM_DIGITS = 10  # more than the values have: ten thousand million of them can be added


@dataclass(frozen=True, slots=True)
class Names:
    """The names in scope of an expression."""

    typed: pa.Schema
    untyped: frozenset[str] = frozenset()  # columns of masters, as `master.column`
    open: frozenset[str] = field(default_factory=frozenset)  # masters whose columns are not listed

    def type_of(self, sql: str, wanted: pa.DataType | None = None) -> pa.DataType | None:
        """The type of an expression, None when it depends on a master. Raises `ValueError` with the mistake."""
        try:
            tree = parse(sql)
            return self._type_of(tree, sql, wanted)
        except ExpressionRefused as refused:
            raise ValueError(f"{refused.reason} (in {_shortened(sql)!r})") from None

    def _type_of(self, tree: exp.Expr, sql: str, wanted: pa.DataType | None) -> pa.DataType | None:
        known = [self._is_typed(column, sql) for column in tree.find_all(exp.Column)]
        if not all(known):
            return None
        kind = compile_tree(tree, sql, self.typed, wanted=wanted).type
        if pa.types.is_null(kind) or pa.types.is_duration(kind) or pa.types.is_nested(kind) or "interval" in str(kind):
            raise ValueError(f"it has the type {kind}, which no table can hold (in {_shortened(sql)!r})")
        return kind

    def _is_typed(self, column: exp.Column, sql: str) -> bool:
        name = ".".join(part.name for part in column.parts)
        if self._has(self.typed.names, name):
            return True
        if self._has(self.untyped, name) or name.partition(".")[0] in self.open or ("." not in name and self.open):
            return False
        known = [*self.typed.names, *sorted(self.untyped)]
        raise ValueError(f"{unknown('a column', name, known, 'columns')} (in {_shortened(sql)!r})")

    @staticmethod
    def _has(names: list[str] | frozenset[str], name: str) -> bool:
        """Whether a name is known, in full or as the last part of exactly one known name."""
        wanted = name.lower()
        if any(one.lower() == wanted for one in names):
            return True
        return "." not in name and sum(one.lower().endswith(f".{wanted}") for one in names) == 1

    def aggregate_type(self, sql: str) -> pa.DataType | None:
        """The type of an aggregate's value, None when it depends on a master."""
        call = aggregate(sql)
        if call.argument is None:
            return pa.int64()
        kind = self.type_of(call.argument)
        return None if kind is None else call.type(kind)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One call of an aggregate function; `argument` None is `count(*)`."""

    function: Function
    argument: str | None

    def type(self, argument: pa.DataType) -> pa.DataType:
        """The type of its result. Raises `ValueError` for a sum of non-numbers."""
        if self.function == "count":
            return pa.int64()
        if self.function != "sum":
            return argument
        if pa.types.is_integer(argument):
            return pa.int64()
        if pa.types.is_floating(argument):
            return pa.float64()
        if pa.types.is_decimal(argument):
            return pa.decimal128(min(38, argument.precision + _SUM_DIGITS), argument.scale)
        raise ValueError(f"sum adds numbers; {self.argument!r} is {argument}")


def aggregate(sql: str) -> Aggregate:
    """Parse an aggregate. Raises `ValueError` with the allowed forms."""
    try:
        tree = parse(sql)
    except ExpressionRefused as refused:
        raise ValueError(f"{refused.reason} (in {_shortened(sql)!r})") from None
    function = _FUNCTIONS.get(type(tree))
    inner = tree.this if function else None
    if function is None or isinstance(inner, exp.Distinct) or tree.args.get("expressions"):
        raise ValueError(
            f"{_shortened(sql)!r} is not an aggregate; allowed are count(*), count(x), sum(x), min(x), max(x)"
        )
    if isinstance(inner, exp.Star):
        if function != "count":
            raise ValueError(f"{_shortened(sql)!r} is not an aggregate; only count takes *")
        return Aggregate("count", None)
    assert isinstance(inner, exp.Expr), "the function has one argument"
    try:
        return Aggregate(function, inner.sql(dialect="spark"))
    except RecursionError:
        raise ValueError(f"it is nested too deeply (in {_shortened(sql)!r})") from None


def column_sql(name: str) -> str:
    """A column's name as SQL: quoted only if it must be."""
    try:
        tree = parse(name)
    except ExpressionRefused:
        return f"`{name}`"
    return name if isinstance(tree, exp.Column) and tree.name == name else f"`{name}`"


def _shortened(sql: str) -> str:
    return sql if len(sql) <= 60 else sql[:57] + "..."
