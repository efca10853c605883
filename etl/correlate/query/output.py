"""The output of a correlation: named expressions over joined rows, or groups with their aggregates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NoReturn

import pyarrow as pa
from sqlglot import exp

from etl.columnar.expression import Expression, ExpressionRefused, compile_tree, place

Aggregate = Literal["count", "sum", "avg", "min", "max"]
_AGGREGATES: dict[type[exp.Expr], Aggregate] = {
    exp.Count: "count", exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max",
}  # fmt: skip
Output = tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Aggregation:
    name: str
    function: Aggregate
    argument: Expression | None  # None: count(*)


@dataclass(frozen=True, slots=True)
class Grouping:
    keys: tuple[tuple[str, Expression], ...]
    aggregates: tuple[Aggregation, ...]
    order: tuple[str, ...]  # columns as the query names them


def results(select: exp.Select, sql: str, schema: pa.Schema, timezone: str) -> tuple[Output, Grouping | None]:
    """The columns of a SELECT, or its grouping if it has GROUP BY or an aggregate."""
    compilation = _Results(select, sql, schema, timezone)
    group = select.args.get("group")
    if group is None and not any(select.find_all(*_AGGREGATES)):
        return compilation.output(), None
    return (), compilation.grouping(group)


class _Results:
    def __init__(self, select: exp.Select, sql: str, schema: pa.Schema, timezone: str) -> None:
        self._select, self._sql, self._schema, self._timezone = select, sql, schema, timezone

    def _refuse(self, tree: exp.Expr, reason: str) -> NoReturn:
        line, column = place(self._sql, tree)
        raise ExpressionRefused(reason, self._sql, line, column)

    def output(self) -> Output:
        named: list[tuple[str, exp.Expr]] = []
        for tree in self._select.expressions:
            if isinstance(tree, exp.Star) or (isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star)):
                owner = tree.table if isinstance(tree, exp.Column) else ""
                named += _stars(self._schema, owner)
            else:
                named.append((tree.alias_or_name, tree.unalias()))
        self._refuse_repeated([name for name, _ in named])
        return tuple((name, self._compiled(tree)) for name, tree in named)

    def _refuse_repeated(self, names: list[str]) -> None:
        for position, name in enumerate(names):
            if not name:
                self._refuse(self._select.expressions[position], "an expression needs a name: write `… as name`")
            if name in names[:position]:
                self._refuse(self._select, f"two columns of the result are named {name!r}; name one of them otherwise")

    def _compiled(self, tree: exp.Expr) -> Expression:
        return compile_tree(tree, self._sql, self._schema, timezone=self._timezone)

    def grouping(self, group: exp.Group | None) -> Grouping:
        items = [(tree.alias_or_name or _default_name(tree), tree.unalias()) for tree in self._select.expressions]
        self._refuse_repeated([name for name, _ in items])
        wanted = [self._group_item(tree, items) for tree in (group.expressions if group is not None else [])]
        shown = {tree.sql(dialect="spark") for tree in wanted}
        keys, aggregates = [], []
        for name, tree in items:
            if type(tree) in _AGGREGATES:
                aggregates.append(self._aggregation(name, tree))
            elif tree.sql(dialect="spark") in shown:
                keys.append((name, self._compiled(tree)))
            else:
                self._refuse(tree, f"{name!r} is neither grouped by nor an aggregate (count, sum, avg, min, max)")
        hidden = [
            tree for tree in wanted if tree.sql(dialect="spark") not in {t.sql(dialect="spark") for _, t in items}
        ]
        if hidden:
            self._refuse(hidden[0], "what is grouped by must be selected, too: it names the rows of the result")
        return Grouping(tuple(keys), tuple(aggregates), tuple(name for name, _ in items))

    def _group_item(self, tree: exp.Expr, items: list[tuple[str, exp.Expr]]) -> exp.Expr:
        """An expression, the name of a selected one, or its number."""
        if isinstance(tree, exp.Literal) and tree.this.isdigit() and 1 <= int(tree.this) <= len(items):
            return items[int(tree.this) - 1][1]
        named = dict(items)
        return named.get(tree.name, tree) if isinstance(tree, exp.Column) and not tree.table else tree

    def _aggregation(self, name: str, tree: exp.Expr) -> Aggregation:
        function = _AGGREGATES[type(tree)]
        if isinstance(tree.this, exp.Star):
            return Aggregation(name, function, None)
        if isinstance(tree.this, exp.Distinct):
            self._refuse(tree, f"{function}(distinct …) would have to remember every value; it is not available")
        argument = self._compiled(tree.this)
        number = pa.types.is_integer(argument.type) or pa.types.is_floating(argument.type)
        if function in ("sum", "avg") and not (number or pa.types.is_decimal(argument.type)):
            self._refuse(tree, f"{function}() needs a number, not {argument.type}")
        return Aggregation(name, function, argument)


def _stars(schema: pa.Schema, owner: str) -> list[tuple[str, exp.Expr]]:
    """All columns, those of one stream by their bare name, of several with the stream's name before."""
    names = [name for name in schema.names if not owner or name.startswith(f"{owner}.")]
    bare = [name.partition(".")[2] for name in names]
    shown = [one if bare.count(one) == 1 else name.replace(".", "_", 1) for name, one in zip(names, bare, strict=True)]
    trees = [exp.column(name.partition(".")[2], table=name.partition(".")[0], quoted=True) for name in names]
    return list(zip(shown, trees, strict=True))


def _default_name(tree: exp.Expr) -> str:
    return _AGGREGATES.get(type(tree), "")
