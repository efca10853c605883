"""The declarations: streams, correlations over them, and every mistake with its file and line.

    sites.toml, streams/*.toml, correlations/*.toml ──► Catalog: valid declarations, and errors of the others

The SQL is compiled here, where an error can be reported with file and line. Compiled queries hold functions, which
cannot be pickled, so tasks compile them again, once per process and text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path

import pyarrow as pa

from etl.columnar.expression import ExpressionRefused
from etl.contract.correlations.correlation import Correlation, LoggedStream
from etl.contract.correlations.correlation_files import AnyCorrelation, Declared, load_correlations, load_streams
from etl.contract.correlations.documents import DocumentCorrelation
from etl.contract.correlations.sites import DeclaredSites, SiteCorrelation, load_sites
from etl.contract.errors import Mistake, PipelineFileError, Refusal, TomlPath
from etl.contract.load import guarded, load_all, located
from etl.contract.model import Pipeline
from etl.contract.parsing.locate import line_of, lines_of
from etl.contract.words.names import column
from etl.contract.words.types import stored_type
from etl.correlate.errors import RoutingRefused, WindowRefused
from etl.correlate.model import Window
from etl.correlate.multiway.errors import RootNotReachable, UnknownName, WindowNotPositive
from etl.correlate.multiway.execution.folder import SiteFolder
from etl.correlate.multiway.query import Site
from etl.correlate.query.compile import Query, StreamType, compile_query
from etl.errors import TerminalError
from etl.settings import Settings
from etl.streams.sites.query import site_query
from etl.streams.state.routers import first_choice
from etl.streams.tasks.plan import microseconds

_VIEW_SUFFIXES = ("__sum", "__count")


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything that is declared."""

    streams: tuple[LoggedStream, ...]
    correlations: tuple[Correlation, ...]
    errors: tuple[PipelineFileError, ...]
    broken: tuple[PipelineFileError, ...]  # the errors about correlations
    documents: tuple[DocumentCorrelation, ...] = ()
    over_sites: tuple[SiteCorrelation, ...] = ()
    sites: DeclaredSites = field(default_factory=DeclaredSites)

    @property
    def names(self) -> frozenset[str]:
        """The names of all correlations: of SQL, of documents and over sites."""
        every: list[AnyCorrelation] = [*self.correlations, *self.documents, *self.over_sites]
        return frozenset(one.name for one in every)

    def segments_elsewhere(self) -> tuple[tuple[str, str], ...]:
        """Folders of the stream log at the roots of sites: those of the sites' streams."""
        roots = {one.name: one.root for one in self.sites.found}
        return tuple(
            (f"segments/{one.name}/", f"{roots[one.site]}/log") for one in self.streams if one.site is not None
        )  # fmt: skip

    @property
    def used(self) -> frozenset[str]:
        """Streams that a correlation reads. Others are logged too: ad-hoc queries may come at any time."""
        joined = [streams_of(compiled(one, self.streams)) for one in self.correlations]
        at_sites = [one.name for one in self.streams if one.site is not None and self.over_sites]
        return frozenset().union(*joined, [one.stream for one in self.documents], at_sites)

    def stream(self, name: str) -> LoggedStream:
        return next(one for one in self.streams if one.name == name)


def catalog(settings: Settings) -> Catalog:
    """Read all files; a broken file does not affect the others. Cached until a file changes."""
    folders = settings.streams, settings.correlations, settings.pipelines
    stamps = tuple(_stamp(folder) for folder in folders), _stamp(settings.sites.parent, settings.sites.name)
    return _catalog(*folders, settings.sites, settings.home, settings.var, stamps)


def _stamp(folder: Path, files: str = "*.toml") -> tuple[tuple[str, int, int, int], ...]:
    seen = [(path.name, path.stat()) for path in sorted(folder.glob(files))]
    return tuple((name, one.st_ino, one.st_mtime_ns, one.st_size) for name, one in seen)


