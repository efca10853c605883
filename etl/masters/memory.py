"""A master in memory: the smallest implementation of all three ports.

For tests and small masters. It counts calls, so that costs can be compared. Rows are sorted
by key and cut into pages of `page_rows` rows, as a published master is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.columnar.hash_index import HashIndex
from etl.columnar.keys import Keys, distinct, encode, same_kind, to_contiguous, valid
from etl.enrich.errors import DuplicateMasterKey, NullMasterKey
from etl.enrich.ports import Capabilities


@dataclass(slots=True)
class Asked:
    """How often a master was read."""

    lookups: int = 0
    keys: int = 0
    pages: int = 0


class MemoryMaster:
    """`MasterReader` over one Arrow table. The key is moved to the first column."""

    def __init__(self, table: pa.Table, key: str, *, page_rows: int = 500, name: str = "memory") -> None:
        if page_rows <= 0:
            raise ValueError(f"page_rows={page_rows} is not positive")
        others = [column for column in table.column_names if column != key]
        self._rows, self._keys = _sorted(table.select([key, *others]).combine_chunks(), name)
        self._index = HashIndex(len(self._keys), two_lanes=self._keys.hi is not None)
        self._index.add(self._keys, np.arange(len(self._keys)))
        self.key_type: pa.DataType = table.schema.field(key).type
        self.page_rows = page_rows
        self.asked = Asked()

    @property
    def schema(self) -> pa.Schema:
        return self._rows.schema

    @property
    def rows(self) -> int:
        return int(self._rows.num_rows)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    @property
    def change_tracking(self) -> None:
        return None

    def lookup(self, keys: pa.Array) -> pa.Table:
        """The rows of `keys`; keys without a row are left out."""
        row = self._find(keys)
        self.asked.lookups += 1
        self.asked.keys += len(row)
        return self._rows.take(pa.array(row[row >= 0]))

    def page_count(self) -> int:
        return -(-self.rows // self.page_rows)

    def read_pages(self, first: int, count: int) -> pa.Table:
        """The rows of consecutive pages."""
        if not 0 <= first <= first + count <= self.page_count():
            raise IndexError(f"pages {first} to {first + count - 1} are not all among the {self.page_count()} pages")
        self.asked.pages += count
        return self._rows.slice(first * self.page_rows, count * self.page_rows)

    def pages_holding(self, keys: pa.Array) -> tuple[pa.Table, int]:
        """All rows of the pages in which these keys lie; the index rejects absent keys without reading."""
        row = self._find(keys)
        pages = np.unique(row[row >= 0] // self.page_rows)
        parts = [self.read_pages(int(page), 1) for page in pages]
        return (pa.concat_tables(parts) if parts else self._rows.slice(0, 0)), len(pages)

    def _find(self, keys: pa.Array) -> np.ndarray:
        same_kind(keys.type, self.key_type)
        return self._index.find(encode(keys))


def _sorted(table: pa.Table, name: str) -> tuple[pa.Table, Keys]:
    """The rows in key order; raises on duplicate keys."""
    column = to_contiguous(table.column(0))
    whole = valid(column)
    if not whole.all():
        raise NullMasterKey(name, int(np.count_nonzero(~whole)))
    keys = encode(column)
    counts = distinct(keys)
    if len(counts.first) < len(keys):
        twice = int(counts.first[np.argmax(counts.counts)])
        raise DuplicateMasterKey(name, str(column[twice].as_py()))
    if keys.hi is None:
        order = np.argsort(keys.lo.view(np.int64))
    elif pa.types.is_struct(column.type):
        order = np.lexsort([np.asarray(part.to_pylist()) for part in reversed(column.flatten())])
    else:
        order = np.asarray(pc.array_sort_indices(column))
    return table.take(pa.array(order)), keys.take(order)
