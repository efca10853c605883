"""Statistics of a batch for the planner, gathered at each segment's site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from etl.correlate.multiway import layout
from etl.correlate.multiway.codes import encode
from etl.correlate.multiway.execution.extract import select
from etl.correlate.multiway.execution.folder import to_bytes
from etl.correlate.multiway.files import filled
from etl.correlate.multiway.planning.tree import Node, Shipment
from etl.correlate.multiway.query import JoinQuery
from etl.correlate.multiway.rates import RateModel
from etl.correlate.multiway.statistics import StreamStatistics, rate_model


def observe(
    query: JoinQuery, statistics: Sequence[StreamStatistics], segments: Mapping[int, pa.Table], seconds: float
) -> None:
    """Add a batch that covers `seconds` of event time."""
    for stream, segment in segments.items():
        selected = select(query, stream, segment)
        columns = {
            n: selected.column(one.columns[stream]).cast(layout.key_type(query, n))
            for n, one in enumerate(query.attributes)
            if stream in one.columns
        }
        codes = {n: encode(column).values for n, column in columns.items()}
        sizes = {name: selected.column(name).nbytes for name in selected.column_names}
        statistics[stream].add(codes, sizes, len(selected), seconds)


def measured_model(query: JoinQuery, statistics: Sequence[StreamStatistics]) -> RateModel:
    """The rate model with the measured sizes of shipped tuples."""
    return rate_model(query, statistics, lambda streams: layout.size_bytes(query, statistics, streams))


def head_bytes(query: JoinQuery, streams: int) -> int:
    """The overhead of a file: schema, message headers and padding."""
    schema = layout.schema(query, streams)
    return len(to_bytes(pa.table([_one(field.type) for field in schema], schema=schema)))


def heads_per_s(
    query: JoinQuery, plan: Node, model: RateModel, batch_s: float, destination: str | None = None
) -> dict[Shipment, float]:
    """The overhead of files in bytes per second, by shipment: one file per non-empty batch."""
    chances = filled(plan, model, batch_s, destination)
    return {one: head_bytes(query, one.streams) / batch_s * chance for one, chance in chances.items()}


def _one(kind: pa.DataType) -> pa.Array:
    """A single small value of a type."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.array([""], kind)
    try:
        width = int(kind.bit_width)
    except ValueError:  # other types of varying length
        return pa.nulls(1, kind)
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes(max(width // 8, 1)))])
