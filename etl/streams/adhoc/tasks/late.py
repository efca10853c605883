"""The dispatchers' part: announce new segments to tasks; late tuples go to a table of the stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, astuple, replace

import numpy as np
import pyarrow as pa

from etl.adapters.delta.data_files import write_part
from etl.contract.words.types import TIMESTAMP
from etl.correlate.prepare import event_times
from etl.ingest.render import as_json
from etl.pipeline.tasks.wire import Message, json_message
from etl.streams.adhoc.state import LiveSegment
from etl.streams.storage.log import Segment
from etl.streams.tasks import wire
from etl.streams.tasks.plan import LATE, LATE_SCHEMA, BatchPlan, StreamPlan


def announce(
    plan: BatchPlan, stream: StreamPlan, reader: int, segment: Segment, rows: pa.RecordBatch
) -> Iterator[Message]:
    """Announce a new segment to every task that has a share of the keys."""
    queries = plan.queries
    if queries is None or stream.name not in queries.streams:
        return
    one = LiveSegment(stream.name, segment.number, plan.batch, queries.first_slot, segment.latest)
    for task in range(min(queries.shares, plan.tasks)):
        yield replace(json_message("segments", [astuple(one)]), part=task)
    if queries.first_slot is None or segment.earliest // queries.slot_us >= queries.first_slot:
        return
    late = np.flatnonzero(event_times(rows.column(stream.declared.event_time)) // queries.slot_us < queries.first_slot)
    watermark = pa.scalar(queries.first_slot * queries.slot_us, pa.int64()).cast(TIMESTAMP)
    some, n = rows.take(pa.array(late)), len(late)
    table = pa.table(
        [
            pa.repeat(pa.scalar(plan.batch, pa.int64()), n),
            pa.repeat(pa.scalar("queries"), n),
            pa.repeat(pa.scalar(stream.name), n),
            some.column(stream.declared.event_time).cast(TIMESTAMP),
            pa.repeat(watermark, n),
            as_json(some),
        ],
        schema=LATE_SCHEMA,
    )
    file = write_part(plan.places.streams / stream.name, LATE, plan.part_name("r", reader), table)
    yield wire.result("query_late", {"stream": stream.name, "late": n, "file": asdict(file)})
