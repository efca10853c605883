"""The port of a source of master pages: a snapshot, and the changes since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

Position = Mapping[str, Any]
"""The position in a source, as plain JSON."""


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
    """The changes of a master table between two positions, each key once."""

    upserts: pa.Table
    deletes: pa.Array  # keys, as a struct array when the key has several columns
    position: Position


class MasterSource(Protocol):
    """A source of rows for publishing: Postgres or Delta."""

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """All rows, valid inside the block."""
        ...

    def changes(self, since: Position) -> Changes:
        """The changes after a position of this source."""
        ...
