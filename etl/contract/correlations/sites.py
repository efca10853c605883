"""Declarations of sites, and of correlations over streams at several sites.

    sites.toml            [site.eu] root = "var/sites/eu", queue = "eu"       the files of a region
    streams/NAME.toml     site = "eu"                                         a stream belongs to one
    correlations/*.toml   a table [sites] beside the SQL                      joined by a plan that ships few bytes

Reachability is not checked here: a site may be unreachable for a while, and its work waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field as Key

from etl.contract.errors import Mistake, PipelineFileError, Refusal, TomlPath
from etl.contract.load import guarded, located, read
from etl.contract.parsing import shape
from etl.contract.parsing.document import Duration, Table
from etl.contract.words import names
from etl.contract.words.times import duration

PlanName = Literal["pmjoin", "algorithm1", "optimal", "simple", "centralised"]
PartitionBy = Literal["rate", "hash", "range"]
AirflowName = Annotated[str, Key(min_length=1, max_length=250)]
_WINDOW = "a length of time such as '5 minutes', or a whole number of tuples"


@dataclass(frozen=True, slots=True)
class DeclaredSite:
    """A storage root, a folder or a URL that fsspec opens, and where in Airflow its tasks run."""

    name: str
    root: str
    queue: str | None = None  # used only by executors that have queues
    executor: str | None = None  # unset: the first that Airflow has
    pool: str | None = None


@dataclass(frozen=True, slots=True)
class DeclaredSites:
    """The sites of a file, and its mistakes."""

    found: tuple[DeclaredSite, ...] = ()
    errors: tuple[PipelineFileError, ...] = ()
    file: Path | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.found)

    def mistake(self, site: str, sentence: str, key: str = "root") -> PipelineFileError:
        """A mistake in a site's declaration, with its line."""
        assert self.file is not None, "sites are declared in a file"
        return located(self.file, self.file.read_text("utf-8"), [Mistake(("site", site, key), sentence)])[0]


SiteWindow = timedelta | int
"""A duration of event time, or a number of tuples."""


@dataclass(frozen=True, slots=True)
class SiteCorrelation:
    """A declared correlation over streams at sites. `windows` are by alias; other aliases have `within`."""

    name: str
    sql: str
    within: timedelta | None
    lateness: timedelta = timedelta(0)
    target: str | None = None  # None: results stay where they are produced
    windows: tuple[tuple[str, SiteWindow], ...] = ()
    plan: PlanName = "pmjoin"
    partition_by: PartitionBy = "rate"
    partitions: int = 100
    tolerance: float = 0.2  # excess over the best plan's bytes at which to replan
    half_life: timedelta = timedelta(hours=1)  # of statistics, in event time
    file: Path | None = None

    def window(self, alias: str) -> SiteWindow | None:
        return dict(self.windows).get(alias, self.within)


class SiteTable(Table):
    root: str = Key(min_length=1, description="A folder, or a URL that fsspec opens, such as s3://bucket/frontstage.")
    queue: AirflowName | None = Key(None, description="The Airflow queue of its tasks.")
    executor: AirflowName | None = Key(
        None, description="The Airflow executor of its tasks, if there are several; CeleryExecutor has queues."
    )
    pool: AirflowName | None = Key(None, description="The Airflow pool of its tasks.")


class SitesDocument(Table):
    """Where streams live."""

    site: dict[str, SiteTable] = Key(default_factory=dict, description="Sites by their names.")


class SitesTable(Table):
    """How a correlation over streams at several sites is answered."""

    target: str | None = Key(None, description="The site that results are gathered at; unset: where they are made.")
    windows: dict[str, Duration | Annotated[int, Key()]] = Key(
        default_factory=dict, description="By alias, how long or how many tuples are kept; others have `within`."
    )
    plan: PlanName = Key("pmjoin", description="How joins are spread over sites; pmjoin plans parts of the values.")
    partition_by: PartitionBy = Key("rate", description="How pmjoin divides the values of a join attribute.")
    partitions: Annotated[int, Key(ge=1, le=1000)] = Key(100, description="Into how many parts.")
    tolerance: Annotated[float, Key(gt=0, strict=False)] = Key(
        0.2, description="How many more bytes than the best plan's the present one may ship."
    )
    half_life: Duration = Key("1h", description="Event time after which what was measured counts half.")


class SiteCorrelationFile(Table):
    """SQL over streams at several sites: equalities join them, few bytes cross."""

    name: str | None = Key(None, description="The correlation's name; the file's name unless said.")
    sql: str = Key(min_length=1, description="A SELECT in Spark's dialect that joins declared streams.")
    within: Duration | None = Key(None, description="How long a tuple is kept for others to meet it.")
    lateness: Duration = Key("0s", description="How late a tuple may come and still be joined.")
    sites: SitesTable


def load_sites(path: Path) -> DeclaredSites:
    """The sites of a file; none if there is no such file."""
    if not path.is_file():
        return DeclaredSites()
    sites, errors = guarded(path, lambda: _examined(path))
    return DeclaredSites(sites or (), errors, path)


def _examined(path: Path) -> tuple[tuple[DeclaredSite, ...] | None, tuple[PipelineFileError, ...]]:
    text, declared = read(path)
    document, mistakes = shape.shaped(SitesDocument, "a file of sites", declared)
    found = [] if document is None else [(name, one) for name, one in document.site.items()]
    for name, _ in found:
        mistakes += names.plain(("site", name), "a site", name)
    roots = [one.root.rstrip("/") for _, one in found]
    for place, (name, _) in enumerate(found):
        if roots[place] in roots[:place]:
            sentence = f"root {roots[place]!r} is that of another site already; every site needs its own"
            mistakes.append(Mistake(("site", name, "root"), sentence))
    errors = tuple(located(path, text, mistakes))
    sites = tuple(DeclaredSite(name, one.root, one.queue, one.executor, one.pool) for name, one in found)
    return None if errors else sites, errors


def site_correlation(document: SiteCorrelationFile, path: Path) -> SiteCorrelation:
    """Build a correlation from its file; the existence of sites and streams is checked where they are known."""
    table = document.sites
    windows = {alias: _window(("sites", "windows", alias), given) for alias, given in table.windows.items()}
    within = None if document.within is None else _window(("within",), document.within)
    assert not isinstance(within, int), "within is a text"
    lateness = duration(document.lateness)
    if lateness is None:
        raise Refusal(("lateness",), f"lateness is {document.lateness!r}, but must be a length of time such as '30s'")
    half_life = _window(("sites", "half_life"), table.half_life)
    assert not isinstance(half_life, int), "a half-life is a text"
    return SiteCorrelation(
        name=document.name if document.name is not None else path.stem,
        sql=document.sql,
        within=within,
        lateness=lateness,
        target=table.target,
        windows=tuple(windows.items()),
        plan=table.plan,
        partition_by=table.partition_by,
        partitions=table.partitions,
        tolerance=float(table.tolerance),
        half_life=half_life,
        file=path,
    )


def _window(path: TomlPath, given: str | int) -> SiteWindow:
    length = given if isinstance(given, int) else duration(given)
    if not length or (isinstance(length, int) and length < 0):
        raise Refusal(path, f"{'.'.join(map(str, path))} is {given!r}, but must be {_WINDOW}, and positive")
    return length
