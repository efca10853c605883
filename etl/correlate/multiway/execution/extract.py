"""Extract a segment's participating tuples: filtered, in event-time order, with the columns to ship."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.correlate.multiway import layout
from etl.correlate.multiway.codes import I64
from etl.correlate.multiway.query import Filter, JoinQuery

_COMPARE = {
    "=": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
}  # fmt: skip


def event_time(query: JoinQuery, stream: int, segment: pa.Table) -> I64:
    """Event times in microseconds; integers are microseconds already."""
    column = segment.column(query.streams[stream].time)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
    return np.asarray(column.to_numpy(), np.int64)


def select(query: JoinQuery, stream: int, segment: pa.Table) -> pa.Table:
    """The rows that pass the stream's filters and have no NULL in a join column, in event-time order."""
    chosen = pc.is_valid(segment.column(query.streams[stream].time))
    for one in query.streams[stream].filters:
        chosen = pc.and_(chosen, _holds(segment, one))
    for attribute in query.attributes:
        if stream in attribute.columns:
            chosen = pc.and_(chosen, pc.is_valid(segment.column(attribute.columns[stream])))
        for member, left, right in attribute.same:
            if member == stream:
                chosen = pc.and_(chosen, pc.equal(segment.column(left), segment.column(right)))
    kept = segment.filter(pc.fill_null(chosen, False))
    return kept.take(pa.array(np.argsort(event_time(query, stream, kept), kind="stable")))


def _holds(segment: pa.Table, one: Filter) -> Any:
    return pc.fill_null(_COMPARE[one.comparison](segment.column(one.column), one.value), False)


def extract(query: JoinQuery, stream: int, selected: pa.Table, first_sequence: int) -> pa.Table:
    """Selected rows in the columns to ship; `first_sequence` is the number of the first of them in the stream."""
    bit = 1 << stream
    columns: dict[str, Any] = {layout.START: event_time(query, stream, selected)}
    if layout.counted(query, bit):
        columns[layout.sequence(stream)] = np.arange(len(selected)) + first_sequence
    for attribute, kind in layout.key_types(query, bit).items():
        columns[layout.key(attribute)] = selected.column(query.attributes[attribute].columns[stream]).cast(kind)
    declared = query.streams[stream]
    for name in declared.columns:
        columns[layout.shown(declared.name, name)] = selected.column(name)
    schema = layout.schema(query, bit)
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)
