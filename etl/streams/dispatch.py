"""The task that reads, a dispatcher: slices of landed files → a segment per stream → thin tuples, routed to units.

    slice ── parse ── rules ─┬─▶ quarantine (also what breaks the bounds on event time)
                             └─▶ segment ── per correlation and alias: selection ─┬─▶ late table
                                                                                  └─▶ prepare ── route ──▶ messages

Late is what lies below the watermark *at the start of the batch*, so a repeated task splits the same. The places of
tuples count on through all streams that this dispatcher reads: (dispatcher, clock) is the global order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from etl.adapters.data_files import write_part
from etl.adapters.landing import Slice, SliceReader
from etl.columnar.labels import unlabelled
from etl.contract.types import TIMESTAMP
from etl.correlate.biclique.pipeline import Arrivals, Arrived, arrive, prepared
from etl.correlate.model import Side, places, references
from etl.correlate.query import Query
from etl.ingest.events import Events
from etl.ingest.render import as_json
from etl.pipeline import wire as pipeline_wire
from etl.pipeline.read import slice_events
from etl.pipeline.rows import quarantine_rows
from etl.pipeline.wire import Message
from etl.streams import wire
from etl.streams.declared import compiled
from etl.streams.log import write_segment
from etl.streams.plan import LATE, QUARANTINE, BatchPlan, CorrelationPlan, StreamPlan
from etl.validate.checks import Checks

LATE_SCHEMA = pa.schema(
    [
        ("batch", pa.int64()),
        ("source", pa.string()),  # the alias of the query
        ("stream", pa.string()),
        ("event_time", TIMESTAMP),
        ("watermark", TIMESTAMP),
        ("tuple", pa.string()),  # as JSON: streams have different columns
    ]
)


def dispatch(plan: BatchPlan, reader: int) -> Iterator[Message]:
    """All that one dispatcher does and tells."""
    clock, late = 0, _Late(plan, reader)
    for stream in plan.streams:
        slices = plan.share(stream, reader)
        if not slices:
            continue
        task = _Reading(plan, stream, reader)
        yield from task.read(slices)
        rows = task.accepted()
        if not rows.num_rows:
            continue
        number = stream.segments[reader]
        segment = write_segment(plan.places.store, stream.name, number, rows, stream.declared.event_time)
        yield wire.told("segment", asdict(segment))
        count = np.arange(rows.num_rows)
        arrivals = Arrivals(rows, references(number, count), places(reader, len(count), clock))
        clock += len(count)
        for index, correlation in enumerate(plan.correlations):
            yield from _routed(plan, index, correlation, stream, arrivals, late)
    yield from late.written()


class _Reading:
    """Reads one stream's share: accepted rows stay here, refused ones go to a file of the quarantine."""

    def __init__(self, plan: BatchPlan, stream: StreamPlan, reader: int) -> None:
        self._plan, self._stream, self._reader = plan, stream, reader
        self._checks = Checks.compile(stream.declared.rules, stream.declared.stream.schema, plan.now)
        self._accepted: list[pa.RecordBatch] = []
        self._refused: list[pa.Table] = []
        self._reasons: Counter[str] = Counter()

    def read(self, slices: tuple[Slice, ...]) -> Iterator[Message]:
        """Tells what it saw of every slice, then of the stream."""
        source = self._stream.declared.stream.source
        for one in slices:
            reader, lines = SliceReader(source.landing, one), 0
            for events in slice_events(self._stream.declared.stream, one, reader):
                lines += len(events)
                self._split(events, one)
            seen = {"ordinal": one.ordinal, "digest": reader.digest, "lines": lines, "changed": reader.changed}
            yield wire.told("slice", {**seen, "stream": self._stream.name})
        yield wire.told("stream", self._summary())

    def _split(self, events: Events, one: Slice) -> None:
        reasons = self._checks.add(events.batch, events.reasons)
        clean = unlabelled(reasons)
        fields = self._stream.declared.schema.names
        self._accepted.append(events.batch.select(fields).filter(pa.array(clean)))
        if clean.all():
            return
        refused, chosen = self._quarantined(events.filter(~clean), one), reasons.filter(pa.array(~clean))
        self._reasons.update(name for names in chosen.to_pylist() for name in set(names))
        self._refused.append(refused.append_column(pipeline_wire.REASONS, chosen))

    def _quarantined(self, events: Events, one: Slice) -> pa.Table:
        n = len(events)
        landed_at = datetime.fromtimestamp(one.file.modified_ns / 1e9, UTC)
        key = self._stream.declared.stream.key
        columns = {name: events.batch.column(name) for name in key}
        columns |= {
            pipeline_wire.RAW: events.raw,
            pipeline_wire.SOURCE: pa.repeat(pa.scalar(one.file.label), n),
            pipeline_wire.LINE: pa.array(events.line, pa.int64()),
            pipeline_wire.LANDED: pa.repeat(pa.scalar(landed_at, TIMESTAMP), n),
            pipeline_wire.WAITED_IN: pa.nulls(n, pa.string()),
            pipeline_wire.RELEASED_FROM: pa.nulls(n, pa.string()),
        }
        return pa.table(columns)

    def _summary(self) -> dict[str, object]:
        plan, file, quarantined = self._plan, None, 0
        if self._refused:
            rows = pa.concat_tables(self._refused)
            key = self._stream.declared.stream.key
            reasons = rows[pipeline_wire.REASONS]
            table = quarantine_rows(rows, reasons, key, plan.batch, plan.now)
            root, name = plan.places.streams / self._stream.name, plan.part_name("r", self._reader)
            file, quarantined = asdict(write_part(root, QUARANTINE, name, table)), table.num_rows
        accepted = sum(one.num_rows for one in self._accepted)
        counts = {"accepted": accepted, "quarantined": quarantined, "reasons": dict(self._reasons)}
        return {"stream": self._stream.name, "file": file, **counts}

    def accepted(self) -> pa.RecordBatch:
        fields = pa.schema([one.with_nullable(True) for one in self._stream.declared.schema])
        table = pa.Table.from_batches(self._accepted, fields).combine_chunks()
        whole = table.to_batches()
        return whole[0] if whole else pa.RecordBatch.from_pylist([], fields)


def _routed(
    plan: BatchPlan, index: int, correlation: CorrelationPlan, stream: StreamPlan, arrivals: Arrivals, late: _Late
) -> Iterator[Message]:
    """Tuples of one stream for one correlation: a stream may be there under several names."""
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
        told = {**counts, "unmatchable": ready.unmatchable, "messages": routing.messages}
        yield wire.told("arrived", {"correlation": index, "alias": alias, **told})


def _step_of(query: Query, alias: str) -> tuple[int, Side]:
    """Where an alias enters: the innermost stream on the right of the first step, any other on the left of its own."""
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
            yield wire.told("late", {"correlation": index, "file": asdict(file)})
