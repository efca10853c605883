"""Shared by all views: settings, ledger, declarations, and a user's permissions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request

from etl.adapters import postgres
from etl.contract.correlations.correlation import LoggedStream
from etl.contract.correlations.correlation_files import AnyCorrelation, load_correlations, load_streams
from etl.contract.correlations.documents import DocumentCorrelation
from etl.contract.correlations.sites import SiteCorrelation
from etl.contract.load import load_all
from etl.contract.model import Pipeline
from etl.errors import TerminalError
from etl.page.ports import Access, Forbidden, User
from etl.page.queries.correlations import NAME as CORRELATIONS
from etl.page.queries.reading import read_only
from etl.settings import Settings

if TYPE_CHECKING:
    from etl.streams.adhoc.service import Queries


class NotFound(TerminalError):
    """The requested object does not exist, or no longer does."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"there is no {self.what} here; it may have been removed, or never was"


@dataclass(frozen=True, slots=True)
class Site:
    """One Frontstage installation."""

    settings: Settings
    dsn: Callable[[], str]
    access: Access

    @contextmanager
    def ledger(self) -> Iterator[postgres.Connection]:
        """A read-only connection."""
        with postgres.connect(self.dsn()) as connection:
            read_only(connection)
            yield connection

    @property
    def queries(self) -> Queries:
        """Ad-hoc queries over streams."""
        from etl.streams.adhoc.service import Queries  # lazy: imports the join's kernels

        return Queries(self.settings, self.dsn())

    @property
    def pipelines(self) -> tuple[Pipeline, ...]:
        folder = self.settings.pipelines
        return _pipelines(folder, self.settings.var, _stamp(folder))

    @property
    def correlations(self) -> Mapping[str, AnyCorrelation]:
        folder = self.settings.correlations
        return _correlations(folder, _stamp(folder))

    @property
    def streams(self) -> tuple[LoggedStream, ...]:
        """The streams of correlations."""
        folder = self.settings.streams
        return _streams(folder, self.settings.var, _stamp(folder))

    @property
    def local_kinds(self) -> Mapping[str, str]:
        """The correlations with figures by batch, and the kind of each."""
        return {name: kind_of(one) for name, one in self.correlations.items() if not isinstance(one, SiteCorrelation)}

    @property
    def over_sites(self) -> list[str]:
        """The correlations with figures by site."""
        return [name for name, one in self.correlations.items() if isinstance(one, SiteCorrelation)]


@dataclass(frozen=True, slots=True)
class Visitor:
    """A user who may see at least something; others are refused access."""

    site: Site
    user: User
    names: frozenset[str]  # of pipelines, and of the correlations' DAG

    @property
    def pipelines(self) -> tuple[Pipeline, ...]:
        return tuple(one for one in self.site.pipelines if one.name in self.names)

    @property
    def sees_correlations(self) -> bool:
        return CORRELATIONS in self.names

    @property
    def sees_everything(self) -> bool:
        return self.names >= {one.name for one in self.site.pipelines} | {CORRELATIONS}

    def pipeline(self, name: str) -> Pipeline:
        """A pipeline that they may see."""
        found = next((one for one in self.site.pipelines if one.name == name), None)
        if found is None:
            raise NotFound(f"pipeline {name!r}")
        self.must_see(name)
        return found

    def must_see(self, name: str) -> None:
        if name not in self.names:
            raise Forbidden(f"looking at {name}")

    def must_see_everything(self) -> None:
        if not self.sees_everything:
            raise Forbidden("what shows all pipelines")


async def visitor(request: Request) -> Visitor:
    """The user of a request. Raises `NotLoggedIn` or `Forbidden`; a dependency of every route."""
    site: Site = request.app.state.site
    user = await site.access.user(request)
    names = [one.name for one in site.pipelines] + [CORRELATIONS]
    allowed = frozenset(name for name in names if site.access.may_run(user, name))
    if not allowed:
        raise Forbidden("the Frontstage page")
    return Visitor(site, user, allowed)


Guest = Annotated[Visitor, Depends(visitor)]
"""The visitor as a dependency of views."""


def kind_of(one: AnyCorrelation) -> str:
    """The kind of a correlation."""
    if isinstance(one, SiteCorrelation):
        return "streams at sites"
    return "documents" if isinstance(one, DocumentCorrelation) else "streams"


def _stamp(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """A value that changes with any file of a folder, as the key for caching declarations."""
    files = sorted(folder.glob("*.toml")) if folder.is_dir() else []
    return tuple((path.name, (found := path.stat()).st_mtime_ns, found.st_size) for path in files)


@lru_cache(maxsize=4)
def _pipelines(folder: Path, home: Path, _stamp: object) -> tuple[Pipeline, ...]:
    return load_all(folder, home).pipelines


@lru_cache(maxsize=4)
def _streams(folder: Path, home: Path, _stamp: object) -> tuple[LoggedStream, ...]:
    return load_streams(folder, home).found


@lru_cache(maxsize=4)
def _correlations(folder: Path, _stamp: object) -> Mapping[str, AnyCorrelation]:
    return {one.name: one for one in load_correlations(folder).found}
