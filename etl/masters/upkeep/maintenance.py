"""Maintenance of master pages: the operations of `frontstage master …` and the `master_data` DAG, as functions.

    publish               all rows of the source ─► a new base                    PublishResult
    refresh               changes ─► an overlay; all rows when required           PublishResult
    compact_and_collect   overlays folded when due, old versions removed          CompactResult
    follow                create missing triggers that log changes
    prune                 change-log entries that no kept version needs           their number
    run                   one of these by its name, for a task of the DAG

All of it is safe while batches run: the store has a lock, and a second writer gets a transient error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from etl.adapters import postgres
from etl.contract.model import Master
from etl.errors import SettingsError, TerminalError
from etl.masters.declared import declared_masters
from etl.masters.masters import PINS_FOR, PagesMasters, page_store, store_name
from etl.masters.pages.compact import CompactWhen, compact
from etl.masters.pages.errors import NothingPublished, VersionGone
from etl.masters.pages.manifest import Manifest
from etl.masters.pages.publish import Publisher
from etl.masters.pages.store import PageStore
from etl.masters.postgres.source import keep_change_log, prune_change_log
from etl.masters.source import Position
from etl.masters.upkeep.observed_source import ObservedSource, RowsSoFar
from etl.masters.wiring import source_of
from etl.model import Progress
from etl.settings import Settings

UNREAD_FOR = timedelta(days=1)
"""How long unneeded change-log entries are kept: another site may follow the same table."""


class UnknownMaster(TerminalError):
    """A name that is not among the masters."""

    exit_code = 64

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(name, known)
        self.name, self.known = name, known

    def __str__(self) -> str:
        return f"{self.name!r} is not a master; the pipelines declare {', '.join(self.known) or 'none'}"


class ReadDirectly(SettingsError):
    """Masters are read directly, so there are no pages to maintain."""

    def __init__(self, store: str) -> None:
        super().__init__(store)
        self.store = store

    def __str__(self) -> str:
        return (
            f"masters are read directly where they are kept (master_store={self.store}) and nothing is published; "
            "set FRONTSTAGE_MASTER_STORE=pages to publish them"
        )


def chosen(masters: Sequence[Master], names: Iterable[str]) -> tuple[Master, ...]:
    """The masters of these names, or all of them."""
    by_name = {master.name: master for master in masters}
    for name in (wanted := tuple(dict.fromkeys(names))):
        if name not in by_name:
            raise UnknownMaster(name, tuple(by_name))
    return tuple(by_name[name] for name in wanted) if wanted else tuple(masters)


def store_of(settings: Settings, master: Master) -> PageStore:
    """The store of a master's pages; raises `ReadDirectly` when the settings use none."""
    if settings.master_store != "pages":
        raise ReadDirectly(settings.master_store)
    return page_store(settings.master_pages / store_name(master))


@dataclass(frozen=True, slots=True)
class PublishResult:
    """A master after publishing or refreshing."""

    master: str
    version: int
    rows: int
    bytes: int
    seconds: float
    whole: bool  # all rows were read, not only what changed
    changed: int | None  # rows the source named as changed; None when all were read
    news: bool  # whether visible rows have changed

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def sentence(self) -> str:
        """What happened, for people."""
        size, took = f"{self.rows:,} rows, {self.bytes:,} bytes", f"{self.seconds:.1f} s"
        if self.whole:
            return f"{self.master}: {size} published as version {self.version} in {took}"
        news = "nothing has changed" if not self.changed else f"{self.changed:,} rows named as changed"
        return f"{self.master}: {news}; version {self.version} has {size}; {took}"


def _no_progress(_rows: int) -> None:
    """The default progress callback: does nothing."""


def publish(settings: Settings, dsn: str, master: Master, rows_so_far: RowsSoFar = _no_progress) -> PublishResult:
    """Publish all rows of the source as a new base."""
    began, store = time.monotonic(), store_of(settings, master)
    before = _rows_version(store)
    source = ObservedSource(source_of(settings, dsn, master), rows_so_far)
    return _publish_result(master, Publisher(store).publish_from(source), source, began, before)


def refresh(
    settings: Settings, dsn: str, master: Master, progress: Progress, rows_so_far: RowsSoFar = _no_progress
) -> PublishResult:
    """Bring the store to the source's committed state. Reports why when all rows have to be read."""
    began = time.monotonic()
    before = _rows_version(store_of(settings, master))
    source = ObservedSource(source_of(settings, dsn, master), rows_so_far)
    manifest = PagesMasters(settings.master_pages, [master], lambda _: source).sync(master, progress)
    return _publish_result(master, manifest, source, began, before)


def _rows_version(store: PageStore) -> int | None:
    return None if store.current() is None else store.manifest().rows_version


def _publish_result(
    master: Master, manifest: Manifest, source: ObservedSource, began: float, before: int | None
) -> PublishResult:
    seconds = round(time.monotonic() - began, 3)
    size, news = (manifest.rows, manifest.size_bytes), manifest.rows_version != before
    return PublishResult(master.name, manifest.version, *size, seconds, source.whole, source.changed, news)


