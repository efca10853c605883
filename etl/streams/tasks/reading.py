"""Read one stream's share of a batch: accepted rows stay in memory, refused ones go to a file of the quarantine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime

import pyarrow as pa

from etl.adapters.delta.data_files import write_part
from etl.adapters.landing import Slice
from etl.adapters.slice_reader import SliceReader
from etl.columnar.labels import unlabelled
from etl.contract.words.types import TIMESTAMP
from etl.ingest.events import Events
from etl.ingest.lines import Mask
from etl.pipeline.tasks import wire as pipeline_wire
from etl.pipeline.tasks.read import events_of
from etl.pipeline.tasks.rows import quarantine_rows
from etl.pipeline.tasks.wire import Message
from etl.streams.tasks import wire
from etl.streams.tasks.plan import QUARANTINE, BatchPlan, StreamPlan
from etl.validate.checks import Checks


class Reading:
    """Reads one stream's share."""

    def __init__(self, plan: BatchPlan, stream: StreamPlan, reader: int) -> None:
        self._plan, self._stream, self._reader = plan, stream, reader
        self._checks = Checks.compile(stream.declared.rules, stream.declared.stream.schema, plan.now)
        self._accepted: list[pa.RecordBatch] = []
        self._refused: list[pa.Table] = []
        self._reasons: Counter[str] = Counter()

    def read(self, slices: tuple[Slice, ...]) -> Iterator[Message]:
        """Yields the figures of every slice, then of the stream."""
        source = self._stream.declared.stream.source
        for one in slices:
            reader = SliceReader(source.landing, one)
            lines = self.read_slice(one, reader)
            seen = {"ordinal": one.ordinal, "digest": reader.digest, "lines": lines}
            state = {"changed": reader.changed, "reason": reader.reason}
            yield wire.result("slice", {**seen, **state, "stream": self._stream.name})
        yield wire.result("stream", self._summary())

    def read_slice(self, one: Slice, reader: SliceReader) -> int:
        """Read one slice; returns its number of lines."""
        lines = 0
        for events, released_from in events_of(self._stream.declared.stream, one, reader, self._plan.lines):
            lines += len(events)
            self.split(events, one, released_from)
        return lines

    def split(self, events: Events, one: Slice, released_from: pa.Array) -> Mask:
        """Keep accepted events, and refused ones for the quarantine; returns the mask of accepted ones."""
        reasons = self._checks.add(events.batch, events.reasons)
        clean = unlabelled(reasons)
        fields = self._stream.declared.schema.names
        self._accepted.append(events.batch.select(fields).filter(pa.array(clean)))
        if clean.all():
            return clean
        dirty = pa.array(~clean)
        refused, chosen = self._quarantined(events.filter(~clean), one), reasons.filter(dirty)
        refused = refused.append_column(pipeline_wire.RELEASED_FROM, released_from.filter(dirty))
        self._reasons.update(name for names in chosen.to_pylist() for name in set(names))
        self._refused.append(refused.append_column(pipeline_wire.REASONS, chosen))
        return clean

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
