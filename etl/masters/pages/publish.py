"""Write new versions of a master: all rows, or only changes.

    publish   snapshot ─► (sort) ─► base run ─► read back and check ─► commit
    refresh   changes ─► overlay of upserts and tombstones, smaller overlays folded in ─► check ─► commit

Publishers of a store exclude each other. Readers and the publisher never block each other.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.enrich.errors import DuplicateMasterKey
from etl.masters.pages.errors import ContradictoryChange, CountMismatch, PositionMismatch
from etl.masters.pages.manifest import Manifest, RunEntry, run_name
from etl.masters.pages.merge import newest_first
from etl.masters.pages.runs.run import check_run
from etl.masters.pages.runs.sorting import sorted_tables
from etl.masters.pages.runs.writer import PageSize, RunWriter
from etl.masters.pages.store import SORTING, PageStore
from etl.masters.pages.view import MasterPages
from etl.masters.rows import key_codec
from etl.masters.rows.shape import DELETED, Shape
from etl.masters.source import Changes, MasterSource, Position, Snapshot


@dataclass(frozen=True, slots=True)
class PublishConfig:
    """How versions are written."""

    size: PageSize = field(default_factory=PageSize)
    sort_bytes: int = 160 * 2**20  # memory for sorting; the rest of publishing needs a few segments
    wait_s: float = 60.0  # for another publisher


def utc_now() -> datetime:
    return datetime.now(UTC)


class Publisher:
    """Writes versions into one store."""

    def __init__(
        self, store: PageStore, config: PublishConfig | None = None, clock: Callable[[], datetime] = utc_now
    ) -> None:
        self._store, self._config, self._clock = store, config or PublishConfig(), clock

    def publish_from(self, source: MasterSource) -> Manifest:
        """Publish all rows of a source as a new base."""
        with self._store.writing(self._config.wait_s), source.snapshot() as snapshot:
            return self._publish(snapshot)  # locked first: no refresh can get ahead of the snapshot

    def publish(self, snapshot: Snapshot) -> Manifest:
        """Publish a snapshot as a new base. The previous version stays current until this one is synced and checked."""
        with self._store.writing(self._config.wait_s):
            return self._publish(snapshot)

    def _publish(self, snapshot: Snapshot) -> Manifest:
        shape = Shape.of(self._store.name, snapshot.schema, snapshot.key)
        with tempfile.TemporaryDirectory(prefix=SORTING, dir=self._store.root) as folder:
            rows: Iterable[pa.Table] = (shape.rows(batch) for batch in snapshot.batches)
            if not snapshot.presorted:
                rows = sorted_tables(rows, shape.codes, self._config.sort_bytes, Path(folder))
            base = write_run(self._store, "base", shape, map(shape.to_store, rows), self._config.size)
            return self._commit(shape, (base,), base.rows, snapshot.position)

    def refresh_from(self, source: MasterSource) -> Manifest:
        """Publish a source's changes since the current version; without changes, the current version stays."""
        with self._store.writing(self._config.wait_s):
            current = self._store.manifest()
            return self._refresh(source.changes(current.position))

    def refresh(self, changes: Changes, since: Position | None = None) -> Manifest:
        """Publish changes as a new version. `since` is the position they start from; it must be the store's."""
        with self._store.writing(self._config.wait_s):
            if since is not None and dict(self._store.manifest().position) != dict(since):
                raise PositionMismatch(self._store.name)
            return self._refresh(changes)

    def _refresh(self, changes: Changes) -> Manifest:
        with self._store.open() as view:
            current = view.manifest
            rows, deleted, growth = _effective(view, *_as_overlay(current.shape, changes))
            if not rows.num_rows:
                return self._moved(current, changes.position)
            kept, overlay = _fold(view, current.shape.to_store(rows, deleted))
            entry = write_run(self._store, "overlay", current.shape, [overlay], view.size(self._config.size))
            return self._commit(current.shape, (*kept, entry), current.rows + growth, changes.position)

    def _commit(self, shape: Shape, runs: tuple[RunEntry, ...], rows: int, position: Position) -> Manifest:
        number = self._store.next_version()
        return self._store.commit(Manifest(number, number, shape, runs, rows, position, self._clock()))

    def _moved(self, current: Manifest, position: Position) -> Manifest:
        """A manifest with the same rows and a newer position."""
        if dict(position) == dict(current.position):
            return current
        version, now = current.version + 1, self._clock()
        return self._store.commit(replace(current, version=version, position=position, published_at=now))


