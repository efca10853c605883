"""Statistics of a batch: what the planner learns from each stream's segment, gathered where the segment is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from etl.correlate.multiway import layout
from etl.correlate.multiway.codes import encode
from etl.correlate.multiway.execution.extract import select
from etl.correlate.multiway.execution.folder import to_bytes
from etl.correlate.multiway.query import JoinQuery
from etl.correlate.multiway.rates import RateModel
from etl.correlate.multiway.statistics import StreamStatistics, rate_model


def observe(
    query: JoinQuery, statistics: Sequence[StreamStatistics], segments: Mapping[int, pa.Table], seconds: float
) -> None:
    """Adds a batch that covers `seconds` of event time."""
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
    """The rate model with the sizes of the tuples that would be shipped."""
    return rate_model(query, statistics, lambda streams: layout.size_bytes(query, statistics, streams))


def head_bytes(query: JoinQuery, streams: int) -> int:
    """What a file takes besides its tuples: schema, message heads and padding."""
    row = pa.table([pa.nulls(1, one.type).fill_null(_some(one.type)) for one in layout.schema(query, streams)],
                   schema=layout.schema(query, streams))  # fmt: skip
    return len(to_bytes(row))


def _some(kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(0).cast(kind) if not pa.types.is_string(kind) else pa.scalar("")
