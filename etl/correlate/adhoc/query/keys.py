"""A stream's columns as join keys: numbers of one or two lanes, for any type (ADR 42).

Integers, booleans, dates and timestamps are one lane; two integers are two lanes; everything else is a fingerprint of
128 bits, which is treated as the key. A NULL joins with nothing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etl.columnar import csr
from etl.columnar.keys import encode, to_contiguous, valid


def comparison_kind(kind: pa.DataType) -> str | None:
    """The kind of key that a column is, regardless of width; only equal kinds join. None: it cannot be a key."""
    if pa.types.is_boolean(kind) or (pa.types.is_integer(kind) and not pa.types.is_uint64(kind)):
        return "integer"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "string"
    if pa.types.is_date(kind):
        return "date"
    return str(kind) if pa.types.is_timestamp(kind) or pa.types.is_time(kind) else None


def _as_key(column: pa.ChunkedArray) -> pa.Array:
    array = to_contiguous(column)
    kind = array.type
    if pa.types.is_date(kind):
        return array.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return array.cast(pa.int64())
    if pa.types.is_time32(kind):
        return array.cast(pa.int32()).cast(pa.int64())
    return array.cast(pa.int64() if pa.types.is_boolean(kind) or pa.types.is_integer(kind) else pa.string())


def index_by(table: pa.Table, columns: tuple[str, ...]) -> csr.Csr:
    """The index of a table's rows by one column or several together."""
    parts = [_as_key(table[name]) for name in columns]
    array = parts[0] if len(parts) == 1 else pa.StructArray.from_arrays(parts, [str(at) for at in range(len(parts))])
    whole: npt.NDArray[np.bool_] = valid(array)
    rows = np.flatnonzero(whole).astype(np.int32)
    if len(rows) < len(array):
        array = array.take(pa.array(rows))
    return csr.build(encode(array), rows)
