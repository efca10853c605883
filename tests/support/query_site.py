"""A site for tests of ad-hoc queries: create and delete them, land tuples, and the truth of each query alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from etl.correlate.adhoc.query.model import Aggregate, Query
from etl.streams.adhoc.service import Queries
from etl.streams.adhoc.tasks.join import query_worker
from etl.streams.adhoc.tasks.results import total
from etl.streams.adhoc.version import compiled_query
from etl.streams.declared import catalog
from etl.streams.microbatch import Executor
from tests.support.correlate_histories import EPOCH
from tests.support.correlate_histories import at as at
from tests.support.stream_site import StreamSite

Row = dict[str, Any]
SLOT_S = 10


@dataclass
class QuerySite:
    """Streams l, r and u with queries over them; remembers what landed with which batch."""

    under_it: StreamSite
    landed: list[tuple[int, str, Row]] = field(default_factory=list)  # batch, stream, tuple
    batch: int = 1  # the next one

    @classmethod
    def under(cls, home: Path, dsn: str, executor: Executor) -> QuerySite:
        site = StreamSite.under(home, dsn, executor)
        site.steps.prepare()
        query_worker().clear()
        return cls(site)

    @property
    def queries(self) -> Queries:
        return Queries(self.under_it.settings, self.under_it.dsn)

    def create(self, name: str, sql: str, within: str = "20s", owner: str = "ada", **options: Any) -> dict[str, Any]:
        return self.queries.create(name, sql, within, owner, **options)

    def land(self, stream: str, rows: list[Row], name: str = "a") -> None:
        self.under_it.land(stream, f"{self.batch}{name}", rows)
        self.landed += [(self.batch, stream, row) for row in rows]

    def run(self) -> dict[str, Any]:
        told = self.under_it.run()
        if told["batch"] is not None:
            self.batch = told["batch"] + 1
        return told

    def ending(self, checkpoint: str) -> QuerySite:
        return replace(self, under_it=self.under_it.ending(checkpoint))

    def restarted(self) -> QuerySite:
        self.under_it.restarted()
        query_worker().clear()
        ((loaded,),) = self.under_it.rows("select coalesce(max(batch), 0) from etl.batch where state = 'loaded'")
        self.batch = loaded + 1
        return self

    def rows(self, name: str, *, by_batch: bool = False) -> Counter[tuple[Any, ...]]:
        """What the table of a query has, with averages rounded."""
        told = self.queries.rows(name, 1_000_000, by_batch=by_batch)
        columns = [one for one in told["columns"] if one != "batch"]
        return Counter(tuple(_rounded(row[one]) for one in columns) for row in told["rows"])

    def query(self, name: str) -> Query:
        shown = self.queries.show(name)
        slots = int(shown["within_s"]) // SLOT_S
        return compiled_query(name, shown["sql"], slots, catalog(self.under_it.settings).streams)

    def truth(self, query: Query, since: int, until: int = 1 << 30) -> Counter[tuple[Any, ...]]:
        """The query alone, by nested loops over the tuples that came from its creation to its deletion."""
        inputs = [
            [row for batch, name, row in self.landed if name == stream and since <= batch < until
             and _wanted(query, stream, row)] for stream in query.streams
        ]  # fmt: skip
        found = [
            dict(zip(query.streams, rows, strict=True)) for rows in product(*inputs)
            if _near(query, rows) and _joined(query, dict(zip(query.streams, rows, strict=True)))
        ]  # fmt: skip
        if not query.aggregates:
            return Counter(
                tuple(_rounded(_value(one[c.of.stream], c.of.column)) for c in query.columns) for one in found
            )
        groups: dict[tuple[Any, ...], list[dict[str, Row]]] = {}
        for one in found:
            groups.setdefault(tuple(_value(one[of.stream], of.column) for of in query.group_by), []).append(one)
        return Counter(_aggregated(query, key, members) for key, members in groups.items())


def rows_in(query: Query, folder: str) -> Counter[tuple[Any, ...]]:
    """What the table of a deleted query has."""
    if not (Path(folder) / "_delta_log").exists():
        return Counter()
    table = DeltaTable(folder).to_pyarrow_table()
    table = total(query, table) if query.aggregates else table.drop_columns(["batch"])
    return Counter(tuple(map(_rounded, row.values())) for row in table.to_pylist())


def _rounded(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


def _value(row: Row, column: str) -> Any:
    return row.get(column)


def _near(query: Query, rows: tuple[Row, ...]) -> bool:
    slots = [int((row["t"] - EPOCH).total_seconds() // 1) // SLOT_S for row in rows]
    return max(slots) - min(slots) < query.window


def _wanted(query: Query, stream: str, row: Row) -> bool:
    alternatives = query.selections.get(stream)
    return alternatives is None or any(
        all(_value(row, column) in allowed for column, allowed in each.items()) for each in alternatives
    )


def _joined(query: Query, found: dict[str, Row]) -> bool:
    for edge in query.edges:
        left = [_value(found[edge.left.stream], column) for column in edge.left.columns]
        right = [_value(found[edge.right.stream], column) for column in edge.right.columns]
        if None in left or left != right:
            return False
    return True


def _aggregated(query: Query, key: tuple[Any, ...], members: list[dict[str, Row]]) -> tuple[Any, ...]:
    named = dict(zip(query.group_by, key, strict=True))
    return tuple(_rounded(_one(o, members) if isinstance(o, Aggregate) else named[o.of]) for o in query.outputs)


def _one(aggregate: Aggregate, members: list[dict[str, Row]]) -> Any:
    if aggregate.of is None:
        return len(members)
    values = [v for m in members if (v := _value(m[aggregate.of.stream], aggregate.of.column)) is not None]
    if aggregate.kind == "count":
        return len(values)
    if not values:
        return None
    return sum(values) / len(values) if aggregate.kind == "avg" else {"sum": sum, "min": min, "max": max}[
        aggregate.kind](values)  # fmt: skip
