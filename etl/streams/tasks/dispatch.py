"""The reading task, a dispatcher: slices of landed files → a segment per stream → thin tuples, routed to units.

    slice ── parse ── rules ─┬─▶ quarantine (also for event times out of bounds)
                             └─▶ segment ── per correlation and alias: selection ─┬─▶ late table
                                                                                  └─▶ prepare ── route ──▶ messages
                             of a stream of documents: assigned to partitions in `etl.streams.documents.assign`

A tuple is late if it is below the watermark *at the start of the batch*, so a retried task splits identically. Tuples
are numbered across all streams that this dispatcher reads: (dispatcher, clock) is the global order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import numpy as np
import pyarrow as pa

from etl.adapters.delta.data_files import write_part
from etl.contract.words.types import TIMESTAMP
from etl.correlate.biclique.pipeline import Arrivals, Arrived, arrive, prepared
from etl.correlate.model import Side, places, references
from etl.correlate.query.compile import Query
from etl.ingest.render import as_json
from etl.pipeline.tasks.wire import Message
from etl.streams.adhoc.tasks.late import announce
from etl.streams.declared import compiled
from etl.streams.documents.assign import assign_all, assigned_before
from etl.streams.documents.reading import DocumentReading, reading
from etl.streams.storage.log import write_segment
from etl.streams.tasks import wire
from etl.streams.tasks.plan import LATE, LATE_SCHEMA, BatchPlan, CorrelationPlan, StreamPlan


def dispatch(plan: BatchPlan, reader: int) -> Iterator[Message]:
    """Run one dispatcher; yields its messages."""
    clock, late = 0, _Late(plan, reader)
    for stream in plan.streams:
        slices = plan.share(stream, reader)
        if not slices:
            continue
        task = reading(plan, stream, reader)
        yield from task.read(slices)
        rows = task.accepted()
        if not rows.num_rows:
            continue
        number = stream.segments[reader]
        segment = write_segment(plan.places.store, stream.name, number, rows, stream.declared.event_time)
        yield wire.result("segment", asdict(segment))
        yield from announce(plan, stream, reader, segment, rows)
        count = np.arange(rows.num_rows)
        arrivals = Arrivals(rows, references(number, count), places(reader, len(count), clock))
        clock += len(count)
        for index, correlation in enumerate(plan.correlations):
            yield from _routed(plan, index, correlation, stream, arrivals, late)
        if isinstance(task, DocumentReading):
            yield from assign_all(plan, stream, reader, rows, task.documents(number))
    yield from assigned_before(plan, reader)
    yield from late.written()


def _routed(
    plan: BatchPlan, index: int, correlation: CorrelationPlan, stream: StreamPlan, arrivals: Arrivals, late: _Late
) -> Iterator[Message]:
    """Tuples of one stream for one correlation, in which a stream may have several aliases."""
    query = compiled(correlation.declared, plan.declared_streams)
    for alias, source in query.sources.items():
        if source.stream != stream.name:
            continue
        watermark = correlation.state.watermark(alias, correlation.lateness_us)
        arrived = arrive(query, alias, arrivals, watermark.value)
        late.add(index, alias, stream, arrivals, arrived, int(watermark.value))
        number, side = _step_of(query, alias)
        ready = prepared(query.steps[number], side, arrived.rows, arrived.tuples)
        routing = correlation.state.routers[number].route(side, ready.tuples)
        yield from wire.deliveries(plan, index, number, side, ready.tuples, routing)
        counts = {"tuples": arrivals.batch.num_rows, "selected": arrived.selected, "late": len(arrived.late)}
        figures = {**counts, "unmatchable": ready.unmatchable, "messages": routing.messages}
        yield wire.result("arrived", {"correlation": index, "alias": alias, **figures})


def _step_of(query: Query, alias: str) -> tuple[int, Side]:
    """The step and side of an alias: the innermost stream is right in the first step, others are left in their own."""
    for number, step in enumerate(query.steps):
        if step.left == alias:
            return number, "left"
    return 0, "right"


class _Late:
    """Late tuples of all correlations, one file each."""

    def __init__(self, plan: BatchPlan, reader: int) -> None:
        self._plan, self._reader = plan, reader
        self._rows: dict[int, list[pa.Table]] = {}

    def add(
        self, index: int, alias: str, stream: StreamPlan, arrivals: Arrivals, arrived: Arrived, watermark: int
    ) -> None:
        n = len(arrived.late)
        if not n:
            return
        first = arrivals.refs[0]  # rows of a segment have consecutive references
        rows = arrivals.batch.take(pa.array(arrived.late[:, 0] - first))
        table = pa.table(
            [
                pa.repeat(pa.scalar(self._plan.batch, pa.int64()), n),
                pa.repeat(pa.scalar(alias), n),
                pa.repeat(pa.scalar(stream.name), n),
                rows.column(stream.declared.event_time).cast(TIMESTAMP),
                pa.repeat(pa.scalar(watermark, pa.int64()).cast(TIMESTAMP), n),
                as_json(rows),
            ],
            schema=LATE_SCHEMA,
        )
        self._rows.setdefault(index, []).append(table)

    def written(self) -> Iterator[Message]:
        plan = self._plan
        for index, tables in self._rows.items():
            root = plan.places.correlations / plan.correlations[index].name
            file = write_part(root, LATE, plan.part_name("r", self._reader), pa.concat_tables(tables))
            yield wire.result("late", {"correlation": index, "file": asdict(file)})
