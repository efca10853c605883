"""A correlation's SQL, checked against its streams and planned.

    select … from offers o join bids b on … where … group by …
        ──► sources   per alias: its stream, and the selection that runs before anything is routed
        ──► steps     binary joins, the innermost first: o ⋈ (b ⋈ s), each with its condition
        ──► output    expressions over the joined rows; distinct; or groups with their aggregates

Only inner joins. Unsupported SQL is refused, with its position, when the correlation is created.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn, cast

import pyarrow as pa
from sqlglot import exp

from etl.columnar.expression import Expression, ExpressionRefused, compile_tree, parse_sql, place
from etl.correlate.model import Side, Window
from etl.correlate.query.condition import Condition, Sides, condition
from etl.correlate.query.order import JoinOrder, join_order
from etl.correlate.query.output import Grouping, results

_ALLOWED = {"expressions", "from_", "joins", "where", "group", "distinct", "kind", "hint", "operation_modifiers"}


Conjunct = tuple[exp.Expr, frozenset[str]]


@dataclass(frozen=True, slots=True)
class StreamType:
    """The type of a declared stream."""

    schema: pa.Schema
    event_time: str


@dataclass(frozen=True, slots=True)
class Source:
    alias: str
    stream: str
    schema: pa.Schema  # of this alias: columns are named alias.column
    event_time: str
    selection: Expression | None


@dataclass(frozen=True, slots=True)
class JoinStep:
    """left ⋈ (the result of earlier steps, or one stream)."""

    left: str
    right: tuple[str, ...]
    condition: Condition


@dataclass(frozen=True, slots=True)
class Query:
    sql: str
    sources: Mapping[str, Source]
    steps: tuple[JoinStep, ...]
    schema: pa.Schema  # of joined rows
    output: tuple[tuple[str, Expression], ...]  # empty for a grouping
    distinct: bool
    grouping: Grouping | None

    @property
    def columns(self) -> frozenset[str]:
        """Columns of the result, which are read from the segments at the end."""
        expressions = [expression for _, expression in self.output]
        if self.grouping is not None:
            expressions += [expression for _, expression in self.grouping.keys]
            expressions += [one.argument for one in self.grouping.aggregates if one.argument is not None]
        return frozenset[str]().union(*(expression.columns for expression in expressions))


def compile_query(
    sql: str, streams: Mapping[str, StreamType], *, within: Window | None = None, timezone: str = "UTC"
) -> Query:
    """Check and plan a correlation. `within` applies between every two streams, in addition to the SQL's conditions."""
    return _Compilation(sql, streams, within or Window.full_history(), timezone).query()


def conjuncts(sql: str, streams: Mapping[str, StreamType], timezone: str = "UTC") -> list[Conjunct]:
    """The compilable conditions of a correlation, each with its aliases."""
    return _Compilation(sql, streams, Window.full_history(), timezone).conjuncts()


