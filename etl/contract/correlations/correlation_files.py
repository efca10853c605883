"""Reads the files of streams and correlations: values, then checks between them, then the objects.

streams/NAME.toml       ──▶ LoggedStream          correlations/NAME.toml ──▶ Correlation, or DocumentCorrelation
                                                           or SiteCorrelation
     mistakes: file, line, one sentence, as for pipelines; a broken file does not affect the others
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa

from etl.contract import check
from etl.contract.correlations.correlation import (
    IN_BOUNDS,
    Correlation,
    CorrelationDocument,
    LoggedStream,
    StreamDocument,
)
from etl.contract.correlations.documents import (
    DOCUMENT,
    EVENT_TIME,
    DocumentCorrelation,
    DocumentCorrelationFile,
    DocumentStreamFile,
    document_correlation,
    flattening,
)
from etl.contract.correlations.sites import SiteCorrelation, SiteCorrelationFile, site_correlation
from etl.contract.errors import Mistake, PipelineFileError, Refusal
from etl.contract.load import guarded, located, read
from etl.contract.model import Field, Pipeline, RangeRule, RelativeTime, Stream
from etl.contract.parsing import shape
from etl.contract.parsing.build import StreamBuilder
from etl.contract.words import names, times
from etl.contract.words.sizes import size
from etl.contract.words.types import TIMESTAMP

AnyCorrelation = Correlation | DocumentCorrelation | SiteCorrelation
T = TypeVar("T", bound=LoggedStream | AnyCorrelation)
_LENGTH = "a length of time such as '30s', '5 minutes', '24h' or '7d'"
RESERVED = frozenset(("schema", "log"))


@dataclass(frozen=True, slots=True)
class Declared(Generic[T]):
    """The valid declarations of a folder, and the mistakes in the others."""

    found: tuple[T, ...]
    errors: tuple[PipelineFileError, ...]


def load_streams(folder: Path, home: Path) -> Declared[LoggedStream]:
    """The streams of a folder. Landing folders are relative to `home`."""
    return _load(folder, lambda path: examine_stream(path, home), _shared_landing)


def load_correlations(folder: Path) -> Declared[AnyCorrelation]:
    """The correlations of a folder, their SQL unread; of SQL, of documents and over sites."""
    return _load(folder, examine_correlation, _no_conflicts)


def _load(
    folder: Path,
    examine: Callable[[Path], tuple[T | None, tuple[PipelineFileError, ...]]],
    claims: Callable[[T, Sequence[T]], Iterator[Mistake]],
) -> Declared[T]:
    found: list[T] = []
    errors: list[PipelineFileError] = []
    for path in sorted(folder.glob("*.toml")):
        one, wrong = examine(path)
        if one is not None:
            taken = [*_same_name(one, found), *claims(one, found)]
            wrong = tuple(located(path, path.read_text("utf-8"), taken)) if taken else ()
        if one is not None and not wrong:
            found.append(one)
        errors += wrong[:1]
    return Declared(tuple(found), tuple(errors))


def _same_name(one: T, others: Sequence[T]) -> Iterator[Mistake]:
    for other in others:
        if other.name == one.name:
            whose = other.file.name if other.file else other.name
            yield Mistake(("name",), f"{one.name!r} is declared by {whose} already; give one of them another name")


def _no_conflicts(_: AnyCorrelation, __: Sequence[AnyCorrelation]) -> Iterator[Mistake]:
    """No conflicts: correlations share only streams."""
    return iter(())


def _shared_landing(one: LoggedStream, others: Sequence[LoggedStream]) -> Iterator[Mistake]:
    mine = one.stream.source.landing
    for other in others:
        theirs = other.stream.source.landing
        if mine.is_relative_to(theirs) or theirs.is_relative_to(mine):
            sentence = f"landing {mine.name!r} is where stream {other.name!r} reads already; use another folder"
            yield Mistake(("stream", "source", "landing"), sentence)


# ── streams ────────────────────────────────────────────────────────────────────────────────────────────────────────


def examine_stream(path: Path, home: Path) -> tuple[LoggedStream | None, tuple[PipelineFileError, ...]]:
    """The stream of a file, or all its mistakes."""

    def examined() -> tuple[LoggedStream | None, tuple[PipelineFileError, ...]]:
        text, declared = read(path)
        stream, mistakes = _stream_of(declared, path, home)
        errors = located(path, text, mistakes)
        return (None, tuple(errors)) if errors else (stream, ())

    return guarded(path, examined)


def _stream_of(declared: dict[str, Any], path: Path, home: Path) -> tuple[LoggedStream | None, list[Mistake]]:
    """A stream of documents, if the file has the table `[documents]`, or one of declared fields."""
    if "documents" in declared:
        documents, mistakes = shape.shaped(DocumentStreamFile, "a stream of documents", declared)
        return (None, mistakes) if documents is None else _document_stream(documents, path, home)
    document, mistakes = shape.shaped(StreamDocument, "a stream", declared)
    return (None, mistakes) if document is None else _stream(document, path, home)


def _document_stream(file: DocumentStreamFile, path: Path, home: Path) -> tuple[LoggedStream, list[Mistake]]:
    """Its log has fixed columns: the event time, and the original document."""
    name = file.name if file.name is not None else path.stem
    builder = StreamBuilder({}, {}, home)
    fields = Field(EVENT_TIME, TIMESTAMP), Field(DOCUMENT, pa.string())
    stream = Stream(builder.source(file.stream.source), fields, (), EVENT_TIME)
    flat = None
    with builder.collecting():
        flat = flattening(file.documents)
    bounds = _bounds(builder, EVENT_TIME, file.past, file.future)
    builder.mistakes += names.plain(("name",), "a stream", name, RESERVED)
    return LoggedStream(name, stream, (bounds,), path, flat), builder.mistakes


def _bounds(builder: StreamBuilder, event_time: str, past: str | None, future: str) -> RangeRule:
    """The rule that refuses event times too far from now."""
    longest = None if past is None else builder.duration("past", past)
    earliest = None if longest is None else RelativeTime(-longest)
    return RangeRule(IN_BOUNDS, event_time, earliest, RelativeTime(builder.duration("future", future)))


def _stream(document: StreamDocument, path: Path, home: Path) -> tuple[LoggedStream, list[Mistake]]:
    name = document.name if document.name is not None else path.stem
    table = document.stream
    builder = StreamBuilder(table.fields, document.rules, home)
    stream = Stream(builder.source(table.source), builder.fields(), tuple(table.key), table.event_time)
    rules = tuple(builder.rules(stream))
    bounds = _bounds(builder, table.event_time, document.past, document.future)
    if not builder.mistakes:
        pipeline = Pipeline(name, stream, rules)  # the same fields and rules as a pipeline's stream
        builder.mistakes += [*check.alike(pipeline, builder.rule_paths), *_event_time(stream)]
        builder.mistakes += names.plain(("name",), "a stream", name, names.RESERVED_STREAMS)
    return LoggedStream(name, stream, (*rules, bounds), path, site=document.site), builder.mistakes


def _event_time(stream: Stream) -> Iterator[Mistake]:
    for one in stream.fields:
        if one.name == stream.event_time and one.nullable:
            yield Mistake(
                ("stream", "event_time"), f"event_time {one.name!r} is optional; windows need it, so make it required"
            )


# ── correlations ───────────────────────────────────────────────────────────────────────────────────────────────────


def examine_correlation(path: Path) -> tuple[AnyCorrelation | None, tuple[PipelineFileError, ...]]:
    """The correlation of a file, or all its mistakes."""

    def examined() -> tuple[AnyCorrelation | None, tuple[PipelineFileError, ...]]:
        text, declared = read(path)
        correlation = None
        try:
            correlation, mistakes = _correlation_of(declared, path)
            if correlation is not None:
                mistakes = [*names.plain(("name",), "a correlation", correlation.name, RESERVED)]
        except Refusal as refusal:
            mistakes = [refusal.mistake]
        errors = located(path, text, mistakes)
        return (None, tuple(errors)) if errors else (correlation, ())

    return guarded(path, examined)


def _correlation_of(declared: dict[str, Any], path: Path) -> tuple[AnyCorrelation | None, list[Mistake]]:
    """A correlation of documents or over sites, if the file has such a table, or plain SQL."""
    if "documents" in declared:
        documents, mistakes = shape.shaped(DocumentCorrelationFile, "a correlation of documents", declared)
        return (None, mistakes) if documents is None else (document_correlation(documents, path), [])
    if "sites" in declared:
        over, mistakes = shape.shaped(SiteCorrelationFile, "a correlation over sites", declared)
        return (None, mistakes) if over is None else (site_correlation(over, path), [])
    document, mistakes = shape.shaped(CorrelationDocument, "a correlation", declared)
    return (None, mistakes) if document is None else (_correlation(document, path), [])


def _correlation(document: CorrelationDocument, path: Path) -> Correlation:
    return Correlation(
        name=document.name if document.name is not None else path.stem,
        sql=document.sql,
        within=_length("within", document.within),
        lateness=_lateness(document.lateness),
        routing=document.routing,
        units=_both("units", document.units),
        subgroups=_subgroups(document),
        period=_length("period", document.period),
        capacity_bytes=size(("capacity",), document.capacity),
        elastic=document.elastic,
        file=path,
    )


def _length(key: str, given: str | None) -> timedelta | None:
    if given is None:
        return None
    length = times.duration(given)
    if not length:
        raise Refusal((key,), f"{key} is {given!r}, but must be {_LENGTH}, and positive")
    return length


def _lateness(given: str) -> timedelta:
    length = times.duration(given)
    if length is None:
        raise Refusal(("lateness",), f"lateness is {given!r}, but must be {_LENGTH}")
    return length


def _both(key: str, given: int | list[int]) -> tuple[int, int]:
    if isinstance(given, int):
        return given, given
    if len(given) != 2:
        raise Refusal((key,), f"{key} is a list of {len(given)}, but must be a number or [left, right]")
    return given[0], given[1]


def _subgroups(document: CorrelationDocument) -> tuple[int, int] | None:
    if document.subgroups is not None and document.routing != "contrand":
        raise Refusal(("subgroups",), f"routing {document.routing!r} has no subgroups; only contrand has")
    if document.subgroups is None and document.routing == "contrand":
        raise Refusal(("routing",), "routing 'contrand' needs subgroups = [left, right]; or let routing be 'auto'")
    if document.subgroups is None:
        return None
    subgroups, units = _both("subgroups", document.subgroups), _both("units", document.units)
    if subgroups[0] > units[0] or subgroups[1] > units[1]:
        raise Refusal(
            ("subgroups",), f"subgroups are {list(subgroups)} of {list(units)} units; a side has at most one per unit"
        )
    return subgroups
