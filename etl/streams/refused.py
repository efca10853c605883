"""Refused lines of streams: the pipelines' quarantine, with release and reject, on the ledger of correlations.

    streams/NAME      the name of a stream where pipelines and streams are listed together

Releasing a line needs the lock of all correlations; the file of released lines lands in the stream's folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from etl.adapters import ledger
from etl.adapters.ledger import Ledger
from etl.adapters.verdicts import Verdicts
from etl.contract.correlations.correlation import LoggedStream
from etl.contract.model import Stream
from etl.errors import TerminalError
from etl.pipeline.review import desk as pipeline_desk
from etl.pipeline.review.desk import Desk
from etl.pipeline.review.quarantine import Quarantine
from etl.pipeline.review.release import Checkpoint
from etl.settings import Settings
from etl.streams.declared import catalog
from etl.streams.ledger import NAME
from etl.streams.tasks.plan import Places

_PREFIX = "streams/"


class UnknownStream(TerminalError):
    """A name that no file declares."""

    exit_code = 64

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(name, known)
        self.name, self.known = name, known

    def __str__(self) -> str:
        return f"{self.name!r} is not a stream; declared are {', '.join(self.known) or 'none'}"


@dataclass(frozen=True, slots=True)
class _Refusing:
    """A stream in the form that `etl.pipeline.review.masking` requires."""

    name: str
    stream: Stream
    sensitive: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _LinePlaces:
    landing: Path
    archive: Path
    tables: Path
    releases: Path


def refused_lines(declared: LoggedStream, places: Places, book: Ledger) -> Quarantine:
    """The refused lines of one stream."""
    name = f"{_PREFIX}{declared.name}"
    lines = _LinePlaces(
        landing=declared.stream.source.landing,
        archive=places.archive / declared.name,
        tables=places.streams / declared.name,
        releases=places.notes / "releases" / declared.name,
    )
    verdicts = Verdicts(book, about=name, folder=f"{declared.name}/")
    return Quarantine(_Refusing(name, declared.stream), lines, book, verdicts)


def _no_fault(_: str) -> None:
    """The default checkpoint: injects no fault."""


@contextmanager
def open_desk(settings: Settings, dsn: str, name: str, checkpoint: Checkpoint = _no_fault) -> Iterator[Desk]:
    """The desk of a pipeline, or of a stream by the name `streams/NAME`."""
    if not name.startswith(_PREFIX):
        with pipeline_desk.open_desk(settings, dsn, name, checkpoint) as desk:
            yield desk
        return
    declared = _declared(settings, name.removeprefix(_PREFIX))
    places = Places.of(settings)
    with ledger.reading(dsn, NAME) as book:
        yield Desk(settings, dsn, book, lambda book: refused_lines(declared, places, book), checkpoint)


def _declared(settings: Settings, name: str) -> LoggedStream:
    streams = {one.name: one for one in catalog(settings).streams}
    if name not in streams:
        raise UnknownStream(name, tuple(streams))
    return streams[name]
