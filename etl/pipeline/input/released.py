"""Files of released lines: refused lines that land again, each with its place in quarantine.

    {"from": "12-3", "header": null, "raw": "<base64>"}        one line of JSON for every refused line, any format

The bytes are those that were refused. A CSV line carries its header, which other formats ignore; a Parquet row was kept
as JSON and is read as JSON. A line in another format is read as an ordinary line: a foreign file may have a name like
ours, so what one costs to read is bounded, too.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from etl.adapters.verdicts import NotARow, RowId
from etl.contract.model import Format, Stream
from etl.ingest.events import Events, parse_events
from etl.ingest.lines import LONGEST_LINE, Lines
from etl.ingest.texts import read_only
from etl.pipeline.tasks.line_choice import ALL_LINES, LineChoice, poison_events

_HEADERS_MOST = 256
"""Headers that are told apart in a slice; each is parsed by itself. Files of one source have one, or a few."""


@dataclass(frozen=True, slots=True)
class ReleasedLine:
    """A refused line that lands again. `origin` is None when the file's line is not in our format."""

    origin: RowId | None
    raw: bytes
    header: str | None = None


def encode(lines: Iterable[ReleasedLine]) -> bytes:
    """The content of a file."""
    return b"".join(_encoded(line) for line in lines)


def _encoded(line: ReleasedLine) -> bytes:
    value = {"from": str(line.origin), "header": line.header, "raw": base64.b64encode(line.raw).decode()}
    return json.dumps(value).encode() + b"\n"


def decode(content: bytes) -> list[tuple[int, ReleasedLine]]:
    """The lines of a file with their numbers."""
    return [(n, _decoded(line)) for n, line in enumerate(content.split(b"\n"), start=1) if line.strip()]


def _decoded(line: bytes) -> ReleasedLine:
    try:
        value = json.loads(line)
        header = value["header"]
        if header is not None:
            header.encode()  # raises for what is no text
        return ReleasedLine(RowId.parse(value["from"]), base64.b64decode(value["raw"], validate=True), header)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, binascii.Error, NotARow):
        return ReleasedLine(None, line[:LONGEST_LINE])


def read(
    content: bytes, stream: Stream, ordinal: int = 0, choice: LineChoice = ALL_LINES
) -> Iterator[tuple[Events, pa.Array]]:
    """The events of a file, or of a slice of one, and the refused line that each was."""
    for block in blocks(content, stream.source.format):
        kept, aside = choice.split(ordinal, block.lines)
        if len(kept):
            events = parse_events(kept, _as_text(stream), block.header)
            yield events, block.origins(events)
        if aside is not None and len(aside):
            events = poison_events(aside, stream)
            yield events, block.origins(events)


@dataclass(frozen=True, slots=True)
class Block:
    """Released lines under one header, numbered as in their file."""

    header: bytes
    lines: Lines
    by_number: Mapping[int, ReleasedLine]

    def origins(self, events: Events) -> pa.Array:
        """The refused line that each event was."""
        origins = [self.by_number[number].origin for number in events.line.tolist()]
        return pa.array([None if origin is None else str(origin) for origin in origins], pa.string())


def blocks(content: bytes, format: Format) -> Iterator[Block]:
    """The lines of a file, or of a slice of one, as they were before they were refused.

    Lines under more headers than are told apart have none: they are refused, and may be released again.
    """
    by_header: dict[str, dict[int, ReleasedLine]] = {}
    for number, line in decode(content):
        header = (line.header or "") if format == "csv" else ""
        if header not in by_header and len(by_header) >= _HEADERS_MOST:
            header = ""
        by_header.setdefault(header, {})[number] = line
    for header, found in by_header.items():
        yield Block(header.encode(), _lines(found), found)


def _lines(numbered: Mapping[int, ReleasedLine]) -> Lines:
    raws = [line.raw for line in numbered.values()]
    end = np.cumsum([len(raw) + 1 for raw in raws], dtype=np.int32) - np.int32(1)
    start = end - np.array([len(raw) for raw in raws], np.int32)
    data = read_only(np.frombuffer(b"\n".join(raws) + b"\n", np.uint8))
    too_long = np.array([len(raw) > LONGEST_LINE for raw in raws], np.bool_)
    return Lines(data, start, end, np.array(list(numbered), np.int64), too_long)


def _as_text(stream: Stream) -> Stream:
    """The stream in the format that refused lines were kept in."""
    if stream.source.format != "parquet":
        return stream
    return replace(stream, source=replace(stream.source, format="jsonl"))
