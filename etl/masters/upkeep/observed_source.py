"""A source of master rows that reports progress, and records whether all rows or only changes were read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from etl.masters.source import Changes, MasterSource, Position, Snapshot

RowsSoFar = Callable[[int], None]
"""Called with the number of rows of a master read so far."""


class ObservedSource:
    """Wraps a source: reports how many rows have been read, and whether that was a whole snapshot."""

    def __init__(self, source: MasterSource, rows_so_far: RowsSoFar) -> None:
        self._source, self._rows_so_far = source, rows_so_far
        self.whole = False
        self.changed: int | None = None

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        self.whole, self.changed = True, None
        with self._source.snapshot() as snapshot:
            yield replace(snapshot, batches=self._counted(snapshot.batches))

    def changes(self, since: Position) -> Changes:
        changes = self._source.changes(since)
        self.changed = changes.upserts.num_rows + len(changes.deletes)
        return changes

    def _counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in batches:
            yield batch
            rows += batch.num_rows
            self._rows_so_far(rows)
