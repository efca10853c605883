"""The distinct keys among pending tuples: a group per key, with both ends of its chain of runs.

    key ──hash index──► group ──► head: its oldest run, tail: its newest

Group numbers are allocated and reused; there are never more of them than pending tuples.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from etl.columnar.hash_index import HashIndex
from etl.columnar.keys import I64, U64, Keys


class KeyGroups:
    """Groups by key. The owner defines the meaning of a chain's ends."""

    def __init__(self, capacity: int) -> None:
        self.head = np.full(capacity, -1, np.int32)
        self.tail = np.full(capacity, -1, np.int32)
        self.key_type: pa.DataType | None = None
        self._capacity = capacity
        self._free = np.arange(capacity, dtype=np.int32)[::-1].copy()
        self._free_count = capacity
        self._lo = np.zeros(capacity, np.uint64)
        self._hi: U64 | None = None
        self._index: HashIndex | None = None  # made when the first keys show how many lanes they have

    @staticmethod
    def bytes_for(capacity: int, *, two_lanes: bool) -> int:
        own = 4 + 4 + 4 + (16 if two_lanes else 8)
        return capacity * own + HashIndex.bytes_for(capacity, two_lanes=two_lanes)

    @property
    def nbytes(self) -> int:
        index = 0 if self._index is None else self._index.nbytes
        hi = 0 if self._hi is None else self._hi.nbytes
        return self.head.nbytes + self.tail.nbytes + self._free.nbytes + self._lo.nbytes + hi + index

    def __len__(self) -> int:
        return 0 if self._index is None else self._index.size

    def find(self, keys: Keys) -> I64:
        """The group of each key, -1 where there is none."""
        return np.full(len(keys), -1, np.int64) if self._index is None else self._index.find(keys)

    def add(self, keys: Keys) -> I64:
        """New groups for distinct keys that have none."""
        if self._index is None:
            self._index = HashIndex(self._capacity, two_lanes=keys.hi is not None)
            self._hi = None if keys.hi is None else np.zeros(self._capacity, np.uint64)
            self.key_type = keys.type
        self._free_count -= len(keys)
        groups = self._free[self._free_count : self._free_count + len(keys)].astype(np.int64)
        self._index.add(keys, groups)
        self._lo[groups] = keys.lo
        if self._hi is not None and keys.hi is not None:
            self._hi[groups] = keys.hi
        return groups

    def drop(self, groups: I64) -> None:
        """Frees distinct groups."""
        if len(groups):
            assert self._index is not None, "groups live in the index"
            self._index.remove(self.lanes(groups))
            self._free[self._free_count : self._free_count + len(groups)] = groups
            self._free_count += len(groups)

    def lanes(self, groups: I64) -> Keys:
        """The keys of groups, without their exact form."""
        hi = None if self._hi is None else self._hi[groups]
        return Keys(self._lo[groups], hi, None, self.key_type)
