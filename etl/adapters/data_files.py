"""Parquet files as tasks write them: whole, synced, with the statistics that Delta's log carries.

A file is part of no table until a batch's decision names it and publishing adds it; a try that ends early leaves files
that nobody names, and maintenance removes them.
"""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from etl.adapters.durable import make_folder, sync_files
from etl.adapters.ledger import Cause, DataFile
from etl.adapters.postgres.binary import write_values

_ROWS_PER_GROUP = 262_144
_FEW_ROWS = 64  # up to which a dictionary costs more than it saves
_LONGEST_TEXT = 32  # of a minimum or maximum; longer ones say little and cost in every log entry


def write_part(root: Path, table: str, name: str, rows: pa.Table, cause: Cause | None = None) -> DataFile:
    """Write rows as one file of a table. Synced: a decision may rely on it."""
    path = root / table / name
    make_folder(path.parent)
    written: list[Any] = []
    with pa.OSFile(str(path), "wb") as sink:
        pq.write_table(
            rows, sink, compression="snappy", row_group_size=_ROWS_PER_GROUP, coerce_timestamps="us",
            use_dictionary=rows.num_rows > _FEW_ROWS, metadata_collector=written,
        )  # fmt: skip
    sync_files([path])
    return DataFile(table, name, rows.num_rows, path.stat().st_size, json.dumps(_statistics(*written)), cause)


def read_parts(root: Path, files: tuple[DataFile, ...], columns: list[str] | None = None) -> pa.Table:
    """The rows of some files of one table."""
    return pa.concat_tables([pq.read_table(root / one.table / one.path, columns=columns) for one in files])


def write_for_copy(path: Path, rows: pa.Table) -> None:
    """Write rows as the bytes that COPY reads, synced: the driver only passes them on."""
    make_folder(path.parent)
    with path.open("wb") as sink:
        write_values(rows, sink)
    sync_files([path])


def write_arrow(path: Path, rows: pa.Table) -> int:
    """Write rows as an Arrow file, synced; gives its size."""
    make_folder(path.parent)
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    sync_files([path])
    return path.stat().st_size


def _statistics(metadata: Any) -> dict[str, Any]:
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index in range(metadata.num_columns):
        groups = [metadata.row_group(group).column(index) for group in range(metadata.num_row_groups)]
        name = groups[0].path_in_schema if groups else ""
        known = [group.statistics for group in groups if group.statistics is not None]
        if not groups or "." in name or len(known) != len(groups):
            continue
        nulls[name] = sum(one.null_count for one in known)
        ranges = [(one.min, one.max) for one in known if one.has_min_max]
        if ranges and _plain(ranges[0][0]) is not None and _plain(ranges[0][1]) is not None:
            least[name] = _plain(min(low for low, _ in ranges))
            most[name] = _plain(max(high for _, high in ranges))
    return {"numRecords": metadata.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}


def _plain(value: object) -> str | int | None:
    """A bound as Delta's log writes it; None where it cannot be exact there."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, datetime):
        # Delta compares timestamps to the millisecond: a bound must not cut off what lies behind it.
        return None if value.microsecond % 1000 else f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03d}Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT and value.isprintable() else None
    return None