class _Compilation:
    def __init__(self, sql: str, streams: Mapping[str, StreamType], within: Window, timezone: str) -> None:
        self._sql, self._streams, self._within, self._timezone = sql, streams, within, timezone
        self._select = _parse(sql)

    def query(self) -> Query:
        self._refuse_clauses()
        tables = self._tables()
        schema = pa.schema([field for _, stream in tables.values() for field in stream])
        conjuncts = self._conjuncts(schema, list(tables))
        sources = {alias: self._source(alias, stream, schema, conjuncts) for alias, (stream, _) in tables.items()}
        binary = [(tree, aliases) for tree, aliases in conjuncts if len(aliases) > 1]
        order = join_order(list(tables), [(aliases, _is_equality(tree)) for tree, aliases in binary])
        steps = self._steps(order, sources, binary, schema)
        output, grouping = results(self._select, self._sql, schema, self._timezone)
        distinct = self._select.args.get("distinct") is not None and grouping is None
        return Query(self._sql, sources, steps, schema, output, distinct, grouping)

    def conjuncts(self) -> list[Conjunct]:
        tables = self._tables()
        return self._conjuncts(pa.schema([field for _, own in tables.values() for field in own]), list(tables))

    def _refuse(self, tree: exp.Expr, reason: str) -> NoReturn:
        line, column = place(self._sql, tree)
        raise ExpressionRefused(reason, self._sql, line, column)

    def _refuse_clauses(self) -> None:
        for name, value in self._select.args.items():
            if value and name not in _ALLOWED:
                tree = value[0] if isinstance(value, list) else value
                self._refuse(tree, f"a correlation has no {name.rstrip('_').upper()}")
        if self._select.args.get("from_") is None:
            self._refuse(self._select, "a correlation selects from two or more streams")

    def _tables(self) -> dict[str, tuple[str, list[pa.Field]]]:
        joins: list[exp.Join] = self._select.args.get("joins") or []
        tables: dict[str, tuple[str, list[pa.Field]]] = {}
        for tree in [self._select.args["from_"].this, *(join.this for join in joins)]:
            if not isinstance(tree, exp.Table) or tree.name not in self._streams:
                known = ", ".join(sorted(self._streams))
                self._refuse(tree, f"there is no stream {tree.sql(dialect='spark')!r}; there are {known}")
            alias = tree.alias or tree.name
            if alias in tables:
                self._refuse(tree, f"the name {alias!r} is used twice; give one of the streams another")
            schema = self._streams[tree.name].schema
            tables[alias] = tree.name, [field.with_name(f"{alias}.{field.name}") for field in schema]
        if len(tables) < 2:
            self._refuse(self._select, "a correlation joins two or more streams")
        return tables

    def _conjuncts(self, schema: pa.Schema, aliases: list[str]) -> list[tuple[exp.Expr, frozenset[str]]]:
        trees: list[exp.Expr] = []
        for position, join in enumerate(self._select.args.get("joins") or []):
            if join.side or (join.kind or "INNER").upper() not in ("INNER", "CROSS"):
                self._refuse(join, f"a correlation knows inner joins only, not {join.side or join.kind}".lower())
            trees += _flattened(join.args.get("on"))
            trees += self._using(join, aliases, position + 1, schema)
        where = self._select.args.get("where")
        trees += _flattened(where.this if where is not None else None)
        return [(tree, self._aliases(tree, schema, aliases)) for tree in trees]

    def _using(self, join: exp.Join, aliases: list[str], position: int, schema: pa.Schema) -> list[exp.Expr]:
        """using (c) is an equality with the first stream before that has c."""
        equalities: list[exp.Expr] = []
        for name in join.args.get("using") or []:
            owners = [alias for alias in aliases[:position] if f"{alias}.{name.name}" in schema.names]
            if not owners:
                self._refuse(name, f"no stream before has a column {name.name!r}")
            left, right = (exp.column(name.name, table=alias) for alias in (owners[0], aliases[position]))
            equalities.append(exp.EQ(this=left, expression=right))
        return equalities

    def _aliases(self, tree: exp.Expr, schema: pa.Schema, aliases: list[str]) -> frozenset[str]:
        expression = compile_tree(tree, self._sql, schema, timezone=self._timezone, wanted=pa.bool_())
        used = frozenset(column.partition(".")[0] for column in expression.columns)
        return used or frozenset(aliases[:1])  # a constant condition is true or false for all rows

    def _source(
        self, alias: str, stream: str, schema: pa.Schema, conjuncts: list[tuple[exp.Expr, frozenset[str]]]
    ) -> Source:
        own = [tree for tree, aliases in conjuncts if aliases == {alias}]
        fields = pa.schema([field for field in schema if field.name.startswith(f"{alias}.")])
        selection = None
        if own:
            whole = exp.and_(*[tree.copy() for tree in own], copy=False)
            selection = compile_tree(whole, self._sql, fields, timezone=self._timezone, wanted=pa.bool_())
        return Source(alias, stream, fields, f"{alias}.{self._streams[stream].event_time}", selection)

    def _steps(
        self,
        order: JoinOrder,
        sources: Mapping[str, Source],
        conjuncts: list[tuple[exp.Expr, frozenset[str]]],
        schema: pa.Schema,
    ) -> tuple[JoinStep, ...]:
        steps = []
        for left, right in order:
            both = {left, *right}
            own = [tree for tree, used in conjuncts if used <= both and left in used]
            steps.append(JoinStep(left, right, self._condition(left, right, own, sources, schema)))
        return tuple(steps)

    def _condition(
        self,
        left: str,
        right: tuple[str, ...],
        conjuncts: list[exp.Expr],
        sources: Mapping[str, Source],
        schema: pa.Schema,
    ) -> Condition:
        columns = {alias: frozenset(sources[alias].schema.names) for alias in (left, *right)}
        right_columns = frozenset[str]().union(*(columns[alias] for alias in right))
        own = pa.schema([field for field in schema if field.name in columns[left] | right_columns])
        windows = []
        for alias in right:  # the window from the conjuncts on this pair of streams
            times: dict[Side, str] = {"left": sources[left].event_time, "right": sources[alias].event_time}
            sides = Sides(own, columns[left], columns[alias], times, self._timezone)
            pair = [tree for tree in conjuncts if self._only(tree, columns[left] | columns[alias], own)]
            windows.append(condition(pair, self._sql, sides, self._within).window)
        if len(right) == 1:
            return condition(conjuncts, self._sql, sides, self._within)
        sides = Sides(own, columns[left], right_columns, {"left": sources[left].event_time}, self._timezone)
        pairs = [(sources[left].event_time, sources[alias].event_time) for alias in right]
        every = [*conjuncts, *(tree for pair in pairs for tree in _within(self._within, *pair))]
        return condition(every, self._sql, sides, _earliest(windows))

    def _only(self, tree: exp.Expr, columns: frozenset[str], schema: pa.Schema) -> bool:
        return compile_tree(tree, self._sql, schema, timezone=self._timezone).columns <= columns


def _parse(sql: str) -> exp.Select:
    tree = parse_sql(sql)
    if not isinstance(tree, exp.Select):
        raise ExpressionRefused("a correlation is one SELECT", sql, 1, 1)
    return tree


def _flattened(tree: exp.Expr | None) -> list[exp.Expr]:
    """Conjuncts."""
    if tree is None:
        return []
    if isinstance(tree, exp.Paren):
        return _flattened(tree.this)
    return [*_flattened(tree.this), *_flattened(tree.expression)] if isinstance(tree, exp.And) else [tree]


def _is_equality(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.EQ)


def _within(window: Window, left: str, right: str) -> list[exp.Expr]:
    """A window as conditions on two event times."""
    a, b = (exp.column(name.partition(".")[2], table=name.partition(".")[0], quoted=True) for name in (left, right))
    distance = exp.Sub(this=b, expression=a)
    bounds = [(window.lower_us, exp.GTE), (window.upper_us, exp.LTE)]
    return [
        compare(this=distance.copy(), expression=_microseconds(bound)) for bound, compare in bounds if bound is not None
    ]


def _microseconds(length: int) -> exp.Interval:
    return exp.Interval(this=exp.Literal.string(str(length)), unit=exp.var("MICROSECONDS"))


def _earliest(windows: list[Window]) -> Window:
    """The window of the earliest of several parts that each have a window: a superset of the matches."""
    lower = [window.lower_us for window in windows]
    upper = [window.upper_us for window in windows if window.upper_us is not None]
    return Window(None if None in lower else min(cast("list[int]", lower)), min(upper, default=None))
