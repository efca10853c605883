"""What is declared here and now: streams, correlations over them, and every mistake with its file and line.

    streams/*.toml, correlations/*.toml ──► Catalog: what can run, what cannot and why

The SQL is compiled here, where a mistake in it can be told with the line of the file it stands on. Compiled queries
hold functions, so tasks compile for themselves, once per process and text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from etl.columnar.expression import ExpressionRefused
from etl.contract.correlation import Correlation, LoggedStream
from etl.contract.correlation_files import AnyCorrelation, load_correlations, load_streams
from etl.contract.documents import DocumentCorrelation
from etl.contract.errors import Mistake, PipelineFileError, TomlPath
from etl.contract.load import load_all, located
from etl.contract.locate import line_of, lines_of
from etl.contract.model import Pipeline
from etl.contract.names import column
from etl.contract.types import stored_type
from etl.correlate.errors import RoutingRefused, WindowRefused
from etl.correlate.model import Window
from etl.correlate.query import Query, StreamType, compile_query
from etl.settings import Settings
from etl.streams.plan import microseconds
from etl.streams.routers import first_choice

_VIEW_SUFFIXES = ("__sum", "__count")


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything that is declared."""

    streams: tuple[LoggedStream, ...]
    correlations: tuple[Correlation, ...]
    errors: tuple[PipelineFileError, ...]
    broken: tuple[PipelineFileError, ...]  # those of them that are about correlations
    documents: tuple[DocumentCorrelation, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """Of all correlations, of SQL and of documents."""
        return frozenset([one.name for one in self.correlations] + [one.name for one in self.documents])

    def stream(self, name: str) -> LoggedStream:
        return next(one for one in self.streams if one.name == name)


def catalog(settings: Settings) -> Catalog:
    """What all files say; one broken file leaves the others alone. They are read again when one has changed."""
    folders = settings.streams, settings.correlations, settings.pipelines
    return _catalog(*folders, settings.var, tuple(_stamp(folder) for folder in folders))


def _stamp(folder: Path) -> tuple[tuple[str, int, int, int], ...]:
    seen = [(path.name, path.stat()) for path in sorted(folder.glob("*.toml"))]
    return tuple((name, one.st_ino, one.st_mtime_ns, one.st_size) for name, one in seen)


@lru_cache(maxsize=4)
def _catalog(streams_in: Path, correlations_in: Path, pipelines_in: Path, home: Path, _: object) -> Catalog:
    streams = load_streams(streams_in, home)
    declared = load_correlations(correlations_in)
    errors = [*streams.errors, *_taken_landings(streams.found, load_all(pipelines_in, home).pipelines)]
    broken = list(declared.errors)
    usable, documents = list[Correlation](), list[DocumentCorrelation]()
    for one in declared.found:
        if isinstance(one, DocumentCorrelation):
            mistake = examine_documents(one, streams.found)
            documents += [one] if mistake is None else []
        else:
            mistake = examine(one, streams.found)
            usable += [one] if mistake is None else []
        broken += [] if mistake is None else [mistake]
    return Catalog(streams.found, tuple(usable), (*errors, *broken), tuple(broken), tuple(documents))


def _taken_landings(streams: Iterable[LoggedStream], pipelines: Iterable[Pipeline]) -> Iterable[PipelineFileError]:
    """A file is consumed once: a stream cannot land where a pipeline reads."""
    for stream in streams:
        for pipeline in pipelines:
            if pipeline.stream.source.landing == stream.stream.source.landing and stream.file is not None:
                sentence = f"landing is where pipeline {pipeline.name!r} reads already; use another folder"
                mistake = Mistake(("stream", "source", "landing"), sentence)
                yield from located(stream.file, stream.file.read_text("utf-8"), [mistake])


def examine(declared: Correlation, streams: Iterable[LoggedStream]) -> PipelineFileError | None:
    """What is wrong with a correlation's SQL, window or routing; None when it can run."""
    try:
        query = compiled(declared, tuple(streams))
        for step in query.steps:
            first_choice(declared, step.condition, None, None)
        _check_results(query)
    except ExpressionRefused as error:
        return _at(declared, ("sql",), _reason(error), error.line)
    except WindowRefused as error:
        return _at(declared, ("within",), str(error))
    except RoutingRefused as error:
        return _at(declared, ("routing",), str(error))
    return None


def examine_documents(declared: DocumentCorrelation, streams: Iterable[LoggedStream]) -> PipelineFileError | None:
    """What is wrong with a correlation of documents; None when it can run."""
    over = {one.name: one.flattening is not None for one in streams}
    if over.get(declared.stream):
        return None
    usable = [name for name, documents in over.items() if documents]
    what = "has declared fields; write SQL over it" if declared.stream in over else "is not declared"
    sentence = f"stream {declared.stream!r} {what}; streams of documents are {', '.join(usable) or 'none'}"
    return _at(declared, ("documents", "stream"), sentence)


def _reason(error: ExpressionRefused) -> str:
    return f"{error.reason} (column {error.column} of that line)"


def _at(declared: AnyCorrelation, path: TomlPath, sentence: str, line_within: int = 1) -> PipelineFileError:
    if declared.file is None or not declared.file.is_file():
        return PipelineFileError(f"{declared.name}.toml", 1, sentence)
    text = declared.file.read_text("utf-8")
    line = line_of(lines_of(text), path)
    if path == ("sql",):
        opened = text.replace("\r\n", "\n").split("\n")[line - 1].rstrip()
        line += line_within - (0 if opened.endswith(('"""', "'''")) else 1)  # TOML drops the first line's end
    return PipelineFileError(declared.file.name, line, sentence)


def _check_results(query: Query) -> None:
    """Results go to tables: every column needs a type that they can hold and a name of its own."""
    names = list(query.grouping.order) if query.grouping is not None else [name for name, _ in query.output]
    for position, name in enumerate(names):
        if [*column((), name)] or name.lower() in {one.lower() for one in names[:position]}:
            sentence = f"{name!r} cannot be a column of a table: letters, digits and _ that differ in more than case"
            raise ExpressionRefused(f"{sentence}; write `… as name`", query.sql, 1, 1)
        if query.grouping is not None and name.endswith(_VIEW_SUFFIXES):
            raise ExpressionRefused(f"{name!r} ends as names of our own do; name it otherwise", query.sql, 1, 1)
    for name, kind in result_schema(query, stored=False).items():
        if stored_type(kind) is None:
            raise ExpressionRefused(f"{name!r} is {kind}, which no table can hold; cast it", query.sql, 1, 1)


def result_schema(query: Query, *, stored: bool = True) -> dict[str, pa.DataType]:
    """The columns of a query without groups; of one with groups, its keys."""
    columns = query.output if query.grouping is None else query.grouping.keys
    return {name: stored_type(one.type) if stored else one.type for name, one in columns}


def compiled(declared: Correlation, streams: Iterable[LoggedStream]) -> Query:
    """The query of a correlation; compiled once per process and text."""
    types = tuple((one.name, one.schema, one.event_time) for one in streams)
    return _compiled(declared.sql, None if declared.within is None else microseconds(declared.within), types)


@lru_cache(maxsize=512)
def _compiled(sql: str, within_us: int | None, types: tuple[tuple[str, pa.Schema, str], ...]) -> Query:
    streams: Mapping[str, StreamType] = {name: StreamType(schema, time) for name, schema, time in types}
    return compile_query(sql, streams, within=None if within_us is None else Window.within(within_us))


def stages_of(query: Query) -> int:
    """Shuffles that a query needs: one per join, one more for DISTINCT."""
    return len(query.steps) + int(query.distinct)


def streams_of(query: Query) -> frozenset[str]:
    return frozenset(source.stream for source in query.sources.values())
