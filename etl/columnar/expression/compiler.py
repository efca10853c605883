"""From a sqlglot tree to nodes: one handler per kind of tree, nothing that is not in the list.

`Compiler` carries what handlers need: names, the time zone, how failing rows are treated, and how to refuse a part of
the text with its place. Handlers live beside what they compile (`arithmetic`, `logic`, `text`, `temporal`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, NoReturn

import numpy as np
import pyarrow as pa
from sqlglot import exp

from etl.columnar.expression import casts, types
from etl.columnar.expression.errors import ExpressionFailed, ExpressionRefused
from etl.columnar.expression.node import Columns, Datum, Node, Scope, UnknownName, as_array, constant, on_arrays

OnError = Literal["null", "raise"]
Handler = Callable[["Compiler", Any], Node]
Apply = Callable[..., Datum]


@dataclass(frozen=True, slots=True)
class Compiler:
    sql: str
    scope: Scope
    timezone: str
    on_error: OnError
    handlers: Mapping[type[exp.Expr], Handler] = field(repr=False)

    def node(self, tree: exp.Expr) -> Node:
        """Compiles a part of the tree."""
        handler = self.handlers.get(type(tree))
        if handler is None:
            self.refuse(tree, f"{_shown(tree)} is not available in expressions")
        return handler(self, tree)

    def nodes(self, trees: Sequence[exp.Expr]) -> list[Node]:
        return [self.node(tree) for tree in trees]

    def column(self, tree: exp.Column) -> Node:
        try:
            return self.scope.column(tuple(part.name for part in tree.parts))
        except UnknownName as unknown:
            self.refuse(tree, str(unknown))

    def refuse(self, tree: exp.Expr, reason: str) -> NoReturn:
        line, column = place(self.sql, tree)
        raise ExpressionRefused(reason, self.sql, line, column)

    def total(self, type_: pa.DataType, arguments: Sequence[Node], apply: Apply) -> Node:
        """A node whose function has a result for every row."""
        functions = [argument.evaluate for argument in arguments]
        columns = frozenset[str]().union(*(argument.columns for argument in arguments))
        return Node(type_, lambda batch: apply(*[function(batch) for function in functions]), columns)

    def fallible(self, tree: exp.Expr, type_: pa.DataType, arguments: Sequence[Node], apply: Apply) -> Node:
        """A node whose function gives NULL for a row that has no result; such a row raises if that is asked for."""
        if self.on_error == "null":
            return self.total(type_, arguments, apply)
        shown, sql = _shown(tree), self.sql

        def strict(*data: Datum) -> Datum:
            result = apply(*data)
            row = _missing(result, data)
            if row >= 0:
                raise ExpressionFailed(shown, sql, row)
            return result

        return self.total(type_, arguments, strict)

    def cast(self, tree: exp.Expr, node: Node, wanted: pa.DataType, *, lossy: bool = False) -> Node:
        """The node as another type; `lossy` says that failing rows are NULL whatever was asked for."""
        if node.type == wanted:
            return node
        convert = casts.conversion(node.type, wanted, self.timezone)
        if convert is None:
            self.refuse(tree, f"{node.type} cannot be cast to {wanted}")
        if node.literal is not None:
            return self._cast_literal(tree, node, wanted, convert, lossy)
        if lossy:
            return self.total(wanted, [node], on_arrays(convert))
        return self.fallible(tree, wanted, [node], on_arrays(convert))

    def _cast_literal(
        self, tree: exp.Expr, node: Node, wanted: pa.DataType, convert: casts.Convert, lossy: bool
    ) -> Node:
        value = None if node.literal is None else node.literal.value
        if type(value) is int and _holds(wanted, value):
            return constant(Decimal(value) if pa.types.is_decimal(wanted) else value, wanted)
        before = node.evaluate({})
        after = on_arrays(convert)(before)
        if before.is_valid and not after.is_valid and not lossy:
            self.refuse(tree, f"{before.as_py()!r} is not a value of type {wanted}")
        return constant(after.as_py() if after.is_valid else None, wanted)

    def same_type(self, tree: exp.Expr, nodes: Sequence[Node]) -> list[Node]:
        """All nodes as the type they have in common."""
        known = [node for node in nodes if not pa.types.is_null(node.type)] or list(nodes[:1])
        wanted = known[0]
        for node in known[1:]:
            shared = types.common(wanted, node, self.timezone)
            if shared is None:
                self.refuse(tree, f"{wanted.type} and {node.type} have no type in common")
            widest = wanted if wanted.type == shared else node
            wanted = Node(shared, widest.evaluate, literal=widest.literal if widest.type == shared else None)
        return [self.cast(tree, node, wanted.type) for node in nodes]


def place(sql: str, tree: exp.Expr) -> tuple[int, int]:
    """Line and column, from 1, where a part of the text begins."""
    starts = [node.meta["start"] for node in tree.walk() if "start" in node.meta]
    before = sql[: min(starts, default=0)]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def _shown(tree: exp.Expr) -> str:
    if isinstance(tree, exp.Anonymous):
        return f"function {tree.name}()"
    if isinstance(tree, exp.Func) and not isinstance(tree, exp.Cast):
        return f"function {tree.sql_name().lower()}()"
    return f"`{tree.sql(dialect='spark')}`"


def _missing(result: Datum, data: Sequence[Datum]) -> int:
    """The first row without a result although all its arguments are known, -1 if there is none."""
    if isinstance(result, pa.Scalar):
        return 0 if not result.is_valid and all(datum.is_valid for datum in data) else -1
    lost = ~np.asarray(result.is_valid(), bool)
    for datum in data:
        lost &= np.asarray(as_array(datum, len(result)).is_valid(), bool)
    return int(lost.argmax()) if lost.any() else -1


def evaluate(node: Node, columns: Columns, rows: int) -> pa.Array:
    """One value per row, of the node's type."""
    result = as_array(node.evaluate(columns), rows)
    if isinstance(result, pa.ChunkedArray):
        result = result.combine_chunks()
    return result if result.type == node.type else result.cast(node.type)


def _holds(wanted: pa.DataType, value: int) -> bool:
    """Whether a type of numbers has room for a whole number."""
    if pa.types.is_decimal(wanted):
        return bool(len(str(abs(value))) + wanted.scale <= wanted.precision)
    return bool(pa.types.is_signed_integer(wanted)) and value.bit_length() < wanted.bit_width