def write_run(
    store: PageStore, kind: Literal["base", "overlay"], shape: Shape, rows: Iterable[pa.Table], size: PageSize
) -> RunEntry:
    """Write a run, and verify it by reading it back before a manifest names it."""
    name = run_name(kind, store.next_version())
    given = 0
    with RunWriter(store.runs, name, shape, kind == "overlay", size) as writer:
        for table in rows:
            given += table.num_rows
            writer.write(table)
        entry = writer.finish()
    if entry.rows != given:
        raise CountMismatch(store.name, f"the number of rows in {name}", entry.rows, given)
    check_run(store.runs, entry, shape)
    return entry


def _as_overlay(shape: Shape, changes: Changes) -> tuple[pa.Table, key_codec.Mask]:
    """Changes as rows in key order, and which of them are tombstones."""
    upserts = shape.rows(changes.upserts)
    doomed = _distinct_keys(shape, changes.deletes)
    rows = pa.concat_tables([upserts, shape.tombstones(doomed)])
    deleted = np.arange(rows.num_rows) >= upserts.num_rows
    keys = shape.codes(rows)
    order = key_codec.argsort(keys)
    again = np.flatnonzero(~key_codec.first_of_equals(key_codec.take(keys, order)))
    if len(again):
        row = int(order[again[0]])
        error = ContradictoryChange if deleted[row] else DuplicateMasterKey
        raise error(shape.store, shape.key_text(rows, row))
    return rows.take(pa.array(order)), deleted[order]


def _distinct_keys(shape: Shape, keys: pa.Array) -> pa.Array:
    wanted = shape.codes_of_keys(keys)
    order = key_codec.argsort(wanted)
    order = order[key_codec.first_of_equals(key_codec.take(wanted, order))]
    return keys.take(pa.array(order))


def _effective(view: MasterPages, rows: pa.Table, deleted: key_codec.Mask) -> tuple[pa.Table, key_codec.Mask, int]:
    """The changes without no-ops, and by how many rows the master grows."""
    old = view.rows_of(view.shape.codes(rows))
    place, present = _places(view.shape, old, rows)
    growth = int(np.count_nonzero(~deleted & ~present) - np.count_nonzero(deleted & present))
    kept = present | ~deleted
    again = np.flatnonzero(present & ~deleted)
    kept[again[_same_rows(old.take(pa.array(place[again])), rows.take(pa.array(again)))]] = False
    return (rows, deleted, growth) if kept.all() else (rows.filter(pa.array(kept)), deleted[kept], growth)


def _places(shape: Shape, old: pa.Table, rows: pa.Table) -> tuple[key_codec.Rows, key_codec.Mask]:
    """For each row the position of its key in `old`, and whether the key is there."""
    keys = shape.codes(old)
    if not len(keys):
        return np.zeros(rows.num_rows, np.int64), np.zeros(rows.num_rows, np.bool_)
    order, wanted = key_codec.argsort(keys), shape.codes(rows)
    ordered = key_codec.take(keys, order)
    found = np.minimum(key_codec.search(ordered, wanted), len(keys) - 1)
    return order[found], key_codec.equal(key_codec.take(ordered, found), wanted)


def _same_rows(left: pa.Table, right: pa.Table) -> key_codec.Mask:
    """Where two tables agree in every column, NULL with NULL."""
    same = np.ones(left.num_rows, np.bool_)
    for ours, theirs in zip(left.columns, right.columns, strict=True):
        equal = pc.fill_null(pc.equal(ours, theirs), False)
        both_null = pc.and_(pc.is_null(ours), pc.is_null(theirs))
        same &= pc.or_(equal, both_null).to_numpy()
    return same


def _fold(view: MasterPages, newest: pa.Table) -> tuple[tuple[RunEntry, ...], pa.Table]:
    """Merge earlier overlays into this one while they are no larger: so their number stays about log(n)."""
    kept, parts, rows = list(view.runs), [newest], newest.num_rows
    while len(kept) > 1 and kept[-1].entry.rows <= rows:
        run = kept.pop()
        parts += run.slices(0, run.entry.rows)
        rows += run.entry.rows
    if len(parts) > 1:
        merged, deleted = newest_first(view.shape, parts)
        newest = merged.append_column(newest.schema.field(DELETED), pa.array(deleted))
    return tuple(run.entry for run in kept), newest
