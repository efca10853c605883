"""Parse SQL to a `Query`, or raise an error that names line and column.

    select v.vid, w.duration from videos v join views w on v.vid = w.vid where v.lang = 'ENG' and w.geo = 'GER'
    select c.usr, count(*), avg(w.duration) from … where … group by c.usr

Text is parsed by sqlglot in Spark's dialect, never by us. Everything unsupported is refused here, before the query is
created.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from etl.correlate.adhoc.errors import QueryRefused
from etl.correlate.adhoc.query.conditions import Equality, split
from etl.correlate.adhoc.query.domain import domain_of
from etl.correlate.adhoc.query.grammar import check_grammar, check_name, check_text, too_deep
from etl.correlate.adhoc.query.keys import comparison_kind
from etl.correlate.adhoc.query.model import (
    Aggregate,
    AggregateKind,
    Alternative,
    ColumnOf,
    Edge,
    End,
    OutputColumn,
    Query,
    Stream,
    edge,
)
from etl.correlate.adhoc.query.place import Scope, refuse

MIN_STREAMS, MAX_STREAMS = 2, 5
_AGGREGATES: dict[type[exp.Expr], AggregateKind] = {
    exp.Count: "count", exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max",
}  # fmt: skip
_CLAUSES = {
    "distinct": "DISTINCT", "having": "HAVING", "order": "ORDER BY", "limit": "LIMIT", "offset": "OFFSET",
    "with_": "WITH", "qualify": "QUALIFY", "windows": "WINDOW", "laterals": "LATERAL", "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
}  # fmt: skip


def parse_query(name: str, sql: str, window: int, streams: Mapping[str, Stream]) -> Query:
    """Parse a query over the declared streams, with a window in slots."""
    check_text(sql)
    try:
        return _query(name, sql, window, streams)
    except RecursionError:
        raise too_deep() from None


def _query(name: str, sql: str, window: int, streams: Mapping[str, Stream]) -> Query:
    select = _select(sql)
    scope = Scope(sql, _sources(select, sql, streams))
    equalities: list[Equality] = []
    condition = _condition(select)
    selections: dict[str, list[Alternative]] = {}
    if condition is not None:
        equalities, selections = split(condition, scope)
    edges = _join_tree(equalities, select, scope)
    group_by = _group_by(select, scope)
    outputs = _outputs(select, scope, group_by)
    names = tuple(stream.name for stream in scope.streams.values())
    chosen = {stream: tuple(found) for stream, found in selections.items()}
    return Query(name, sql, names, edges, chosen, outputs, group_by, window)


def _select(sql: str) -> exp.Select:
    try:
        statements = sqlglot.parse(sql, read="spark")
    except ParseError as error:
        first = error.errors[0]
        reason = f"the text cannot be read as SQL: {str(first['description']).lower()}"
        raise QueryRefused(reason, int(first["line"] or 1), int(first["col"] or 1)) from error
    except SqlglotError as error:
        raise QueryRefused("the text cannot be read as SQL: a quote or comment is not closed", 1, 1) from error
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        raise refuse(sql, statements[-1] if statements else None, "a query is one SELECT")
    select = statements[0]
    for argument, clause in _CLAUSES.items():
        if select.args.get(argument):
            found = select.args[argument]
            place = found if isinstance(found, exp.Expr) else found[0]
            raise refuse(sql, place, f"{clause} cannot be shared; a query is SELECT, FROM, WHERE, GROUP BY")
    for kind, what in ((exp.Subquery, "a subquery"), (exp.Window, "a window function"), (exp.Select, "a subquery")):
        inner = next((found for found in select.find_all(kind) if found is not select), None)
        if inner is not None:
            raise refuse(sql, inner, f"{what} cannot be shared")
    check_grammar(sql, select)
    return select


def _sources(select: exp.Select, sql: str, streams: Mapping[str, Stream]) -> dict[str, Stream]:
    origin = select.args.get("from_")
    if origin is None:
        raise refuse(sql, select, f"FROM is missing; known streams are {', '.join(sorted(streams))}")
    found: dict[str, Stream] = {}
    for node in (origin.this, *(join.this for join in select.args.get("joins") or ())):
        if not isinstance(node, exp.Table):
            raise refuse(sql, node, "FROM takes streams by name")
        stream = next((s for name, s in streams.items() if name.lower() == node.name.lower()), None)
        if stream is None or node.db:
            raise refuse(sql, node, f"stream {node.name!r} is unknown; known are {', '.join(sorted(streams))}")
        if any(other.name == stream.name for other in found.values()):
            raise refuse(sql, node, f"stream {stream.name!r} is named twice; a stream cannot be joined with itself")
        found[node.alias_or_name.lower()] = stream
    if not MIN_STREAMS <= len(found) <= MAX_STREAMS:
        reason = f"{len(found)} streams are named, a query joins {MIN_STREAMS} to {MAX_STREAMS}"
        raise refuse(sql, origin, reason)
    for join in select.args.get("joins") or ():
        if join.side or join.args.get("using") or join.kind.upper() not in ("", "INNER", "CROSS"):
            kind = "USING" if join.args.get("using") else f"{join.side} {join.kind}".strip()
            raise refuse(sql, join, f"{kind} joins cannot be shared; write inner joins with ON or WHERE")
    return found


def _condition(select: exp.Select) -> exp.Expr | None:
    parts = [join.args["on"] for join in select.args.get("joins") or () if join.args.get("on")]
    if select.args.get("where"):
        parts.append(select.args["where"].this)
    condition: exp.Expr | None = None
    for part in parts:
        condition = part if condition is None else exp.And(this=condition, expression=part)
    return condition


def _join_tree(equalities: list[Equality], select: exp.Select, scope: Scope) -> tuple[Edge, ...]:
    """The equalities as the edges of a tree over the streams; redundant ones are left out."""
    known: dict[ColumnOf, ColumnOf] = {}  # union-find over columns

    def root(of: ColumnOf) -> ColumnOf:
        while of in known:
            of = known[of]
        return of

    pairs: dict[frozenset[str], list[Equality]] = {}
    for equality in equalities:
        one, other, node = equality
        _check_types(one, other, node, scope)
        if root(one) != root(other):
            known[root(one)] = root(other)
            pairs.setdefault(frozenset((one.stream, other.stream)), []).append(equality)
    island = {stream.name: stream.name for stream in scope.streams.values()}
    for names, found in pairs.items():
        one_name, other_name = sorted(names)
        if island[one_name] == island[other_name]:
            reason = f"{one_name} and {other_name} are joined already through other streams"
            raise refuse(scope.sql, found[0][2], f"{reason}; joins in a circle cannot be shared")
        old = island[one_name]
        island = {name: island[other_name] if at == old else at for name, at in island.items()}
    _check_connected(island, select, scope)
    return tuple(sorted(_edge(found) for found in pairs.values()))


def _edge(equalities: list[Equality]) -> Edge:
    pairs = [(one, other) if one < other else (other, one) for one, other, _ in equalities]
    left = End(pairs[0][0].stream, tuple(one.column for one, _ in pairs))
    return edge(left, End(pairs[0][1].stream, tuple(other.column for _, other in pairs)))


def _check_types(one: ColumnOf, other: ColumnOf, node: exp.Expr, scope: Scope) -> None:
    kinds = [comparison_kind(scope.type_of(of)) for of in (one, other)]
    for of, kind in zip((one, other), kinds, strict=True):
        if kind is None:
            raise refuse(scope.sql, node, f"column {of.column!r} is a {scope.type_of(of)}, which cannot be a join key")
    if kinds[0] != kinds[1]:
        what = " and ".join(f"{of.stream}.{of.column} is a {scope.type_of(of)}" for of in (one, other))
        raise refuse(scope.sql, node, f"{what}; they can never be equal")


def _check_connected(island: dict[str, str], select: exp.Select, scope: Scope) -> None:
    first = next(iter(scope.streams.values())).name
    for table in select.find_all(exp.Table):
        stream = scope.streams[table.alias_or_name.lower()].name
        if island[stream] != island[first]:
            reason = f"no equality joins {stream!r} with {first!r}, directly or through others"
            raise refuse(scope.sql, table, f"{reason}; a cross product cannot be run")


def _group_by(select: exp.Select, scope: Scope) -> tuple[ColumnOf, ...]:
    group = select.args.get("group")
    found = []
    for node in group.expressions if group is not None else ():
        if not isinstance(node, exp.Column):
            raise refuse(scope.sql, node, "GROUP BY takes columns")
        found.append(scope.resolve(node))
    return tuple(dict.fromkeys(found))


def _outputs(select: exp.Select, scope: Scope, group_by: tuple[ColumnOf, ...]) -> tuple[OutputColumn | Aggregate, ...]:
    found: list[OutputColumn | Aggregate] = []
    for node in select.expressions:
        inner = _unnamed(node)
        check_name(scope.sql, node, node.alias)
        if type(inner) in _AGGREGATES:
            found.append(_aggregate(inner, node.alias, scope))
        elif _is_star(inner):
            found.extend(_star(inner, scope))
        elif isinstance(inner, exp.Column):
            found.append(OutputColumn(scope.resolve(inner), node.alias or inner.name))
        else:
            raise refuse(scope.sql, node, "SELECT takes columns, *, and count, sum, avg, min, max of a column")
    if any(isinstance(each, Aggregate) for each in found):
        _check_grouped(select, scope, group_by)
    elif group_by:
        raise refuse(
            scope.sql, select.args["group"], "GROUP BY without an aggregate is a DISTINCT, which cannot be shared"
        )
    return _distinct_names(found)


def _check_grouped(select: exp.Select, scope: Scope, group_by: tuple[ColumnOf, ...]) -> None:
    for node in select.expressions:
        inner = _unnamed(node)
        if _is_star(inner):
            raise refuse(scope.sql, node, "* cannot stand beside an aggregate")
        if isinstance(inner, exp.Column) and scope.resolve(inner) not in group_by:
            raise refuse(scope.sql, node, f"column {inner.name!r} must be in GROUP BY or inside an aggregate")
    shown = {scope.resolve(node) for node in map(_unnamed, select.expressions) if isinstance(node, exp.Column)}
    for node in select.args["group"].expressions if group_by else ():
        if scope.resolve(node) not in shown:
            raise refuse(
                scope.sql, node, f"column {node.name!r} is in GROUP BY and not in SELECT: rows would lack their group"
            )


def _unnamed(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Alias) else node


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _star(node: exp.Expr, scope: Scope) -> list[OutputColumn]:
    wanted = list(scope.streams.values())
    if isinstance(node, exp.Column):
        if node.table.lower() not in scope.streams:
            raise refuse(scope.sql, node, f"{node.table!r} is not among the query's streams")
        wanted = [scope.streams[node.table.lower()]]
    return [OutputColumn(ColumnOf(stream.name, column), column) for stream in wanted for column in stream.columns]


def _distinct_names(outputs: list[OutputColumn | Aggregate]) -> tuple[OutputColumn | Aggregate, ...]:
    """Make outputs of the same name, such as from *, unique by prefixing their stream, then by a number.

    Column names in tables are case-insensitive, and an average needs two more names.
    """
    names, taken = [each.name.lower() for each in outputs], set[str]()
    found: list[OutputColumn | Aggregate] = []
    for each in outputs:
        name = each.name
        if names.count(name.lower()) > 1 and each.of is not None:
            name = f"{each.of.stream}_{name}"
        choices = (name, *(f"{name}_{number}" for number in range(2, 4 * len(outputs) + 2)))
        named = next(one for choice in choices if not taken & _taken_by(one := replace(each, name=choice)))
        taken |= _taken_by(named)
        found.append(named)
    return tuple(found)


def _taken_by(each: OutputColumn | Aggregate) -> set[str]:
    return {name.lower() for name in (each.name, *(each.parts if isinstance(each, Aggregate) else ()))}


def _aggregate(node: exp.Expr, alias: str, scope: Scope) -> Aggregate:
    kind = _AGGREGATES[type(node)]
    argument = node.this
    if isinstance(argument, exp.Star) and kind == "count":
        return Aggregate(kind, None, alias or "count")
    if not isinstance(argument, exp.Column):
        raise refuse(scope.sql, node, f"{kind} takes one column{' or *' if kind == 'count' else ''}")
    of = scope.resolve(argument)
    domain = domain_of(scope.type_of(of))
    adds = kind in ("sum", "avg")
    if (domain is None and kind != "count") or (adds and not _is_number(scope, of)):
        raise refuse(scope.sql, node, f"{kind} of {of.column!r}, a {scope.type_of(of)}, is not possible")
    return Aggregate(kind, of, alias or f"{kind}_{of.column}")


def _is_number(scope: Scope, of: ColumnOf) -> bool:
    kind = scope.type_of(of)
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
