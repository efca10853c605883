"""Is there input for a batch? Compares landing folder, topic and backlog with the ledger; cheap enough to poll.

    landing folder ── unread bytes ────────────┐
    topic ── unread offsets ───────────────────┤
    backlog ── events worth another try ───────┼──▶ Look(due, mark)
    ledger ── batch begun and not loaded ──────┘

It applies the rules of a batch, so files beyond one batch's limits and a last line that has just become complete are
due again. Nothing is due while a batch is running; an abandoned batch is due; a held one waits for a person.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from etl.adapters import ledger
from etl.adapters.kafka import offsets
from etl.adapters.kafka.broker import Broker, TopicState
from etl.adapters.kafka.errors import OffsetsGone, TopicRecreated
from etl.adapters.landing import LandedFile, Limits, fix_slices, scan
from etl.adapters.ledger import Ledger
from etl.adapters.unlistable import LandingAway, LandingShut
from etl.contract.model import Format, Master, Topic
from etl.errors import PostgresUnavailable
from etl.masters.masters import page_store, store_name, store_of
from etl.masters.pages.errors import NothingPublished

Mark = tuple[int, str]
"""The newest batch and its state, which change with any progress."""


@dataclass(frozen=True, slots=True)
class Look:
    """The result of one look."""

    due: bool = False
    under_way: bool = False
    mark: Mark = (0, "")


@dataclass(frozen=True, slots=True)
class WatchedMaster:
    """A master whose changes may resolve waiting events."""

    name: str
    store: str  # folder of its pages
    table: str | None  # its change log has the changes that are not published yet

    @classmethod
    def of(cls, master: Master) -> WatchedMaster:
        logged = master.store == "postgres" and master.follow == "change_log"
        return cls(master.name, store_name(master), master.table if logged else None)


@dataclass(frozen=True, slots=True)
class FolderFault:
    """A landing folder that cannot be listed. It counts as due: the run says why."""

    sentence: str


Seen = LandedFile | TopicState | FolderFault
"""A landed file, a topic's state, or why files cannot be seen."""


@dataclass(frozen=True, slots=True)
class WatchedTopic:
    """A topic and the client that answers for it."""

    topic: Topic
    broker: Broker

    def is_due(self, state: TopicState, book: Ledger) -> bool:
        """Whether a batch would read something of it. Faults of the topic count as due: the batch raises them."""
        try:
            unread = offsets.unread(self.topic, state, book.positions(self.topic.name))
        except (OffsetsGone, TopicRecreated):
            return True
        return offsets.is_due(self.topic, unread)


@dataclass(frozen=True, slots=True)
class Arrival:
    """One pipeline's landing folder or topic, and what its backlog waits for."""

    pipeline: str
    landing: Path
    format: Format
    dsn: Callable[[], str]
    grace: timedelta
    pages: Path | None = None  # where masters are published; None when they are read directly
    masters: tuple[WatchedMaster, ...] = ()
    topic: WatchedTopic | None = None

    def listing(self) -> tuple[Seen, ...]:
        """The files in the landing folder, and the topic's state."""
        try:
            files: tuple[Seen, ...] = tuple(scan(self.landing, self.format))
        except (LandingAway, LandingShut) as error:
            files = (FolderFault(str(error)),)
        return files if self.topic is None else (*files, self.topic.broker.state(self.topic.topic.name))

    def look(self, listing: Sequence[Seen], now: datetime) -> Look:
        """Whether a run would find input; false while a run is active or Postgres is unreachable."""
        try:
            with ledger.reading(self.dsn(), self.pipeline) as book:
                return self._look(book, listing, now)
        except PostgresUnavailable:
            return Look()

    def _look(self, book: Ledger, listing: Sequence[Seen], now: datetime) -> Look:
        last = book.last()
        mark = (0, "") if last is None else (last.batch, last.state)
        if book.is_written():
            return Look(under_way=True, mark=mark)
        begun = None if last is None or last.state == "loaded" else book.oldest_unloaded()
        if begun is not None:
            return Look(begun.state != "held" or begun.verdict is not None, mark=mark)
        due = self._unread(book, listing, now) or self._backlog_is_due(book, now) or bool(book.judged_asides())
        return Look(due, mark=mark)

    def _unread(self, book: Ledger, listing: Sequence[Seen], now: datetime) -> bool:
        files = [one for one in listing if isinstance(one, LandedFile)]
        states = [one for one in listing if isinstance(one, TopicState)]
        if any(isinstance(one, FolderFault) for one in listing):
            return True
        if self.topic is not None and any(self.topic.is_due(one, book) for one in states):
            return True
        if not files:
            return False
        consumed = book.consumed([file.name for file in files])
        limits = Limits(batch_bytes=1)  # one readable byte is enough to know
        return bool(fix_slices(self.landing, files, consumed, self.format, now, limits))

    def _backlog_is_due(self, book: Ledger, now: datetime) -> bool:
        """Whether the backlog has events to retry: shed ones, expired ones, or ones whose master has changed."""
        files = book.backlog_files()
        if any(file.cause == "time" or file.since < now - self.grace for file in files):
            return True
        unknown = book.unknown_files()
        if any(file.retry for file in (*files, *unknown)):
            return True
        last = book.last_decided() if files or unknown else None
        if last is None:
            return False
        released = any(file.path in last.decided.released_files for file in unknown)
        return released or self._master_moved(book) or self._masters_changed(book, last.master_versions)

    def _master_moved(self, book: Ledger) -> bool:
        """Whether a master's table is another one than at the last run, whose versions cannot be compared."""
        declared = (book.declared() or {}).get("masters", ())
        before = {one["name"]: store_of(one["store"], one["table"]) for one in declared}
        return any(before.get(master.name, master.store) != master.store for master in self.masters)

    def _masters_changed(self, book: Ledger, before: Mapping[str, int]) -> bool:
        """Whether a master has, or would get by publishing, another version than the last batch or last look saw."""
        if self.pages is None:
            return False
        looked = book.looked()
        for master in self.masters:
            try:
                published = page_store(self.pages / master.store).manifest()
            except NothingPublished:
                continue
            touched_at = None if master.table is None else book.master_touched_at(master.table)
            newer = touched_at is not None and touched_at > published.published_at
            if newer or published.rows_version not in (before.get(master.name), looked.get(master.name)):
                return True
        return False
