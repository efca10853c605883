"""From a declared correlation and its compiled SQL to the join that is planned over sites.

Streams are joined by equalities of columns. Conditions on one stream are selections, which run at its site before
anything is shipped; other conditions between streams are refused. A stream is known by its alias, so it may be joined
with itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from sqlglot import exp

from etl.columnar.expression import ExpressionRefused, place
from etl.contract.correlations.correlation import LoggedStream
from etl.contract.correlations.sites import DeclaredSite, SiteCorrelation, SiteWindow
from etl.contract.errors import Refusal
from etl.correlate.multiway.errors import StreamWithoutSite
from etl.correlate.multiway.planning.planner import PlanOptions
from etl.correlate.multiway.query import Column, Equality, JoinQuery, Site, Stream, TimeWindow, TupleWindow, Window
from etl.correlate.query.compile import Query, StreamType, compile_query, conjuncts


@dataclass(frozen=True)
class SiteQuery:
    """A correlation over sites, ready to run: the join, and the SQL that turns its rows into results."""

    join: JoinQuery
    sql: Query


def site_query(
    declared: SiteCorrelation, streams: Sequence[LoggedStream], sites: Sequence[DeclaredSite], name: str | None = None
) -> SiteQuery:
    """Raises `ExpressionRefused`, `Refusal`, or an error of `etl.correlate.multiway`. `name` is that of its files."""
    types = {one.name: StreamType(one.schema, one.event_time) for one in streams if one.flattening is None}
    query = compile_query(declared.sql, types)
    if query.grouping is not None or query.distinct:
        raise ExpressionRefused(
            "a correlation over sites returns joined rows; aggregate its table instead", declared.sql, 1, 1
        )
    _check_windows(declared, query)
    homes = {one.name: one for one in streams}
    known = tuple(Site(one.name, one.root) for one in sites)
    members = tuple(_stream(declared, query, alias, homes, sites) for alias in query.sources)
    equalities = tuple(_equality(declared.sql, tree, query) for tree in _joining(declared.sql, types))
    target, lateness = declared.target, declared.lateness
    if target is not None and target not in {site.name for site in known}:
        listed = ", ".join(site.name for site in known) or "none"
        raise Refusal(("sites", "target"), f"target {target!r} is not a declared site; there are {listed}")
    join = JoinQuery(name or declared.name, known, members, equalities, target, lateness)
    return SiteQuery(join, query)


def plan_options(declared: SiteCorrelation, shipment_bytes_per_s: float) -> PlanOptions:
    return PlanOptions(
        declared.plan, declared.partition_by, declared.partitions, shipment_bytes_per_s, declared.target
    )  # fmt: skip


def _check_windows(declared: SiteCorrelation, query: Query) -> None:
    for alias, _ in declared.windows:
        if alias not in query.sources:
            known = ", ".join(query.sources)
            raise Refusal(("sites", "windows", alias), f"the SQL has no stream {alias!r}; there are {known}")
    for alias in query.sources:
        if declared.window(alias) is None:
            raise Refusal(
                ("sites",), f"stream {alias!r} has no window; say within = '5 minutes', or [sites.windows] {alias} = …"
            )


def _stream(
    declared: SiteCorrelation,
    query: Query,
    alias: str,
    homes: Mapping[str, LoggedStream],
    sites: Sequence[DeclaredSite],
) -> Stream:
    home = homes[query.sources[alias].stream]
    if home.site is None:
        raise StreamWithoutSite(home.name, "", tuple(one.name for one in sites))
    shown = sorted(column.partition(".")[2] for column in query.columns if column.startswith(f"{alias}."))
    given = declared.window(alias)
    assert given is not None, "windows are checked before"
    return Stream(alias, home.site, home.schema, home.event_time, _window(given), tuple(shown))


def _window(given: SiteWindow) -> Window:
    return TupleWindow(given) if isinstance(given, int) else TimeWindow(given)


def _joining(sql: str, types: Mapping[str, StreamType]) -> list[exp.Expr]:
    return [tree for tree, aliases in conjuncts(sql, types) if len(aliases) > 1]


def _equality(sql: str, tree: exp.Expr, query: Query) -> Equality:
    if not isinstance(tree, exp.EQ):
        _refuse(sql, tree, "over sites streams are joined by equalities; say windows with within or [sites.windows]")
    return Equality(*(_column(sql, side, query) for side in (tree.this, tree.expression)))


def _column(sql: str, tree: exp.Expr, query: Query) -> Column:
    if not isinstance(tree, exp.Column):
        _refuse(sql, tree, "over sites columns are compared as they are, without an expression")
    if tree.table:
        return Column(tree.table, tree.name)
    owners = [alias for alias in query.sources if f"{alias}.{tree.name}" in query.schema.names]
    return Column(owners[0], tree.name)


def _refuse(sql: str, tree: exp.Expr, reason: str) -> NoReturn:
    line, column = place(sql, tree)
    raise ExpressionRefused(reason, sql, line, column)
