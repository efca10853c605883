"""What master pages need of the place master data comes from: all of it at a moment, and what changed since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

Position = Mapping[str, Any]
"""How far a source has been read, as plain JSON."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A whole master table at one moment."""

    schema: pa.Schema
    key: tuple[str, ...]
    batches: Iterable[pa.RecordBatch]
    position: Position  # changes after this moment are read from here
    presorted: bool  # by key, text by bytes


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened to a master table between two moments, each key once."""

    upserts: pa.Table
    deletes: pa.Array  # keys, as a struct array when the key has several columns
    position: Position


class MasterSource(Protocol):
    """Postgres or Delta, as publishing sees them."""

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """All rows, for as long as the block lasts."""
        ...

    def changes(self, since: Position) -> Changes:
        """What changed after a position this source gave out."""
        ...
