"""The reading task: slices of landed files or topics, files of the backlog → typed events, partitioned by key.

    slice ── blocks ── lines ── typed columns or reasons ── rules ──▶ wire rows ── by key ──▶ one message per router
                                                                └──▶ per slice: hash, lines read, whether it changed

The number of lines is counted here; routed events are counted independently in `route`, and the two must agree.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from etl.adapters.claims import lanes
from etl.adapters.kafka.copies import CopyReader
from etl.adapters.landing import Slice, is_range, is_release
from etl.adapters.ledger import BacklogFile
from etl.adapters.slice_reader import SliceReader
from etl.columnar.keys import Keys, encode, mix
from etl.contract.model import Stream
from etl.contract.words.types import TIMESTAMP
from etl.ingest.csv_lines import csv_header, split_header
from etl.ingest.drift import Observed, observe
from etl.ingest.events import Events, parse_events
from etl.ingest.lines import LineReader, Lines, of_values
from etl.ingest.parquet_rows import read_rows, refused_rows
from etl.ingest.payload import payload_hash
from etl.pipeline.input import released
from etl.pipeline.tasks import wire
from etl.pipeline.tasks.line_choice import (
    ALL_LINES,
    POISON,
    WHOLE_FILE,
    LineChoice,
    poison_events,
    refused_events,
)
from etl.pipeline.tasks.plan import BatchPlan, Places
from etl.pipeline.tasks.wire import Message
from etl.validate.checks import Checks

Reader = SliceReader | CopyReader
TOMBSTONE: Final = "tombstone"
"""The reason of a message without a value."""


def read(plan: BatchPlan, reader: int) -> Iterator[Message]:
    """The messages of one reading task: rows for the routers, then hash, lines and changes of every slice."""
    slices, backlog = plan.share(reader)
    stream = plan.pipeline.stream
    checks = Checks.compile(plan.pipeline.rules, stream.schema, plan.now)
    for one in slices:
        source = slice_reader(plan.places, one)
        lines, seen = 0, Observed()
        for events, released_from in events_of(stream, one, source, plan.lines):
            lines += len(events)
            if not is_release(one.file.name):  # lines refused earlier say nothing about the current input
                seen += observe(events, stream.fields)
            yield from _dealt(landed_rows(events, released_from, one, source, checks, stream), plan.routers)
        yield wire.json_message(
            "slice",
            {
                "ordinal": one.ordinal,
                "digest": source.digest,
                "lines": lines,
                "changed": source.changed,
                "reason": source.reason,
                "seen": seen.as_json(),
            },
        )
    for file in backlog:
        rows = _chosen_rows(waiting_rows(plan.places, stream, file.path), file, plan.lines)
        yield from _dealt(rows, plan.routers)


def slice_reader(places: Places, one: Slice) -> Reader:
    """The reader for a slice of a landed file or of a topic's copy."""
    return CopyReader(places.archive, one) if is_range(one.file.name) else SliceReader(places.landing, one)


def events_of(stream: Stream, one: Slice, source: Reader, choice: LineChoice) -> Iterator[tuple[Events, pa.Array]]:
    """The events of a slice, block by block, each with its origin in quarantine: NULL unless it was released."""
    if isinstance(source, SliceReader) and is_release(one.file.name):
        yield from released.read(b"".join(source.blocks()), stream, one.ordinal, choice)
        return
    for events in slice_events(stream, one, source, choice):
        yield events, pa.nulls(len(events), pa.string())


def slice_events(stream: Stream, one: Slice, source: Reader, choice: LineChoice = ALL_LINES) -> Iterator[Events]:
    """The events of a slice in the stream's format, block by block."""
    if isinstance(source, CopyReader):
        yield from message_events(stream, one, source, choice)
        return
    if stream.source.format == "parquet":
        yield from _parquet_events(stream, one, source, choice)
        return
    header = source.header() if stream.source.format == "csv" and one.first else b""
    at_header = stream.source.format == "csv" and not one.first
    for lines in _lines(source):
        if at_header and len(lines):
            header, lines = split_header(lines)
            at_header = False
        yield from _chosen_events(stream, one, lines, header, choice)


def _chosen_events(stream: Stream, one: Slice, lines: Lines, header: bytes, choice: LineChoice) -> Iterator[Events]:
    kept, aside = choice.split(one.ordinal, lines)
    if len(kept):
        yield parse_events(kept, stream, header)
    if aside is not None and len(aside):
        yield poison_events(aside, stream)


def message_events(stream: Stream, one: Slice, source: CopyReader, choice: LineChoice) -> Iterator[Events]:
    """The events of messages, numbered by offset. Messages without a value are refused or skipped, as declared.

    CSV in messages has no header; its values are those of the declared fields, in their order.
    """
    topic = stream.source.topic
    header = csv_header(stream)
    for records in source.records():
        value, offset = records.column("value"), records.column("offset").to_numpy()
        empty = np.asarray(value.is_null())
        yield from _chosen_events(
            stream, one, of_values(value.filter(pa.array(~empty)), offset[~empty]), header, choice
        )
        if empty.any() and (topic is None or topic.tombstones == "quarantine"):
            nothing = of_values(pa.array([b""] * int(empty.sum()), pa.binary()), offset[empty])
            gone, _ = LineChoice(choice.only).split(one.ordinal, nothing)  # messages without a value cannot be poison
            if len(gone):
                yield refused_events(gone, stream, TOMBSTONE)


def _lines(source: SliceReader) -> Iterator[Lines]:
    reader = LineReader(first_line=1)
    for block in source.blocks():
        yield reader.feed(block)
    yield reader.finish()


