"""The ports through which joins read master data: one per tactic, and the reader that combines them.

    MasterLookup     rows of many keys at once          IndexNestedLoop
    MasterScan       pages in order                     MeshJoin
    MasterIndex      the pages that hold given keys     HybridJoin
    MasterReader     all three, and which of them it supports
    ChangeTracking   which keys changed between two versions, for updating a front stage

Every returned table has the key as its first column (a struct column when the key is composite), no NULL key and
no duplicate key. A source is one fixed version of the master while a batch runs.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa


@runtime_checkable
class MasterLookup(Protocol):
    """Rows of many keys at once."""

    def lookup(self, keys: pa.Array) -> pa.Table:
        """The master rows of `keys` (distinct, no NULLs), in any order; keys without a row are left out."""
        ...


@runtime_checkable
class MasterScan(Protocol):
    """All of the master, page after page."""

    def page_count(self) -> int:
        """The number of pages of one pass. May grow between calls; MESHJOIN then restarts its count of pages."""
        ...

    def read_pages(self, first: int, count: int) -> pa.Table:
        """The rows of pages `first` … `first + count - 1`, which all exist."""
        ...


@runtime_checkable
class MasterIndex(Protocol):
    """The pages that hold given keys."""

    def pages_holding(self, keys: pa.Array) -> tuple[pa.Table, int]:
        """All rows of the pages in which `keys` (distinct, no NULLs) lie, and the number of pages read.

        A key that is not among the rows has no master row. A source whose index alone rejects a key reads no page
        for it.
        """
        ...


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The ports that a reader supports; a tactic that needs another one cannot use it."""

    lookup: bool = True
    scan: bool = True
    index: bool = True


@runtime_checkable
class ChangeTracking(Protocol):
    """What changed between two versions of a master."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the immutable parts that this version is made of; they are never used again for other rows."""
        ...

    def touched(self, keys: pa.Array, since: Collection[str]) -> npt.NDArray[np.bool_] | None:
        """Which keys may have other rows than in the version made of the parts `since`; None: that is unknown."""
        ...


@runtime_checkable
class MasterReader(MasterLookup, MasterScan, MasterIndex, Protocol):
    """One version of a master, open for reading."""

    @property
    def capabilities(self) -> Capabilities:
        """Which of the three ports it implements."""
        ...

    @property
    def change_tracking(self) -> ChangeTracking | None:
        """Change tracking between versions; None where the store does not support it."""
        ...
