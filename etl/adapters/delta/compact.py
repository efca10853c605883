"""Compaction of chosen files of a table: many small ones become one, all others keep their names.

    small files, except those to keep ──▶ one file, synced ──▶ one log entry: remove them, add it; no row changes

OPTIMIZE cannot spare files, and the ledger names those in which events wait. Removed files stay in the folder until
VACUUM's retention, so whoever has their names still reads them (ADR 124).
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from etl.adapters.delta.data_files import write_part
from etl.adapters.delta.log import DeltaLog

SMALL_BYTES, MOST_BYTES = 16 * 2**20, 64 * 2**20
"""A file that is worth compacting, and the sum of those that become one."""
MOST_DECODED = 256 * 2**20
"""The same sum in memory, where repeated texts take their full length."""
Sizes = dict[str, int]


def mergeable(delta: DeltaLog, table: str, keep: Collection[str]) -> Sizes:
    """Small files of a table with their sizes, except those to keep; none where files may have deleted rows."""
    opened = delta.table(table)
    if "deletionVectors" in (opened.protocol().reader_features or ()):
        return {}
    actions: Any = pa.table(opened.get_add_actions())
    sizes = zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True)
    return {path: size for path, size in sizes if size < SMALL_BYTES and path not in keep}


def compact(delta: DeltaLog, table: str, files: Sizes) -> int:
    """Merge these files; returns how many there are fewer."""
    fewer = 0
    for group, rows in _groups(delta.folder(table), files):
        merged = write_part(delta.root, table, f"compacted-{secrets.token_hex(8)}.parquet", rows)
        if delta.replace(table, group, merged):
            fewer += len(group) - 1
    return fewer


def _groups(folder: Path, files: Sizes) -> Iterator[tuple[Sizes, pa.Table]]:
    """Groups of two files or more with their rows, which are few enough for memory however well they are compressed."""
    group: Sizes = {}
    parts: list[pa.Table] = []
    for path, size in sorted(files.items()):
        rows = pq.read_table(folder / path)
        full = sum(group.values()) + size > MOST_BYTES or sum(one.nbytes for one in parts) + rows.nbytes > MOST_DECODED
        if full:
            yield from _merged(group, parts)
            group, parts = {}, []
        group[path] = size
        parts.append(rows)
    yield from _merged(group, parts)


def _merged(group: Sizes, parts: list[pa.Table]) -> Iterator[tuple[Sizes, pa.Table]]:
    if len(group) > 1:
        yield group, pa.concat_tables(parts, promote_options="default")  # columns that were added later are NULL
