"""Parquet files as tasks write them: atomic, synced, with the statistics for Delta's log.

A file belongs to no table until a batch's decision names it and publishing adds it; a try that ends early leaves
unreferenced files, which maintenance removes.
"""

from __future__ import annotations

import json
import math
from datetime import date, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from etl.adapters.durable import make_folder, sync_files
from etl.adapters.ledger import Cause, DataFile
from etl.adapters.postgres.binary import write_values

_ROWS_PER_GROUP = 262_144
_FEW_ROWS = 64  # up to this, dictionary encoding costs more than it saves
_LONGEST_TEXT = 32  # of a minimum or maximum; longer ones say little and cost in every log entry
_LAST = "\U0010ffff"  # the greatest code point
_MANY, _FINE = 10**11, Decimal("0.0001")  # together at most the 15 digits that a float keeps


def write_part(root: Path, table: str, name: str, rows: pa.Table, cause: Cause | None = None) -> DataFile:
    """Write rows as one file of a table, synced before a decision names it."""
    path = root / table / name
    make_folder(path.parent)
    written: list[Any] = []
    with pa.OSFile(str(path), "wb") as sink:
        pq.write_table(
            rows, sink, compression="snappy", row_group_size=_ROWS_PER_GROUP, coerce_timestamps="us",
            use_dictionary=rows.num_rows > _FEW_ROWS, metadata_collector=written,
        )  # fmt: skip
    sync_files([path])
    return DataFile(table, name, rows.num_rows, path.stat().st_size, json.dumps(_statistics(written[0], rows)), cause)


def read_parts(root: Path, files: tuple[DataFile, ...], columns: list[str] | None = None) -> pa.Table:
    """The rows of some files of one table."""
    return pa.concat_tables([pq.read_table(root / one.table / one.path, columns=columns) for one in files])


def write_for_copy(path: Path, rows: pa.Table) -> None:
    """Write rows in COPY's format, synced: the driver only forwards the bytes."""
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


def _statistics(metadata: Any, rows: pa.Table) -> dict[str, Any]:
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
        if len(ranges) < len(groups) and nulls[name] < metadata.num_rows:
            ranges += _range_of_texts(rows[name])
        bounds = _bounds(min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None
        if bounds is not None:
            least[name], most[name] = bounds
    return {"numRecords": metadata.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}


def _range_of_texts(values: pa.ChunkedArray) -> list[tuple[str, str]]:
    """Minimum and maximum of texts: Parquet keeps neither for a row group if one is longer than 4 KiB."""
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return []
    found = pc.min_max(values.cast(kind)).as_py()
    return [(found["min"], found["max"])]


def _bounds(low: Any, high: Any) -> tuple[Any, Any] | None:
    """Bounds as Delta's log writes them, widened where it cannot be exact; None for types without bounds in the log.

    Every column with values needs bounds: some readers take a missing one for NULL, and filters on it find nothing.
    """
    if isinstance(low, bool | int | date) and not isinstance(low, datetime):
        return (low, high) if isinstance(low, int) else (low.isoformat(), high.isoformat())
    if isinstance(low, float):
        return (low, high) if math.isfinite(low) and math.isfinite(high) else None
    if isinstance(low, Decimal):
        return _number(low, ROUND_FLOOR), _number(high, ROUND_CEILING)
    if isinstance(low, datetime):  # compared to the millisecond
        up = timedelta(microseconds=-high.microsecond % 1000)
        last = datetime.max.replace(tzinfo=high.tzinfo)  # nothing is later; some readers compare microseconds, too
        return _moment(low), _moment(high + up) if high <= last - up else f"{last:%Y-%m-%dT%H:%M:%S.%f}Z"
    if isinstance(low, str):
        return _text(low), _text(high) + ("" if _text(high) == high else _LAST)
    return None


def _number(value: Decimal, rounding: str) -> int | float:
    """A decimal as a JSON number without an exponent and with no more digits than a float keeps."""
    if abs(value) >= _MANY:
        return int(value.to_integral_value(rounding))
    return float(value.quantize(_FINE, rounding))


def _moment(value: datetime) -> str:
    return f"{value.year:04d}-{value:%m-%dT%H:%M:%S}.{value.microsecond // 1000:03d}Z"


def _text(value: str) -> str:
    """The first characters of a text, up to one that is not printable."""
    begin = value[:_LONGEST_TEXT]
    return next((begin[:at] for at, letter in enumerate(begin) if not letter.isprintable()), begin)
