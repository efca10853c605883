"""Surrogate keys of dimension rows: hashes, so a fact needs no lookup and repeating a load gives the same keys.

scd1   natural key                        → key
scd2   natural key + time of the version  → key            (ADR 5)
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from etl.columnar.keys import fingerprint64, valid
from etl.contract.model import Master


def surrogate_key(parts: list[pa.Array]) -> pa.Array:
    """One 64-bit key for every row; NULL where a part of the natural key is NULL."""
    whole = np.logical_and.reduce([valid(part) for part in parts])
    return pa.array(fingerprint64([_comparable(part) for part in parts]), mask=~whole)


def _comparable(part: pa.Array) -> pa.Array:
    """Normalize values so that equal ones hash equally; NULLs become an arbitrary value, as they are masked."""
    if pa.types.is_timestamp(part.type):
        part = part.cast(pa.timestamp("us", part.type.tz)).view(pa.int64())
    elif pa.types.is_date(part.type):
        part = part.cast(pa.int32()).cast(pa.int64())
    elif pa.types.is_integer(part.type):
        part = part.cast(pa.int64())
    elif not (pa.types.is_binary(part.type) or pa.types.is_large_binary(part.type)):
        part = part.cast(pa.string())
    return part.fill_null(0 if pa.types.is_integer(part.type) else "")


def fact_key(rows: pa.Table, master: Master) -> pa.Array:
    """The surrogate key of the dimension row that each fact was enriched with."""
    parts = [_whole(rows.column(name)) for name in master.stream_columns]
    if master.history == "scd2" and master.version is not None:
        parts.append(_whole(rows.column(f"{master.name}.{master.version}")))
    return surrogate_key(parts)


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
