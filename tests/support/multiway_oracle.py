"""The truth about a multi-way window join: every combination of all tuples, checked one by one."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from etl.correlate.multiway.query import Filter, JoinQuery, TimeWindow, TupleWindow

Row = dict[str, Any]
Result = tuple[Any, ...]
_FOREVER = 2**62
_COMPARE = {
    "=": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip


def nested_loop(query: JoinQuery, history: Sequence[dict[int, pa.Table]]) -> Counter[Result]:
    """All results over all batches. Tuples older than the horizon before their batch less the lateness are late."""
    kept = _in_time(query, history)
    windows = [_windows(query, stream, rows) for stream, rows in enumerate(kept)]
    found: Counter[Result] = Counter()
    for members in itertools.product(*windows):
        starts, ends = [m[0] for m in members], [m[1] for m in members]
        if max(starts) <= min(ends) and _equal(query, [m[2] for m in members]):
            found[_shown(query, [m[2] for m in members])] += 1
    return found


def shown(query: JoinQuery, table: pa.Table) -> Counter[Result]:
    """Results as the oracle gives them."""
    names = [f"{stream.name}.{column}" for stream in query.streams for column in stream.columns]
    return Counter(tuple(row[name] for name in names) for row in table.to_pylist())


def _in_time(query: JoinQuery, history: Sequence[dict[int, pa.Table]]) -> list[list[tuple[int, int, int, Row]]]:
    """Per stream, in the order of arrival: batch, the horizon before it, event time, row."""
    lateness = query.lateness.total_seconds() * 1_000_000
    kept: list[list[tuple[int, int, int, Row]]] = [[] for _ in query.streams]
    horizon = -_FOREVER
    for batch, tables in enumerate(history):
        latest = horizon
        for stream, declared in enumerate(query.streams):
            rows = [row for row in tables[stream].to_pylist() if all(_passes(row, one) for one in declared.filters)]
            rows.sort(key=lambda row: row[declared.time])
            for row in rows:
                if row[declared.time] >= horizon - lateness or horizon == -_FOREVER:
                    if not _can_join(query, stream, row):
                        continue
                    kept[stream].append((batch, horizon, row[declared.time], row))
                    latest = max(latest, row[declared.time])
        horizon = latest
    return kept


def _can_join(query: JoinQuery, stream: int, row: Row) -> bool:
    """All join columns have a value, and those that must be equal among themselves are."""
    name = query.streams[stream].name
    joined = [side.name for one in query.equalities for side in (one.left, one.right) if side.stream == name]
    same = [(left, right) for one in query.attributes for member, left, right in one.same if member == stream]
    return all(row[column] is not None for column in joined) and all(row[a] == row[b] for a, b in same)


def _passes(row: Row, one: Filter) -> bool:
    return row[one.column] is not None and _COMPARE[one.comparison](row[one.column], one.value)


def _windows(query: JoinQuery, stream: int, rows: list[tuple[int, int, int, Row]]) -> list[tuple[int, int, Row]]:
    window = query.streams[stream].window
    made = []
    for place, (_, _, time, row) in enumerate(rows):
        if isinstance(window, TimeWindow):
            end = time + window.microseconds
        else:
            assert isinstance(window, TupleWindow)
            pushing = place + window.tuples
            end = max(rows[pushing][2] - 1, rows[pushing][1], time) if pushing < len(rows) else _FOREVER
        made.append((time, end, row))
    return made


def _equal(query: JoinQuery, rows: list[Row]) -> bool:
    return all(
        rows[query.number(one.left.stream)][one.left.name] == rows[query.number(one.right.stream)][one.right.name]
        for one in query.equalities
    )


def _shown(query: JoinQuery, rows: list[Row]) -> Result:
    return tuple(rows[i][column] for i, stream in enumerate(query.streams) for column in stream.columns)
