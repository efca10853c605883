"""Watches the landing folders of all declared streams: fires when a micro-batch of correlations is due.

Like `triggers.arrival` for a pipeline, with one event for all streams: a batch reads the landed files of all of them.
Whether a run is due depends on the folders and the ledger, not on memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etl.adapters import postgres
from etl.adapters.landing import LandedFile, Limits, fix_slices, scan
from etl.adapters.unlistable import LandingAway, LandingShut
from etl.airflow.triggers.arrival import ArrivalTrigger
from etl.contract.model import Format
from etl.errors import PostgresUnavailable
from etl.pipeline.input.arrival import Look

if TYPE_CHECKING:
    from etl.contract.correlations.correlation import LoggedStream
    from etl.streams.ledger import StreamLedger

Listing = tuple[tuple[str, LandedFile], ...]


@dataclass(frozen=True, slots=True)
class WatchedStream:
    """A stream's landing folder."""

    name: str
    landing: Path
    format: Format


@dataclass(frozen=True, slots=True)
class StreamsArrival:
    """The landing folders of all streams against the ledger of correlations."""

    streams: tuple[WatchedStream, ...]
    dsn: Callable[[], str]
    pipeline: str = "correlations"

    def listing(self) -> Listing:
        """The files in the landing folders, each with its stream. A folder that cannot be listed has none for now."""
        return tuple((stream.name, file) for stream in self.streams for file in _files(stream))

    def look(self, listing: Listing, now: datetime) -> Look:
        """Whether there is input for a batch; false while one is running or Postgres is unreachable."""
        from etl.streams.ledger import StreamLedger

        try:
            with postgres.connect(self.dsn(), autocommit=True) as connection:
                return self._look(StreamLedger(connection), listing, now)
        except PostgresUnavailable:
            return Look()

    def _look(self, ledger: StreamLedger, listing: Listing, now: datetime) -> Look:
        last = ledger.last()
        mark = (0, "") if last is None else (last.batch, last.state)
        if ledger.book.is_written():
            return Look(under_way=True, mark=mark)
        if last is not None and last.state != "loaded":
            return Look(due=True, mark=mark)
        return Look(any(self._unread(ledger, stream, listing, now) for stream in self.streams), mark=mark)

    def _unread(self, ledger: StreamLedger, stream: WatchedStream, listing: Listing, now: datetime) -> bool:
        files = [file for name, file in listing if name == stream.name]
        if not files:
            return False
        consumed = ledger.consumed(stream.name, [file.name for file in files])
        limits = Limits(batch_bytes=1)  # one readable byte is enough to know
        return bool(fix_slices(stream.landing, files, consumed, stream.format, now, limits))


def _files(stream: WatchedStream) -> list[LandedFile]:
    try:
        return scan(stream.landing, stream.format)
    except (LandingAway, LandingShut):
        return []


class StreamArrivalTrigger(ArrivalTrigger):
    """Fires when correlations have input. It is fully determined by its arguments."""

    def __init__(self, streams: Sequence[Sequence[str]], poll_s: float = 0.5) -> None:
        super().__init__("correlations", "", "jsonl", 0.0, poll_s=poll_s)
        self.arguments: dict[str, Any] = {"streams": [list(one) for one in streams], "poll_s": poll_s}

    @classmethod
    def over(cls, streams: Sequence[LoggedStream]) -> StreamArrivalTrigger:
        """The trigger of declared streams."""
        sources = [(one.name, one.stream.source) for one in streams]
        return cls([(name, str(source.landing), source.format) for name, source in sources])

    def _arrival(self) -> StreamsArrival:
        from etl.settings import load
        from etl.stack import postgres as stack_postgres

        own = load()
        watched = [WatchedStream(name, Path(landing), form) for name, landing, form in self.arguments["streams"]]
        return StreamsArrival(tuple(watched), lambda: stack_postgres.dsn(own))
