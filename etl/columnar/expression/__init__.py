"""SQL expressions over Arrow columns: checked once against a schema, evaluated on whole batches.

    sql + schema ──sqlglot (Spark's dialect)──► tree ──handlers, types──► Expression(type, columns, evaluate)

Rules, measures and join conditions are such expressions. Only what is in the handlers' lists can be written. Everything
else, a name that does not exist and types that do not fit are refused at compile time, with line and column.

    compile_expression("quantity * weight", schema).evaluate(batch)

A row that has no result (overflow, division by zero, a failing cast) is NULL; with `on_error="raise"` it is an error
(ADR 30). Nothing reads a clock, a locale or the environment: the same columns always give the same result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from etl.columnar.expression import arithmetic, literals, logic, temporal, text, types
from etl.columnar.expression.compiler import Compiler, Handler, OnError, evaluate, place
from etl.columnar.expression.errors import ExpressionFailed, ExpressionRefused
from etl.columnar.expression.node import Node, Scope, contiguous

__all__ = [
    "Expression",
    "ExpressionFailed",
    "ExpressionRefused",
    "OnError",
    "common_type",
    "compile_expression",
    "compile_tree",
    "parse",
    "parse_sql",
    "place",
]


DEEPEST: Final = 200
"""Levels of an expression. Compiling one takes up to four frames a level, of the thousand that Python has."""
_NESTED: Final = "it is nested too deeply; compare with a list (x in (…)), or divide it"


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression. Survives pickling: it is compiled again where it arrives."""

    sql: str
    schema: pa.Schema
    timezone: str
    on_error: OnError
    type: pa.DataType
    columns: frozenset[str]  # top-level columns that a batch must have
    _node: Node = field(repr=False, compare=False)

    def evaluate(self, batch: pa.RecordBatch | pa.Table) -> pa.Array:
        """One value per row of the batch."""
        columns = {name: contiguous(batch.column(name)) for name in self.columns}
        return evaluate(self._node, columns, batch.num_rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.sql, self.schema, self.timezone, self.on_error)


def compile_expression(
    sql: str, schema: pa.Schema, *, timezone: str = "UTC", on_error: OnError = "null", wanted: pa.DataType | None = None
) -> Expression:
    """Checks an expression against a schema. `wanted` is the type it must have (a rule is `pa.bool_()`)."""
    return compile_tree(parse(sql), sql, schema, timezone=timezone, on_error=on_error, wanted=wanted)


def compile_tree(
    tree: exp.Expr,
    sql: str,
    schema: pa.Schema,
    *,
    timezone: str = "UTC",
    on_error: OnError = "null",
    wanted: pa.DataType | None = None,
) -> Expression:
    """The same for a part of a text that is parsed already; `sql` is that text, for places in messages."""
    compiler = Compiler(sql, Scope(schema), timezone, on_error, _HANDLERS)
    try:
        node = compiler.node(tree)
        if wanted is not None and pa.types.is_null(node.type):
            node = compiler.cast(tree, node, wanted)
        if wanted is not None and node.type != wanted:
            compiler.refuse(tree, f"it is {node.type}, {wanted} is needed")
        return Expression(tree.sql(dialect="spark"), schema, timezone, on_error, node.type, node.columns, node)
    except RecursionError:
        raise ExpressionRefused(_NESTED, sql, 1, 1) from None


def parse(sql: str) -> exp.Expr:
    """The tree of one scalar expression."""
    tree = parse_sql(sql)
    if isinstance(tree, exp.Query | exp.Alias | exp.Block):
        raise ExpressionRefused("one expression is needed, not a query, a list or an alias", sql, 1, 1)
    return tree


def parse_sql(sql: str) -> exp.Expr:
    """The tree of any SQL in Spark's dialect, or a refusal with line and column."""
    try:
        tree = sqlglot.parse_one(sql, dialect="spark")
    except RecursionError:
        raise ExpressionRefused(_NESTED, sql, 1, 1) from None
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        reason = str(first.get("description") or error).rstrip(".")
        line, column = int(first.get("line") or 1), int(first.get("col") or 1)
        raise ExpressionRefused(f"it cannot be read: {reason}", sql, line, column) from error
    except SqlglotError as error:
        raise ExpressionRefused(f"it cannot be read: {error}", sql, 1, 1) from error
    if _levels(tree) > DEEPEST:
        raise ExpressionRefused(_NESTED, sql, 1, 1)
    return tree


def _levels(tree: exp.Expr) -> int:
    """The levels of a tree, counted without recursion."""
    count, level = 0, [tree]
    while level:
        count, level = count + 1, [child for one in level for child in one.iter_expressions()]
    return count


def _again(sql: str, schema: pa.Schema, timezone: str, on_error: OnError) -> Expression:
    return compile_expression(sql, schema, timezone=timezone, on_error=on_error)


def _cast(compiler: Compiler, tree: exp.Cast) -> Node:
    kind = tree.to
    parameters = [int(parameter.name) for parameter in kind.expressions if parameter.name.isdigit()]
    wanted = types.named(kind.this.value, parameters, compiler.timezone)
    if wanted is None:
        compiler.refuse(tree, f"{kind.sql(dialect='spark').lower()} is not a type of expressions")
    return compiler.cast(tree, compiler.node(tree.this), wanted, lossy=bool(tree.args.get("safe")))


_HANDLERS: dict[type[exp.Expr], Handler] = {
    **literals.HANDLERS, **arithmetic.HANDLERS, **logic.HANDLERS, **text.HANDLERS, **temporal.HANDLERS,
    exp.Column: Compiler.column,
    exp.Paren: lambda compiler, tree: compiler.node(tree.this),
    exp.Cast: _cast,
    exp.TryCast: _cast,
}  # fmt: skip


def common_type(a: Expression, b: Expression) -> pa.DataType | None:
    """The type in which two expressions can be compared without losing digits, None if there is none."""
    shared = types.common(a._node, b._node, a.timezone)
    if shared is not None and pa.types.is_decimal(shared):
        exact = [types.as_decimal(node) for node in (a._node, b._node)]
        whole = max(one.precision - one.scale for one in exact)
        return shared if whole + max(one.scale for one in exact) <= shared.precision else None
    return shared
