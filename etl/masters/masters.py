"""Master data for one batch: every master pinned at one version, in any kind of store.

    driver   masters.pinned(batch) ── brings the store up to date, pins a version of every master
                │ PinnedMaster: picklable, travels with the plan
    workers  pinned.open() ── the three ports of the joins, all workers at the same version

A retried batch finds its earlier pin and sees the same master rows.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from etl.contract.model import Master
from etl.enrich.ports import MasterReader
from etl.errors import TerminalError
from etl.masters.pages.errors import DAMAGE, NothingPublished, RepublishNeeded, StoreBusy
from etl.masters.pages.manifest import Manifest
from etl.masters.pages.publish import Publisher
from etl.masters.pages.store import PageStore
from etl.masters.pages.view import MasterPages
from etl.masters.source import MasterSource
from etl.masters.worker_cache import worker_cache
from etl.model import Progress

PINS_FOR = timedelta(days=2)
"""Older pins are presumed to be of dead batches."""


class Place(Protocol):
    """The location of one version of a master; sent to workers."""

    def open(self) -> AbstractContextManager[MasterReader]:
        """A reader, for as long as the block lasts."""
        ...


@dataclass(frozen=True, slots=True)
class PinnedMaster:
    """A master at one version: everything a worker needs to read it."""

    master: Master
    version: int  # what the ledger records; equal numbers mean equal rows
    rows_id: str  # identifies the rows across stores; the key of caches
    schema: pa.Schema
    place: Place

    def open(self) -> AbstractContextManager[MasterReader]:
        return self.place.open()


def rows_name(origin: str, schema: pa.Schema) -> str:
    """An id for rows: equal ids mean rows of one origin with the same columns."""
    columns = schema.to_string(show_field_metadata=False, show_schema_metadata=False)
    return f"{origin} {hashlib.blake2b(columns.encode(), digest_size=8).hexdigest()}"


class Masters(Protocol):
    """One kind of store."""

    def pinned(self, owner: str, now: datetime, progress: Progress) -> AbstractContextManager[tuple[PinnedMaster, ...]]:
        """Pin every master at its currently committed version, or at the version this owner pinned before."""
        ...


def store_name(master: Master) -> str:
    """The folder of a master's pages: one per table, even if several pipelines or names refer to it."""
    return store_of(master.store, master.table)


def store_of(store: str, table: str) -> str:
    """The folder of a table's pages."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", table).strip("._") or "table"
    name = f"{store}.{plain}"
    return name if plain == table else f"{name}-{hashlib.blake2b(table.encode(), digest_size=4).hexdigest()}"


def received(master: Master) -> tuple[str, ...]:
    """The columns that events get from a master: the declared ones, and its timestamp column."""
    dated = () if master.version is None or master.version in master.columns else (master.version,)
    return (*master.columns, *dated)


def page_store(root: Path) -> PageStore:
    """This process's store under a root."""
    return worker_cache().page_store(root)


@dataclass(frozen=True, slots=True)
class PagesPlace:
    """One version in a store of master pages."""

    root: Path
    number: int
    columns: tuple[str, ...] | None

    def open(self) -> AbstractContextManager[MasterPages]:
        return page_store(self.root).open(self.number, columns=self.columns)


@dataclass(frozen=True, slots=True)
class PagesMasters:
    """Masters published as pages; brought up to date from their source before every batch."""

    root: Path
    masters: Sequence[Master]
    source_of: Callable[[Master], MasterSource]

    @contextmanager
    def pinned(self, owner: str, now: datetime, progress: Progress) -> Iterator[tuple[PinnedMaster, ...]]:
        with ExitStack() as pins:
            yield tuple(self._pin(master, owner, now, progress, pins) for master in self.masters)

    def _pin(self, master: Master, owner: str, now: datetime, progress: Progress, pins: ExitStack) -> PinnedMaster:
        store = page_store(self.root / store_name(master))
        try:
            pinned = self._pinned(store, master, owner, now, progress)
        except DAMAGE as damage:
            progress(f"{damage}: done now, and what {owner} had pinned is given up")
            store.discard()
            pinned = self._pinned(store, master, owner, now, progress)
        pins.push(_unless_repeatable(store, owner, now))
        return pinned

    def _pinned(self, store: PageStore, master: Master, owner: str, now: datetime, progress: Progress) -> PinnedMaster:
        if store.pins.of(owner) is None:
            self.sync(master, progress)
        return pinned_pages(store, master, store.pin(owner, now))

    def sync(self, master: Master, progress: Progress) -> Manifest:
        """Bring the store to the source's committed state: publish the first time and when required, else refresh."""
        store, source = page_store(self.root / store_name(master)), self.source_of(master)
        publisher = Publisher(store)
        try:
            return publisher.refresh_from(source)
        except NothingPublished:
            progress(f"publishing master {master.name} for the first time")
            store.number_on()
        except RepublishNeeded as needed:
            progress(f"{needed}: done now")
        manifest = publisher.publish_from(source)
        progress(f"master {master.name}: {manifest.rows:,} rows published as version {manifest.version}")
        return manifest


def pinned_pages(store: PageStore, master: Master, number: int) -> PinnedMaster:
    """Describe a version in pages for workers."""
    columns = received(master) or None  # no list means all columns
    with store.open(number, columns=columns) as view:
        place = PagesPlace(store.root, number, columns)
        rows_id = rows_name(" ".join(view.parts), view.schema)  # runs are immutable, and their names are never reused
        return PinnedMaster(master, view.rows_version, rows_id, view.schema, place)


def _unless_repeatable(store: PageStore, owner: str, now: datetime) -> Callable[..., None]:
    """Release the pin after success or a terminal error; keep it when the batch may be retried.

    A terminal error may come from a damaged page; then the store is emptied, and the next batch publishes.
    """

    def end(_kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        if error is None or isinstance(error, TerminalError):
            if error is not None and not store.is_whole():
                store.discard()
            store.unpin(owner)
            with suppress(StoreBusy, *DAMAGE):  # a publisher is active: the next batch collects
                store.collect(now, pins_for=PINS_FOR, wait_s=0.0)

    return end


def versions_of(pinned: Iterable[PinnedMaster]) -> dict[str, int]:
    """The version of every master, by name; what the ledger records."""
    return {one.master.name: one.version for one in pinned}
