"""How the joins see master data: three ports, each as narrow as its tactic needs, and the reader that has them all.

    MasterLookup     rows of many keys at once          IndexNestedLoop
    MasterScan       pages in order                     MeshJoin
    MasterIndex      the pages holding some keys        HybridJoin
    MasterReader     all three, and which of them it is capable of
    ChangeTracking   which keys changed between two versions: what a kept front stage goes by

Every table handed out has the key as its first column (a struct column when the key is composite), no NULL key and
no key twice. A source stands still while a batch runs: it is one version of the master.
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
        """How many pages one pass takes. May grow between calls; the reader then starts its count afresh."""
        ...

    def read_pages(self, first: int, count: int) -> pa.Table:
        """The rows of pages `first` … `first + count - 1`, which all exist."""
        ...


@runtime_checkable
class MasterIndex(Protocol):
    """The pages that hold some keys."""

    def pages_holding(self, keys: pa.Array) -> tuple[pa.Table, int]:
        """All rows of the pages in which `keys` (distinct, no NULLs) lie, and how many pages were read.

        A key of the call that is not among the rows has no master row. A source that knows so from its index alone
        reads no page for that key.
        """
        ...


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The ways in which a reader can read its master; a tactic that needs another way cannot use it."""

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
        """How to tell what changed since another version; None where the store does not know."""
        ...