def _parquet_events(stream: Stream, one: Slice, source: SliceReader, choice: LineChoice) -> Iterator[Events]:
    """The rows of a whole file; nothing of one that changed while it was read."""
    for _ in source.blocks():  # hashed first, then read part by part: neither needs all of it in memory
        pass
    if choice.decodes(one.ordinal):
        rows = partial(read_rows, stream=stream, choice=partial(choice.masks, one.ordinal), aside=POISON)
        yield from source.read_again(rows)
    elif not source.changed:
        yield refused_rows(_description(one, source), np.array([WHOLE_FILE], np.int64), stream, POISON)


def _description(one: Slice, source: SliceReader) -> pa.Array:
    """What is kept of a file that is refused as one row."""
    text = json.dumps({"file": one.file.label, "bytes": one.bytes, "blake2b": source.digest}, ensure_ascii=False)
    return pa.array([text.encode()], pa.binary())


def _chosen_rows(rows: pa.Table, file: BacklogFile, choice: LineChoice) -> pa.Table:
    """Rows of a backlog file, poison refused. Facts that lack members cannot be refused: poison is left as it is."""
    kept, aside = choice.masks(file.path, np.arange(1, rows.num_rows + 1))
    if file.cause == "correction" or not aside.any():
        return rows.filter(pa.array(kept))
    reasons = [[POISON] if deadly else [] for deadly in aside.tolist()]
    place = rows.schema.get_field_index(wire.REASONS)
    refused = rows.set_column(place, rows.schema.field(place), pa.array(reasons, pa.list_(pa.string())))
    return refused.filter(pa.array(kept | aside))


def landed_rows(
    events: Events, released_from: pa.Array, one: Slice, source: Reader, checks: Checks, stream: Stream
) -> pa.Table:
    """Newly landed events as wire rows."""
    n = len(events)
    reasons = checks.add(events.batch, events.reasons)
    lo, hi = _lanes(event_keys(events.batch, stream))
    columns = [
        *events.batch.columns,
        events.raw,
        reasons,
        pa.array([one.file.label], pa.string()).take(pa.array(np.zeros(n, np.int32))),
        pa.array(np.full(n, one.ordinal, np.int32)),
        pa.array(events.line, pa.int64()),
        source.landed_at(events.line),
        pa.array(payload_hash(events.batch)),
        pa.array(lo),
        pa.array(hi),
        pa.nulls(n, pa.string()),
        pa.nulls(n, TIMESTAMP),
        released_from,
    ]
    return pa.Table.from_arrays(columns, schema=wire.wire_schema(stream))


def waiting_rows(places: Places, stream: Stream, path: str) -> pa.Table:
    """Events of a backlog file as wire rows. The router looks up in the claims which of them are still open."""
    rows = pq.read_table(places.waiting(path))
    n = rows.num_rows
    have = set(rows.column_names)
    columns = {
        wire.RAW: rows["raw"],
        wire.REASONS: pa.array([[]] * n, pa.list_(pa.string())),
        wire.SOURCE: rows["source_file"],
        wire.SLICE: pa.array(np.full(n, -1, np.int32)),
        wire.LINE: rows["line"],
        wire.LANDED: rows["landed_at"],
        wire.PAYLOAD: rows["payload_hash"],
        wire.KEY_LO: rows["key_lo"].combine_chunks().view(pa.uint64()),
        wire.KEY_HI: rows["key_hi"].combine_chunks().view(pa.uint64()),
        wire.WAITED_IN: pa.array([path], pa.string()).take(pa.array(np.zeros(n, np.int32))),
        wire.WAITING_SINCE: rows["decided_at"],
        wire.RELEASED_FROM: rows["released_from"] if "released_from" in have else pa.nulls(n, pa.string()),
    }
    schema = wire.wire_schema(stream)
    arrays = [
        columns[field.name]
        if field.name in columns
        else rows[field.name]
        if field.name in have
        else pa.nulls(n, field.type)  # a field that was declared after these events came
        for field in schema
    ]
    return pa.table(arrays, schema=schema)


def event_keys(rows: pa.RecordBatch, stream: Stream) -> Keys:
    """The keys of events; arbitrary where a part of the key is missing (such events are refused)."""
    parts = [_hashable(rows.column(name)) for name in stream.key]
    return encode(parts[0] if len(parts) == 1 else pa.StructArray.from_arrays(parts, names=list(stream.key)))


def _hashable(column: pa.Array) -> pa.Array:
    """A part of keys in a hashable type: times as numbers, anything else that is no number as text; no NULLs."""
    if pa.types.is_timestamp(column.type):
        column = column.view(pa.int64())
    elif pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    elif not pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    return column.fill_null("" if pa.types.is_string(column.type) else 0)


def _lanes(keys: Keys) -> tuple[np.ndarray, np.ndarray]:
    return lanes(keys)


def _dealt(rows: pa.Table, routers: int) -> Iterator[Message]:
    """One message of rows per router, partitioned by key hash."""
    if routers == 1:
        if rows.num_rows:
            yield wire.rows_message(rows.combine_chunks().to_batches()[0], 0)
        return
    lo, hi = (rows.column(name).to_numpy() for name in (wire.KEY_LO, wire.KEY_HI))
    part = (mix(lo ^ mix(hi + np.uint64(1))) % np.uint64(routers)).astype(np.int64)
    order = np.argsort(part, kind="stable")
    dealt = rows.take(pa.array(order)).combine_chunks()
    ends = np.searchsorted(part[order], np.arange(routers), side="right")
    start = 0
    for number, end in enumerate(ends):
        if end > start:
            yield wire.rows_message(dealt.slice(start, end - start).combine_chunks().to_batches()[0], number)
        start = int(end)
