"""External merge sort: sorted spills on disk, then one merge pass, block by block.

    batches ─► chunks of a quarter of the memory ─► sort ─► spill files ─► merge ─► sorted tables

The merge is vectorised: from the loaded block of each spill, take every row up to the smallest "last key" among the
blocks; no spill has a smaller key left, so those rows are sorted together and emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from etl.masters.pages import files
from etl.masters.rows import key_codec

CodesOf = Callable[[pa.Table], pa.Array]

_BLOCK_ROWS_MAX = 32_768


def sorted_tables(tables: Iterable[pa.Table], codes_of: CodesOf, memory_bytes: int, folder: Path) -> Iterator[pa.Table]:
    """The same rows ordered by code, within about `memory_bytes`. Spills go to `folder` and are removed."""
    spills: list[Path] = []
    try:
        for chunk, whole in _chunks(tables, memory_bytes // 4):
            ordered = _sorted(chunk, codes_of)
            del chunk
            if whole:
                yield ordered
                return
            spills.append(folder / f"spill-{len(spills):04d}.arrows")
            _spill(ordered, spills[-1], memory_bytes)
            del ordered
        yield from _merged(spills, codes_of)
    finally:
        for path in spills:
            files.remove(path)


def _chunks(tables: Iterable[pa.Table], chunk_bytes: int) -> Iterator[tuple[pa.Table, bool]]:
    """Concatenate tables into chunks; also whether a chunk is the whole input."""
    waiting: list[pa.Table] = []
    size, given = 0, 0
    for table in tables:
        for part in _cut(table, chunk_bytes):
            waiting.append(part)
            size += part.nbytes
            if size >= chunk_bytes:
                yield pa.concat_tables(waiting), False
                waiting, size, given = [], 0, given + 1
    if waiting:
        yield pa.concat_tables(waiting), not given


def _cut(table: pa.Table, chunk_bytes: int) -> Iterator[pa.Table]:
    """A table in pieces of at most a chunk."""
    rows = max(1, table.num_rows * chunk_bytes // max(1, table.nbytes))
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)


def _sorted(table: pa.Table, codes_of: CodesOf) -> pa.Table:
    keys = codes_of(table)
    if key_codec.first_not_rising(keys) is None:
        return table
    return table.combine_chunks().take(pa.array(key_codec.argsort(keys)))


def _spill(table: pa.Table, path: Path, memory_bytes: int) -> None:
    """Write blocks so small that one per spill fits into memory, for up to some hundred spills."""
    row_bytes = max(1, table.nbytes // max(1, table.num_rows))
    rows = min(_BLOCK_ROWS_MAX, max(256, memory_bytes // 128 // row_bytes))
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)


class _Cursor:
    """The merge's position in one spill."""

    def __init__(self, path: Path, codes_of: CodesOf) -> None:
        self._file = pa.OSFile(str(path), "rb")
        self._reader, self._codes_of = pa.ipc.open_stream(self._file), codes_of
        self.block: pa.Table | None = None
        self.advance()

    def advance(self) -> None:
        """Load the next block that has rows."""
        batch = next(self._reader, None)
        self.block = None if batch is None else pa.Table.from_batches([batch])
        if self.block is None:
            self._file.close()
            return
        self.keys = self._codes_of(self.block)
        self.last = self.keys.slice(len(self.keys) - 1)

    def cut(self, bound: pa.Array) -> tuple[pa.Table, pa.Array] | None:
        """Remove and return the rows up to and including a code."""
        assert self.block is not None, "a finished cursor is not asked"
        end = int(key_codec.search(self.keys, bound, "right")[0])
        if end == 0:
            return None
        taken = self.block.slice(0, end), self.keys.slice(0, end)
        if end == len(self.keys):
            self.advance()
        else:
            self.block, self.keys = self.block.slice(end), self.keys.slice(end)
        return taken


def _merged(spills: list[Path], codes_of: CodesOf) -> Iterator[pa.Table]:
    cursors = [_Cursor(path, codes_of) for path in spills]
    while cursors := [cursor for cursor in cursors if cursor.block is not None]:
        lasts = key_codec.concat([cursor.last for cursor in cursors])
        bound = lasts.slice(int(key_codec.argsort(lasts)[0]), 1)
        taken = [part for cursor in cursors if (part := cursor.cut(bound)) is not None]
        keys = key_codec.concat([part[1] for part in taken])
        table = pa.concat_tables([part[0] for part in taken])
        del taken
        order = key_codec.argsort(keys)
        yield table if np.all(order[1:] > order[:-1]) else table.combine_chunks().take(pa.array(order))
