"""A bucket: tuples of one stream, slot and batch, read-only, indexed by the attributes that queries join on.

    table      the stream's columns, a row per tuple
    index      attribute ──► CSR: sorted distinct keys, offsets, row numbers
    codes      attribute ──► the key's number of every row, for re-indexing by reference

Rows are referenced by number, never across buckets. As it is immutable, a bucket is a file in a snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etl.columnar import csr
from etl.columnar.csr import I32, Csr
from etl.correlate.adhoc.errors import SnapshotRefused
from etl.correlate.adhoc.query.keys import index_by

Attribute = tuple[str, ...]


class When(NamedTuple):
    """A bucket's batch, and the slot of its tuples' event times."""

    batch: int
    slot: int


@dataclass
class Bucket:
    stream: str
    slot: int
    table: pa.Table
    _indexes: dict[Attribute, Csr] = field(default_factory=dict)
    _codes: dict[Attribute, I32] = field(default_factory=dict)
    batch: int | None = None  # None: slots arrive whole, one after the other, and are their own batches

    @property
    def when(self) -> When:
        return When(self.slot if self.batch is None else self.batch, self.slot)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def index(self, attribute: Attribute) -> Csr:
        """The index by an attribute, built once, when an active query first needs it."""
        if attribute not in self._indexes:
            self._indexes[attribute] = index_by(self.table, attribute)
        return self._indexes[attribute]

    def codes(self, attribute: Attribute) -> I32:
        if attribute not in self._codes:
            self._codes[attribute] = csr.codes_of(self.index(attribute), len(self))
        return self._codes[attribute]

    @property
    def index_bytes(self) -> int:
        codes = sum(each.nbytes for each in self._codes.values())
        return codes + sum(each.nbytes for each in self._indexes.values())

    @property
    def nbytes(self) -> int:
        return int(self.table.nbytes) + self.index_bytes

    def snapshot(self) -> BucketArrays:
        arrays: dict[str, npt.NDArray[Any]] = {}
        for attribute, index in self._indexes.items():
            name = "+".join(attribute)
            arrays |= {f"{name}/lo": index.lo, f"{name}/offsets": index.offsets, f"{name}/members": index.members}
            if index.hi is not None:
                arrays[f"{name}/hi"] = index.hi
        return BucketArrays(self.stream, self.slot, self.table, arrays, tuple(self._indexes), self.batch)


@dataclass(frozen=True)
class BucketArrays:
    """A bucket as plain arrays, for a file that every task maps."""

    stream: str
    slot: int
    table: pa.Table
    arrays: Mapping[str, npt.NDArray[Any]]
    attributes: tuple[Attribute, ...]
    batch: int | None = None

    def restore(self) -> Bucket:
        bucket = Bucket(self.stream, self.slot, self.table, batch=self.batch)
        for attribute in self.attributes:
            name = "+".join(attribute)
            try:
                lo, offsets = self.arrays[f"{name}/lo"], self.arrays[f"{name}/offsets"]
                index = Csr(lo, self.arrays.get(f"{name}/hi"), offsets, self.arrays[f"{name}/members"])
            except KeyError as error:
                raise SnapshotRefused(f"{self.stream} of slot {self.slot} lacks the array {error}") from error
            if len(offsets) != len(lo) + 1 or int(offsets[-1]) != len(index.members) or _beyond(index, bucket):
                raise SnapshotRefused(f"the index {name} of {self.stream} in slot {self.slot} does not fit its rows")
            bucket._indexes[attribute] = index
        return bucket


def _beyond(index: Csr, bucket: Bucket) -> bool:
    return bool(len(index.members)) and int(np.max(index.members)) >= len(bucket)
