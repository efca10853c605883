"""Partial aggregates of materialised results, by Arrow: the straightforward way, which `aggregate` must equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.correlate.adhoc.query.model import ColumnOf, Query
from etl.correlate.adhoc.run.sinks.result import COUNT, Atom, Chunk, atom_name, atoms_of, group_name, merge_partials


def tally(query: Query, chunk: Chunk, type_of: Callable[[ColumnOf], pa.DataType]) -> pa.Table | None:
    """A query's partial aggregates over materialised results."""
    if not len(chunk):
        return None
    columns: dict[str, Any] = {group_name(of): chunk.take(of) for of in query.group_by}
    columns[COUNT] = pa.array([1] * len(chunk), pa.int64())
    for atom in atoms_of(query):
        columns[atom_name(atom)] = _atom(atom, chunk.take(atom[1]), type_of(atom[1]))
    return merge_partials(query, [pa.table(columns)])


def _atom(atom: Atom, column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if atom[0] == "nonnull":
        return pc.is_valid(column).cast(pa.int64())
    if atom[0] != "sum":
        return column
    if pa.types.is_decimal(kind):
        return pc.fill_null(column.cast(pa.decimal128(38, kind.scale)), 0)
    return pc.fill_null(column.cast(pa.float64() if pa.types.is_floating(kind) else pa.int64()), 0)
