"""Streams, and the truth: a query alone, by nested loops over all tuples from its creation to its deletion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import pyarrow as pa

from etl.correlate.adhoc.query.model import Aggregate, ColumnOf, Query, Stream

INT, TEXT = pa.int64(), pa.string()
STREAMS = {
    "V": Stream("V", {"vid": INT, "length": INT, "geo": TEXT, "price": pa.decimal128(10, 2)}),
    "W": Stream("W", {"usr": INT, "vid": INT, "duration": pa.float64(), "geo": TEXT}),
    "C": Stream("C", {"usr": INT, "length": INT, "emojis": INT, "vid": INT}),
    "R": Stream("R", {"usr": INT, "reaction": TEXT, "vid": INT}),
    "S": Stream("S", {"usr": INT, "score": INT, "geo": TEXT}),
}
Row = dict[str, Any]
Slot = Mapping[str, list[Row]]


def table(stream: str, rows: list[Row]) -> pa.Table:
    schema = pa.schema(list(STREAMS[stream].columns.items()))
    return pa.Table.from_pylist(rows, schema=schema)


def tables(slot: Slot) -> dict[str, pa.Table]:
    return {stream: table(stream, rows) for stream, rows in slot.items()}


def matches(query: Query, slots: Mapping[int, Slot], newest: int, created: int) -> Iterator[dict[str, Row]]:
    """Every combination that is a result of `newest`: nothing but the definition."""
    lowest = max(created, newest - query.window + 1)
    inputs = [
        [(at, row) for at in range(lowest, newest + 1) for row in slots.get(at, {}).get(stream, ()) if _wanted(query,
        stream, row)] for stream in query.streams
    ]  # fmt: skip
    for combination in product(*inputs):
        found = {stream: row for stream, (_, row) in zip(query.streams, combination, strict=True)}
        if max(at for at, _ in combination) == newest and all(_joined(each, found) for each in query.edges):
            yield found


def _wanted(query: Query, stream: str, row: Row) -> bool:
    alternatives = query.selections.get(stream)
    if alternatives is None:
        return True
    return any(all(_domain(row[c]) in allowed for c, allowed in each.items()) for each in alternatives)


def _domain(value: Any) -> Any:
    return int(value.scaleb(2)) if type(value).__name__ == "Decimal" else value


def _joined(edge: Any, found: Mapping[str, Row]) -> bool:
    left = [found[edge.left.stream][c] for c in edge.left.columns]
    right = [found[edge.right.stream][c] for c in edge.right.columns]
    return None not in left and left == right


def answer(query: Query, slots: Mapping[int, Slot], newest: int, created: int) -> Counter[tuple[Any, ...]]:
    """The rows that a query gets from one slot, as a multiset."""
    found = list(matches(query, slots, newest, created))
    if not query.aggregates:
        return Counter(tuple(each[c.of.stream][c.of.column] for c in query.columns) for each in found)
    groups: dict[tuple[Any, ...], list[dict[str, Row]]] = {}
    for each in found:
        groups.setdefault(tuple(each[of.stream][of.column] for of in query.group_by), []).append(each)
    rows = []
    for key, members in groups.items():
        named = dict(zip(query.group_by, key, strict=True))
        rows.append(tuple(_aggregate(o, members) if isinstance(o, Aggregate) else named[o.of] for o in query.outputs))
    return Counter(rows)


def _aggregate(aggregate: Aggregate, members: list[dict[str, Row]]) -> Any:
    if aggregate.of is None:
        return len(members)
    of: ColumnOf = aggregate.of
    values = [m[of.stream][of.column] for m in members if m[of.stream][of.column] is not None]
    if aggregate.kind == "count":
        return len(values)
    if not values:
        return None
    if aggregate.kind == "avg":
        return round(float(sum(values)) / len(values), 6)
    return {"sum": sum, "min": min, "max": max}[aggregate.kind](values)
