"""Parse lines of a stream of documents ──► event time and document, or the reason for refusing the line.

    reason               the line
    line_too_long        is longer than any line may be
    not_json, not_utf8,  … as `etl.correlate.documents.parse` says: also a key twice, NaN, NUL, numbers beyond 64 bits,
                         too large, too deep, too many pairs
    event_time_missing   has nothing at the path of the event time, or null
    event_time_invalid   has something there that is no time

Documents are flattened while they are read, once for all correlations over the stream.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from etl.adapters.landing import Slice, is_release
from etl.adapters.slice_reader import SliceReader
from etl.columnar.labels import label_lists
from etl.contract.correlations.documents import DOCUMENT, EVENT_TIME, Flattening, TimeUnit
from etl.contract.model import Stream
from etl.contract.words.types import TIMESTAMP
from etl.correlate.documents.flatten import DocumentEncoder, FlattenOptions
from etl.correlate.documents.model import Documents
from etl.correlate.documents.parse import parse_strictly
from etl.ingest.events import EXTRA, Events
from etl.ingest.lines import LineReader, Lines, Mask
from etl.pipeline.input import released
from etl.pipeline.tasks.line_choice import ALL_LINES, LineChoice, poison_events

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PER_UNIT: dict[TimeUnit, int] = {"s": 1_000_000, "ms": 1_000, "us": 1}
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999  # the years 1 to 9999
_STEP = re.compile(r"((?:[^.\\]|\\.)*)(\.|$)")
MISSING, INVALID = "event_time_missing", "event_time_invalid"


@dataclass(frozen=True, slots=True)
class DocumentEvents:
    """Lines as events, and the documents among them; ids are positions in `events`."""

    events: Events
    documents: Documents
    released_from: pa.Array  # the refused line that each was; NULL unless it was released


def options_of(flattening: Flattening) -> FlattenOptions:
    """The kernel's options; the event time never joins."""
    return FlattenOptions(
        arrays=flattening.arrays,
        nulls=flattening.nulls,
        ignore=flattening.ignore | {flattening.event_time},
        max_bytes=flattening.max_bytes,
        max_depth=flattening.max_depth,
        max_pairs=flattening.max_pairs,
    )


@dataclass(frozen=True, slots=True)
class DocumentReader:
    """Reads slices of one stream of documents."""

    stream: Stream
    encoder: DocumentEncoder
    times: EventTimes
    choice: LineChoice = ALL_LINES

    @classmethod
    def of(cls, stream: Stream, flattening: Flattening, choice: LineChoice = ALL_LINES) -> DocumentReader:
        return cls(stream, DocumentEncoder(options_of(flattening)), EventTimes(flattening), choice)

    def read(self, one: Slice, source: SliceReader) -> Iterator[DocumentEvents]:
        """The documents of a slice, block by block."""
        if is_release(one.file.name):
            for block in released.blocks(b"".join(source.blocks()), self.stream.source.format):
                for found in self._split(one, block.lines):
                    yield replace(found, released_from=block.origins(found.events))
            return
        reader = LineReader(first_line=1)
        for content in source.blocks():
            yield from self._split(one, reader.feed(content))
        yield from self._split(one, reader.finish())

    def _split(self, one: Slice, lines: Lines) -> Iterator[DocumentEvents]:
        kept, aside = self.choice.split(one.ordinal, lines)
        yield documents_of_lines(kept, self.encoder, self.times)
        if aside is not None and len(aside):
            events, nothing = poison_events(aside, self.stream), self.encoder.encode([], np.zeros(0, np.int64))
            yield DocumentEvents(events, nothing.documents, pa.nulls(len(events), pa.string()))


def documents_of_lines(lines: Lines, encoder: DocumentEncoder, at: EventTimes) -> DocumentEvents:
    """One row per line, in the order of the lines."""
    raw = lines.raw
    texts: list[bytes] = raw.to_pylist()
    whole = np.flatnonzero(~lines.too_long)
    encoded = encoder.encode([texts[row] for row in whole.tolist()], whole)
    reasons: dict[str, list[int]] = {"line_too_long": np.flatnonzero(lines.too_long).tolist()}
    for one in encoded.rejected:
        reasons.setdefault(one.reason, []).append(one.id)
    times: list[int | None] = [None] * len(texts)
    for row in encoded.documents.ids.tolist():
        found = at.of(texts[row])
        if isinstance(found, str):
            reasons.setdefault(found, []).append(row)
        else:
            times[row] = found
    readable = [text if time is not None else None for text, time in zip(texts, times, strict=True)]
    batch = pa.record_batch(
        {
            EVENT_TIME: pa.array(times, pa.int64()).cast(TIMESTAMP),
            DOCUMENT: pa.array(readable, pa.binary()).cast(pa.string()),
            EXTRA: pa.nulls(len(texts), pa.string()),
        }
    )
    labels = [(name, _mask(rows, len(texts))) for name, rows in reasons.items() if rows]
    events = Events(batch, raw, lines.number, label_lists(labels, len(texts)))
    return DocumentEvents(events, encoded.documents, pa.nulls(len(events), pa.string()))


def _mask(rows: list[int], count: int) -> Mask:
    mask = np.zeros(count, np.bool_)
    mask[rows] = True
    return mask


class EventTimes:
    """The event time of documents, at a path: a number in a unit, or ISO 8601 text."""

    def __init__(self, flattening: Flattening) -> None:
        self._names = _names(flattening.event_time)
        self._per_unit = _PER_UNIT[flattening.unit]

    def of(self, line: bytes) -> int | str:
        """Microseconds since 1970, or the reason why there is none."""
        try:
            value: Any = orjson.loads(line)
        except orjson.JSONDecodeError:  # it is a document, so the definition can read it
            value = parse_strictly(line)
        for name in self._names:
            value = value.get(name) if isinstance(value, dict) else None
        if value is None:
            return MISSING
        found = self._microseconds(value)
        return INVALID if found is None or not _FIRST <= found <= _LAST else found

    def _microseconds(self, value: Any) -> int | None:
        if isinstance(value, bool):
            return None
        if isinstance(value, int):
            return value * self._per_unit
        if isinstance(value, float):
            found = value * self._per_unit
            return round(found) if _FIRST <= found <= _LAST else None  # before rounding: it may be infinite
        return _moment(value) if isinstance(value, str) else None


def _moment(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
        apart = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)) - _EPOCH
    except (ValueError, OverflowError):
        return None
    return apart.days * 86_400_000_000 + apart.seconds * 1_000_000 + apart.microseconds


def _names(path: str) -> tuple[str, ...]:
    """The names on a path; `\\` escapes a character."""
    found, position = [], 0
    while position <= len(path):
        step = _STEP.match(path, position)
        assert step is not None, "any text begins with a step"
        found.append(re.sub(r"\\(.)", r"\1", step[1]))
        position = step.end() + (0 if step[2] else 1)
    return tuple(found)
