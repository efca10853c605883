"""One version of a master, through the three ports of the joins.

    lookup         sorted wanted codes → newest run, then older ones for the rest → gather
    read_pages     fences of all runs together cut the keys into pages; a page merges what the runs have in it
    pages_holding  the fences say which pages; a key outside every run's fences costs no page

With no overlay a page is a slice of the mapped file. An overlay adds its own fences, so a page never holds more
than `page_rows` rows of any one run, wherever new keys cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from etl.enrich.ports import Capabilities, ChangeTracking
from etl.masters.pages.errors import ColumnMismatch
from etl.masters.pages.manifest import Manifest, made_for
from etl.masters.pages.merge import visible
from etl.masters.pages.runs.run import Run
from etl.masters.pages.runs.writer import PageSize
from etl.masters.rows import key_codec
from etl.masters.rows.shape import CODE, DELETED, deleted_of


class MasterPages:
    """The reader of one pinned version. A context manager: closing it allows the version to be collected."""

    def __init__(
        self,
        manifest: Manifest,
        runs: Sequence[Run],
        release: Callable[[], None],
        columns: Sequence[str] | None = None,
    ) -> None:
        self.manifest, self.shape, self.runs, self._release = manifest, manifest.shape, tuple(runs), release
        attributes = manifest.shape.schema.names[len(manifest.shape.key) :]
        self.columns = tuple(attributes if columns is None else columns)
        for name in self.columns:
            if name not in attributes:
                raise ColumnMismatch(self.shape.store, name, "absent", f"one of {', '.join(attributes)}")
        fences = key_codec.concat([run.firsts for run in runs])
        self._fences = fences if len(runs) == 1 else key_codec.sorted_distinct(fences)

    @property
    def version(self) -> int:
        """The version's number, as pinned."""
        return self.manifest.version

    @property
    def rows_version(self) -> int:
        """Equal numbers mean equal rows; the key of caches."""
        return self.manifest.rows_version

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    @property
    def change_tracking(self) -> ChangeTracking:
        """Supported: runs are immutable, so new names mean changes."""
        return self

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of this version's runs, by which `touched` compares versions."""
        return tuple(run.entry.name for run in self.runs)

    def touched(self, keys: pa.Array, since: Collection[str]) -> key_codec.Mask | None:
        """Which keys may have other rows than in a version made of the parts `since`; None: unknown.

        It is known for an earlier version on the same base: overlays of it that are gone were merged into newer ones.
        """
        newer = self._newer(since)
        if newer is None:
            return None
        wanted = self.shape.codes_of_keys(keys)
        order = key_codec.argsort(wanted)
        ordered, seen = key_codec.take(wanted, order), np.zeros(len(keys), np.bool_)
        for run in newer:
            seen[order] |= run.find(ordered).found
        return seen

    def _newer(self, since: Collection[str]) -> list[Run] | None:
        newer = [run for run in self.runs if run.entry.name not in since]
        oldest = min((made_for(run.entry.name) for run in newer), default=0)
        gone = set(since) - set(self.parts)
        if any(not run.entry.is_overlay for run in newer) or any(made_for(name) >= oldest for name in gone):
            return None
        return newer

    def rows_since(self, since: Collection[str]) -> pa.Table | None:
        """The rows that may differ from a version made of the parts `since`, without deleted ones.

        None when that is unknown, as with `touched`.
        """
        newer = self._newer(since)
        if newer is None:
            return None
        parts = [part for run in newer for part in run.slices(0, run.entry.rows)]
        keys = pa.concat_tables(
            [self.schema.empty_table().select([0]), *(self.shape.public(part, ()) for part in parts)]
        )
        return self.lookup(keys.column(0).combine_chunks())

    def size(self, wanted: PageSize) -> PageSize:
        """The page size for new runs of this version: the same as its base's."""
        return replace(wanted, page_rows=self.runs[0].index.page_rows)

    @property
    def schema(self) -> pa.Schema:
        """The columns of every returned table."""
        empty = pa.Table.from_batches([], self.shape.schema)
        return self.shape.public(empty, self.columns).schema

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the version. Returned tables stay valid: they keep the files mapped."""
        self._release()

    # --- MasterLookup

    def lookup(self, keys: pa.Array) -> pa.Table:
        """The rows of many keys; keys without a row are left out."""
        wanted = key_codec.sorted_distinct(self.shape.codes_of_keys(keys))
        return self.shape.public(self.rows_of(wanted), self.columns)

    def rows_of(self, wanted: pa.Array) -> pa.Table:
        """The rows of distinct sorted codes, in the shape's columns."""
        parts = []
        for run in reversed(self.runs):
            if not len(wanted):
                break
            hits = run.find(wanted)
            if not hits.places:
                continue
            parts.append(self._live(run.gather(hits, self._columns_of(run))))
            wanted = wanted.filter(pa.array(~hits.found)) if run.entry.is_overlay else wanted
        return pa.concat_tables([self._stored_empty(), *parts])

    def _columns_of(self, run: Run) -> list[str]:
        return [*self.shape.key, *self.columns, *([DELETED] if run.entry.is_overlay else [])]

    def _live(self, rows: pa.Table) -> pa.Table:
        if DELETED not in rows.schema.names:
            return rows
        return rows.filter(pa.array(~deleted_of(rows))).drop_columns([DELETED])

    def _stored_empty(self) -> pa.Table:
        fields = [self.shape.schema.field(name) for name in [*self.shape.key, *self.columns]]
        return pa.schema(fields).empty_table()

    # --- MasterScan

    def page_count(self) -> int:
        """The number of pages."""
        return len(self._fences)

    def read_pages(self, first: int, count: int) -> pa.Table:
        """The rows of some pages in key order. A page may be empty when all its rows are deleted."""
        if not 0 <= first <= first + count <= self.page_count():
            raise IndexError(f"pages {first} to {first + count - 1} are not all among {self.page_count()} pages")
        return self.shape.public(self._rows(first, first + count, self.columns), self.columns)

    def stored_rows(self, pages_at_once: int) -> Iterator[pa.Table]:
        """All visible rows in stored form, in key order, for compaction."""
        every = self.shape.schema.names[len(self.shape.key) :]
        for first in range(0, self.page_count(), pages_at_once):
            yield self._rows(first, min(self.page_count(), first + pages_at_once), every, code=True)

    def _rows(self, first: int, stop: int, columns: Sequence[str], code: bool = False) -> pa.Table:
        names = [*self.shape.key, *columns, *([CODE] if len(self.shape.key) > 1 else [])]
        parts = []
        for run in reversed(self.runs):
            kept = [*names, DELETED] if run.entry.is_overlay else names
            parts += [part.select(kept) for part in _newest_whole(run.slices(*self._range(run, first, stop)))]
        rows = visible(self.shape, parts)
        if rows is None:
            stored = self.shape.stored(overlay=False)
            rows = pa.schema([stored.field(name) for name in names]).empty_table()
        return rows if code or CODE not in names else rows.drop_columns([CODE])

    def _range(self, run: Run, first: int, stop: int) -> tuple[int, int]:
        """The rows of a run that lie in pages `first` … `stop - 1`."""
        start = 0 if first == 0 else run.row_of(self._fences.slice(first, 1))
        end = run.entry.rows if stop >= self.page_count() else run.row_of(self._fences.slice(stop, 1))
        return start, end

    # --- MasterIndex

    def pages_holding(self, keys: pa.Array) -> tuple[pa.Table, int]:
        """All rows of the pages in which keys may lie, and the number of these pages."""
        wanted = key_codec.sorted_distinct(self.shape.codes_of_keys(keys))
        possible = np.zeros(len(wanted), np.bool_)
        for run in self.runs:
            possible |= run.may_hold(wanted)
        pages = np.maximum(key_codec.search(self._fences, wanted.filter(pa.array(possible)), "right") - 1, 0)
        pages = pages[key_codec.firsts_of(pages)]
        parts = [self.read_pages(start, stop - start) for start, stop in key_codec.stretches(pages)]
        return pa.concat_tables([self.schema.empty_table(), *parts]), len(pages)


def _newest_whole(parts: Iterator[pa.Table]) -> list[pa.Table]:
    """The slices of one run as one table: segments of a run never share a key."""
    slices = list(parts)
    return [pa.concat_tables(slices)] if slices else []
