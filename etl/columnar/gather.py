"""Gather master rows by position, in ascending order of position.

    position per tuple ──► stable_argsort ──► tuples in the order of their master rows ──► MasterRows.take

Copying strings from ascending positions takes a third of the time of copying them from random ones (measured on 200
thousand rows of 142 bytes: 14 ms against 36, and 4 for the sort), and tuples are thinner than master rows. So the
tuples are sorted. Nothing downstream relies on the order of tuples within a batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from etl.columnar.keys import I64

_HALF = 32


def stable_argsort(position: I64) -> I64:
    """A stable argsort. Value and index are packed into one integer and sorted in place, which is much faster."""
    assert len(position) < 1 << _HALF, "an index fits into half an integer"
    least = int(position.min(initial=0))
    packed = ((position - least) << _HALF) | np.arange(len(position))
    packed.sort()
    return packed & ((1 << _HALF) - 1)


class MasterRows:
    """Some columns of a table that may be in many pieces, as one struct per row."""

    def __init__(self, master: pa.Table, columns: Sequence[str]) -> None:
        batches = master.select(list(columns)).to_batches()
        self._pieces = [batch.to_struct_array() for batch in batches]
        self._starts = np.cumsum([0, *(len(piece) for piece in self._pieces)])
        self.type = pa.struct([master.schema.field(name) for name in columns])

    def take(self, rising: I64) -> pa.StructArray:
        """The rows at ascending positions; a negative position means no row, and gives NULL."""
        absent = int(np.searchsorted(rising, 0))
        parts = [pa.nulls(absent, self.type)] if absent or not len(rising) else []
        while absent < len(rising):
            number = int(np.searchsorted(self._starts, rising[absent], "right")) - 1
            stop = int(np.searchsorted(rising, self._starts[number + 1]))
            parts.append(self._pieces[number].take(pa.array(rising[absent:stop] - self._starts[number])))
            absent = stop
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)

    def compact(self, position: I64) -> tuple[pa.StructArray, I64]:
        """The rows at any positions, each once, and for each position which of them it is."""
        order = stable_argsort(position)
        rising = position[order]
        first = np.ones(len(rising), bool)
        first[1:] = rising[1:] != rising[:-1]
        code = np.empty(len(position), np.int64)
        code[order] = np.cumsum(first) - 1
        return self.take(rising[first]), code


def compacted(master: pa.Table, position: I64) -> tuple[pa.Table, I64]:
    """The rows of a table at any positions, each once and copied, and for each position which of them it is."""
    rows, code = MasterRows(master, master.column_names).compact(position)
    return pa.Table.from_struct_array(rows), code