@lru_cache(maxsize=4)
def _catalog(
    streams_in: Path, correlations_in: Path, pipelines_in: Path, sites_in: Path, root: Path, home: Path, _: object
) -> Catalog:
    sites = _with_roots(load_sites(sites_in), root)
    streams = _at_known_sites(load_streams(streams_in, home), sites)
    declared = load_correlations(correlations_in)
    errors = [*sites.errors, *streams.errors, *_taken_landings(streams.found, load_all(pipelines_in, home).pipelines)]
    broken = list(declared.errors)
    usable, documents, over_sites = list[Correlation](), list[DocumentCorrelation](), list[SiteCorrelation]()
    for one in declared.found:
        if isinstance(one, DocumentCorrelation):
            mistake = _guarded(one, partial(examine_documents, one, streams.found))
            documents += [one] if mistake is None else []
        elif isinstance(one, SiteCorrelation):
            mistake = _guarded(one, partial(examine_over_sites, one, streams.found, sites))
            over_sites += [one] if mistake is None else []
        else:
            mistake = _guarded(one, partial(examine, one, streams.found))
            usable += [one] if mistake is None else []
        broken += [] if mistake is None else [mistake]
    return Catalog(
        streams.found, tuple(usable), (*errors, *broken), tuple(broken), tuple(documents), tuple(over_sites), sites
    )  # fmt: skip


def _guarded(declared: AnyCorrelation, examined: Callable[[], PipelineFileError | None]) -> PipelineFileError | None:
    """The mistake of a correlation. Any error is a mistake of its file, so that the others can still be used."""
    file = declared.file or Path(f"{declared.name}.toml")
    found, errors = guarded(file, lambda: (examined(), ()))
    return errors[0] if errors else found


def _with_roots(sites: DeclaredSites, home: Path) -> DeclaredSites:
    """Resolve the sites' folders relative to the home, like all others."""
    found = [one if "://" in one.root else replace(one, root=str(home / one.root)) for one in sites.found]
    return replace(sites, found=tuple(found))


def _at_known_sites(streams: Declared[LoggedStream], sites: DeclaredSites) -> Declared[LoggedStream]:
    """Streams whose site is declared; the others are mistakes."""
    found, errors = list[LoggedStream](), list(streams.errors)
    for one in streams.found:
        if one.site is None or one.site in sites.names:
            found.append(one)
        elif one.file is not None:
            listed = ", ".join(sites.names) or "none"
            sentence = f"site {one.site!r} is not declared; there are {listed} in sites.toml"
            errors += located(one.file, one.file.read_text("utf-8"), [Mistake(("site",), sentence)])
    return Declared(tuple(found), tuple(errors))


def _taken_landings(streams: Iterable[LoggedStream], pipelines: Iterable[Pipeline]) -> Iterable[PipelineFileError]:
    """A file is consumed once: a stream cannot land where a pipeline reads."""
    for stream in streams:
        for pipeline in pipelines:
            if pipeline.stream.source.landing == stream.stream.source.landing and stream.file is not None:
                sentence = f"landing is where pipeline {pipeline.name!r} reads already; use another folder"
                mistake = Mistake(("stream", "source", "landing"), sentence)
                yield from located(stream.file, stream.file.read_text("utf-8"), [mistake])


def examine(declared: Correlation, streams: Iterable[LoggedStream]) -> PipelineFileError | None:
    """The error in a correlation's SQL, window or routing; None when it can run."""
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
    """The error in a correlation of documents; None when it can run."""
    over = {one.name: one.flattening is not None for one in streams}
    if over.get(declared.stream):
        return None
    usable = [name for name, documents in over.items() if documents]
    what = "has declared fields; write SQL over it" if declared.stream in over else "is not declared"
    sentence = f"stream {declared.stream!r} {what}; streams of documents are {', '.join(usable) or 'none'}"
    return _at(declared, ("documents", "stream"), sentence)


def examine_over_sites(
    declared: SiteCorrelation, streams: Iterable[LoggedStream], sites: DeclaredSites
) -> PipelineFileError | None:
    """The error in a correlation over sites; None when it can be planned."""
    try:
        _check_results(site_query(declared, tuple(streams), sites.found).sql)
    except ExpressionRefused as error:
        return _at(declared, ("sql",), _reason(error), error.line)
    except Refusal as refusal:
        return _at(declared, refusal.mistake.path, refusal.mistake.sentence)
    except (WindowNotPositive, UnknownName) as error:
        return _at(declared, ("sites",), str(error))
    except TerminalError as error:
        return _at(declared, ("sql",), str(error))
    return None


def unreachable_sites(sites: DeclaredSites) -> tuple[PipelineFileError, ...]:
    """Sites whose root cannot be read now: reported by `check`, but no reason to refuse the declaration."""
    errors = []
    for one in sites.found:
        try:
            SiteFolder(Site(one.name, one.root)).reach()
        except RootNotReachable as error:
            errors.append(sites.mistake(one.name, str(error)))
    return tuple(errors)


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
    """Check that results fit into tables: every column needs a storable type and a unique name."""
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
