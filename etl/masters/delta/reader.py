"""Master data straight from a Delta table, through all three ports: one pinned version, its row groups as pages.

    driver    pinned = pin_delta(path, ["client_id"])          reads the log and the footers of all files, no rows
                  │ travels with the plan: version, columns, row groups with their key bounds
    workers   with pinned.open() as master:
                  master.read_pages(0, 8)                       eight row groups
                  master.lookup(keys)                           bounds ─► key columns ─► the row groups that hold some

A key may lie in any row group whose bounds contain it. Of those the key column is read first, and all columns only
where a key is found; key columns are cached for later calls, up to `key_cache_bytes`.

Delta does not sort. On a table written in key order (or after OPTIMIZE … ZORDER BY the key) few row groups can hold a
key; on any other, every lookup reads the key column of the whole table. And a row group usually has a million rows, so
looking up few keys is expensive. If that matters, write the table sorted in smaller row groups, or publish it as master
pages. Deletion vectors are applied; tables with column mapping are refused.

No index guarantees unique keys: a duplicate key raises when both rows are read, as every lookup of it does.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.columnar.keys import to_contiguous
from etl.enrich.ports import Capabilities
from etl.masters.delta.row_groups import DataFiles, RowGroup, row_groups
from etl.masters.delta.table import open_table, shape_of
from etl.masters.rows import key_codec
from etl.masters.rows.key_codec import Rows
from etl.masters.rows.shape import Shape, Shaped


@dataclass(frozen=True, slots=True)
class PinnedDelta(Shaped):
    """A Delta table at one version: everything a worker needs to read it."""

    table: str
    table_id: str  # a table recreated at the same path restarts its versions
    version: int
    uri: str = field(repr=False)
    shape: Shape = field(repr=False)
    groups: tuple[RowGroup, ...] = field(repr=False)
    key_cache_bytes: int

    def open(self) -> DeltaReader:
        """A reader, for as long as its block lasts."""
        return DeltaReader(self)


def pin_delta(
    path: Path | str,
    key: Sequence[str],
    columns: Sequence[str] | None = None,
    *,
    version: int | None = None,
    key_cache_bytes: int = 32 * 2**20,
) -> PinnedDelta:
    """Pin a version of a table for workers: by default the newest, with all columns."""
    table = open_table(path, version)
    shape = shape_of(table, path, key, columns)
    groups = tuple(group for group in row_groups(table, shape) if group.rows)
    return PinnedDelta(
        str(path), str(table.metadata().id), table.version(), table.table_uri, shape, groups, key_cache_bytes
    )


class DeltaReader:
    """`MasterReader` on a pinned Delta version."""

    def __init__(self, pinned: PinnedDelta) -> None:
        self._pinned, self._shape, self._groups = pinned, pinned.shape, pinned.groups
        self._files = DataFiles(pinned.uri, pinned.version, pinned.shape)
        self._bounds = [_PartBounds.of(pinned, part) for part in range(len(pinned.key))]
        self._keys: OrderedDict[int, pa.Array] = OrderedDict()  # by page, in LRU order

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._keys.clear()
        self._files.close()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    @property
    def change_tracking(self) -> None:
        return None

    # --- MasterLookup

    def lookup(self, keys: pa.Array) -> pa.Table:
        """The rows of many keys; keys without a row are left out."""
        found = [self._read(page).take(pa.array(rows)) for page, rows in self._holding(keys)]
        return self._public(found)

    # --- MasterScan

    def page_count(self) -> int:
        """The number of pages."""
        return len(self._groups)

    def read_pages(self, first: int, count: int) -> pa.Table:
        """The rows of consecutive row groups. One may be empty when all of its rows are deleted."""
        if not 0 <= first <= first + count <= self.page_count():
            raise IndexError(f"pages {first} to {first + count - 1} are not all among {self.page_count()} pages")
        return self._public([self._read(page) for page in range(first, first + count)])

    # --- MasterIndex

    def pages_holding(self, keys: pa.Array) -> tuple[pa.Table, int]:
        """All rows of the row groups that hold some of the keys, and the number of these row groups."""
        parts = [self._read(page) for page, _ in self._holding(keys)]
        return self._public(parts), len(parts)

    # --- all of them

    def _holding(self, keys: pa.Array) -> Iterator[tuple[int, Rows]]:
        """The pages that hold some of the keys, with the rows of these keys."""
        wanted = self._shape.codes_of_keys(keys)
        for page, which in self._candidates(to_contiguous(keys)):
            some = wanted if len(which) == len(wanted) else key_codec.take(wanted, which)
            rows = np.flatnonzero(pc.is_in(self._codes(page), value_set=some).to_numpy(zero_copy_only=False))
            if len(rows):
                yield page, rows

    def _candidates(self, keys: pa.Array) -> Iterator[tuple[int, Rows]]:
        """The pages whose bounds contain some of the keys, and which keys."""
        parts = keys.flatten() if pa.types.is_struct(keys.type) else [keys]
        values = [
            key_codec.of_columns([part.cast(field.type)])
            for part, field in zip(parts, self._shape.schema, strict=False)
        ]
        order = key_codec.argsort(values[0])
        starts, stops = self._bounds[0].ranges(key_codec.take(values[0], order))
        for page in np.flatnonzero(starts < stops):
            which = order[starts[page] : stops[page]]
            for value, bounds in zip(values[1:], self._bounds[1:], strict=True):
                which = which[bounds.contain(int(page), key_codec.take(value, which))]
            if len(which):
                yield int(page), which

    def _codes(self, page: int) -> pa.Array:
        """The keys of a page as codes, from the key columns alone."""
        known = self._keys.pop(page, None)
        if known is None:
            known = self._shape.codes(self._read(page, self._pinned.key))
        self._keys[page] = known
        while len(self._keys) > 1 and sum(array.nbytes for array in self._keys.values()) > self._pinned.key_cache_bytes:
            self._keys.popitem(last=False)
        return known

    def _read(self, page: int, columns: Sequence[str] | None = None) -> pa.Table:
        return self._files.read(self._groups[page], self._shape.schema.names if columns is None else columns)

    def _public(self, parts: Sequence[pa.Table]) -> pa.Table:
        rows = pa.concat_tables([self._shape.schema.empty_table(), *parts]).combine_chunks()
        self._shape.refuse_repeated_keys(rows)
        return self._shape.public(rows, self._pinned.columns)


@dataclass(frozen=True, slots=True)
class _PartBounds:
    """The bounds of one key column, page by page."""

    lows: pa.Array
    highs: pa.Array

    @classmethod
    def of(cls, pinned: PinnedDelta, part: int) -> _PartBounds:
        is_number = pa.types.is_integer(pinned.shape.schema.field(part).type)
        kind = pa.int64() if is_number else pa.binary()
        given: list[tuple[Any, Any]] = [group.bounds[part] or (None, None) for group in pinned.groups]
        return cls(pa.array([low for low, _ in given], kind), pa.array([high for _, high in given], kind))

    def ranges(self, ordered: pa.Array) -> tuple[Rows, Rows]:
        """For every page, the range of the sorted values that may lie in it."""
        least: Any = 0 if pa.types.is_integer(self.lows.type) else b""
        unknown = self.lows.is_null().to_numpy(zero_copy_only=False)
        starts = key_codec.search(ordered, self.lows.fill_null(least))
        stops = key_codec.search(ordered, self.highs.fill_null(least), "right")
        return np.where(unknown, 0, starts), np.where(unknown, len(ordered), stops)

    def contain(self, page: int, values: pa.Array) -> key_codec.Mask:
        """Which values may lie in a page."""
        low, high = self.lows[page], self.highs[page]
        if not low.is_valid:
            return np.ones(len(values), np.bool_)
        mask: key_codec.Mask = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high)).to_numpy(
            zero_copy_only=False
        )
        return mask
