"""How the joins see master data: three ports, each as narrow as its tactic needs.

    MasterLookup   rows of many keys at once          IndexNestedLoop
    MasterScan     pages in order                     MeshJoin
    MasterIndex    the pages holding some keys        HybridJoin

Every table handed out has the key as its first column (a struct column when the key is composite), no NULL key and
no key twice. A source stands still while a batch runs: it is one version of the master.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

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
