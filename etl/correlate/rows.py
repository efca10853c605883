"""Rows by reference: the kernels' port to a stream log.

`Rows` is the port: segments on disk implement it in the shell, `MemoryRows` in tests and simulations. Columns are
asked for by their dotted name, `alias.column`; a reference matrix has one column per alias.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etl.columnar.expression import Expression
from etl.correlate.model import I64, rows_of, segments_of


class Rows(Protocol):
    """Takes columns of one stream by reference, in the order of the references."""

    def take(self, refs: I64, columns: Sequence[str]) -> pa.RecordBatch: ...


class Residual(Protocol):
    """The part of a condition that is evaluated on rows."""

    def holds(self, left: I64, right: I64) -> npt.NDArray[np.bool_]: ...


class MemoryRows:
    """Segments held in memory."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._segments: dict[int, pa.RecordBatch] = {}

    def append(self, segment: int, batch: pa.RecordBatch) -> None:
        assert segment not in self._segments, "a segment never changes"
        self._segments[segment] = batch

    def take(self, refs: I64, columns: Sequence[str]) -> pa.RecordBatch:
        wanted = pa.schema([self._schema.field(name) for name in columns])
        return take_rows(refs, wanted, lambda number, _: self._segments[number].select(list(columns)))


def take_rows(refs: I64, wanted: pa.Schema, segment: Callable[[int, pa.Schema], pa.RecordBatch]) -> pa.RecordBatch:
    """Rows by reference, in the order of the references; `segment` gives columns of one segment."""
    if not len(refs):
        return pa.RecordBatch.from_arrays([pa.array([], one.type) for one in wanted], schema=wanted)
    numbers, rows = segments_of(refs), rows_of(refs)
    near = numbers - numbers.min()
    order = np.argsort(near.astype(np.uint16) if near.max() < 1 << 16 else near, kind="stable")  # by radix
    bounds = np.flatnonzero(np.diff(numbers[order])) + 1
    parts = [
        segment(int(numbers[at[0]]), wanted).take(pa.array(rows[at])) for at in np.split(order, bounds)
    ]  # a segment at a time
    if len(parts) == 1:
        return parts[0]
    back = np.empty(len(refs), np.int64)
    back[order] = np.arange(len(refs))
    table = pa.Table.from_batches(parts).combine_chunks().take(pa.array(back)).combine_chunks()
    return table.to_batches()[0]


@dataclass(frozen=True, slots=True)
class JoinedRows:
    """Rows of several streams at once: column i of a reference matrix belongs to the i-th alias."""

    aliases: tuple[str, ...]
    rows: Mapping[str, Rows]  # per alias, columns without the alias

    def take(self, refs: I64, columns: frozenset[str]) -> pa.RecordBatch:
        """The dotted columns, one row per row of the matrix."""
        arrays: dict[str, pa.Array] = {}
        for position, alias in enumerate(self.aliases):
            own = sorted(name for name in columns if name.partition(".")[0] == alias)
            if own:
                batch = self.rows[alias].take(refs[:, position], [name.partition(".")[2] for name in own])
                arrays |= dict(zip(own, batch.columns, strict=True))
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(refs), pa.struct([])))
        return pa.record_batch(arrays)


@dataclass(frozen=True, slots=True)
class RowResidual:
    """An expression over the rows of both sides; NULL does not hold."""

    expression: Expression
    left: JoinedRows
    right: JoinedRows

    def holds(self, left: I64, right: I64) -> npt.NDArray[np.bool_]:
        columns = self.expression.columns
        halves = [self.left.take(left, columns), self.right.take(right, columns)]
        arrays = {name: half.column(name) for half in halves for name in half.schema.names}
        return np.asarray(self.expression.evaluate(pa.record_batch(arrays)).fill_null(False), bool)