@dataclass(frozen=True, slots=True)
class CompactResult:
    """A store after compaction and collection."""

    master: str
    version: int
    folded: int  # overlays that went into a new base
    removed_versions: tuple[int, ...]
    removed_bytes: int

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "removed_versions": list(self.removed_versions)}

    @property
    def sentence(self) -> str:
        """What happened, for people."""
        folded = f"{self.folded} overlays folded into a new base" if self.folded else "no overlays had to be folded"
        removed = f"{len(self.removed_versions)} old versions removed, {self.removed_bytes:,} bytes freed"
        return f"{self.master}: {folded} (version {self.version}), {removed}"


def compact_and_collect(settings: Settings, master: Master, now: datetime, *, force: bool = False) -> CompactResult:
    """Fold overlays when due or forced, then remove unused versions."""
    store = store_of(settings, master)
    before = store.manifest()
    after = compact(store) if before.overlays and (force or CompactWhen().due(before)) else before
    removed = store.collect(now, pins_for=PINS_FOR)
    folded = len(before.overlays) if after.base != before.base else 0
    return CompactResult(master.name, after.version, folded, removed.versions, removed.bytes)


def follow(dsn: str, master: Master) -> str:
    """Enable change logging on a master's table, so that batches read only changes. Returns what was done, in words."""
    if master.store == "delta":
        return f"{master.name}: a Delta table is followed by its own log"
    if master.follow == "updated_at":
        return f"{master.name}: {master.table} is followed by its column {master.version}"
    new = keep_change_log(dsn, master.table, master.key_columns)
    return f"{master.name}: changes of {master.table} are noted by triggers {'from now on' if new else 'already'}"


def prune(settings: Settings, dsn: str, master: Master, now: datetime) -> int:
    """Delete change-log entries that every kept version has read. Returns how many.

    The oldest kept version decides, not the current one: after damage, refreshes may have to continue from it.
    Positions of another server, or of a timeline that a restore has undone, are ignored. Where no version needs the
    log, as when masters are read directly, entries are deleted by age, so that it does not grow forever.
    """
    positions = _positions(settings, master)
    with postgres.connect(dsn) as connection, connection.cursor() as cursor:
        cursor.execute(postgres.statement("master_position"))
        server, timeline, database, snapshot, _ = cursor.fetchone() or ("", "", "", "0:0:", None)
        cursor.execute(_LONG_UNREAD, {"table": master.table, "before": now - UNREAD_FOR})
        (unread,) = cursor.fetchone() or (None,)
    here = {"server": server, "timeline": timeline, "database": database}
    kept = [position for position in positions if _of(position, here, snapshot)]
    if kept:
        return prune_change_log(dsn, master.table, min(kept, key=lambda position: _ends(position["snapshot"])[0]))
    return 0 if unread is None else prune_change_log(dsn, master.table, {"snapshot": f"{unread + 1}:{unread + 1}:"})


def run(settings: Settings, dsn: Callable[[], str], work: str, name: str, progress: Progress = print) -> dict[str, Any]:
    """Run one of the operations by its name; the result is JSON without secrets.

    A master that no batch has used has no pages, and only `publish` makes them; raises `NothingPublished` for others.
    """
    (master,) = chosen(declared_masters(settings), [name])
    now = datetime.now(UTC)
    if work != "publish" and store_of(settings, master).current() is None:
        raise NothingPublished(store_name(master))
    done: PublishResult | CompactResult
    if work == "publish":
        done = publish(settings, dsn(), master)
    elif work == "refresh":
        done = refresh(settings, dsn(), master, progress)
    elif work == "compact":
        done = compact_and_collect(settings, master, now)
    else:
        assert work == "prune", f"{work} is not an operation"
        pruned = prune(settings, dsn(), master, now)
        progress(f"{name}: {pruned:,} entries of the change log are forgotten")
        return {"master": name, "pruned": pruned}
    progress(done.sentence)
    return done.as_json()


def care(settings: Settings, dsn: str, progress: Progress) -> list[dict[str, Any]]:
    """Compact the pages of every master and prune its change log; unpublished masters are skipped."""
    done: list[dict[str, Any]] = []
    for master in declared_masters(settings) if settings.master_store == "pages" else ():
        now = datetime.now(UTC)
        try:
            compacted = compact_and_collect(settings, master, now)
        except NothingPublished:
            continue
        progress(compacted.sentence)
        done.append({**compacted.as_json(), "pruned": prune(settings, dsn, master, now)})
    return done


_LONG_UNREAD = """
select xid::text::bigint from master.change_log
where table_name = %(table)s and changed_at < %(before)s
order by xid desc limit 1
"""


def _positions(settings: Settings, master: Master) -> list[Position]:
    if settings.master_store != "pages":
        return []
    store, found = store_of(settings, master), []
    for version in store.versions():
        with suppress(VersionGone):  # a collection was faster
            found.append(store.manifest(version).position)
    return found


def _of(position: Position, here: Mapping[str, str], snapshot: str) -> bool:
    same = all(position.get(part) == value for part, value in here.items())
    return same and _ends(position["snapshot"])[1] <= _ends(snapshot)[1]


def _ends(snapshot: str) -> tuple[int, int]:
    """The oldest transaction still running, and the first that had not begun."""
    oldest, next_one, *_ = snapshot.split(":")
    return int(oldest), int(next_one)
