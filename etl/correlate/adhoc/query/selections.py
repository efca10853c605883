"""All queries' selections of one stream, evaluated together (section 2 of the paper: query sets).

    column values     ..... 3 ..... 7 .......      cut points of all queries on the column
    cells              0    1   2   3    4  (5: NULL)    all values of a cell match the same queries
    tables             cell → queries whose condition on the column holds (bitset)
    query set          AND over the columns of tables[cell]

A query with alternatives (OR over columns) has one bit in each of several planes; its bit is the OR of the planes.
The cost per tuple is a search among the cut points and a few words per column, whatever the number of queries;
`active` determines first, from the cells that occur, which queries can match at all; only their bits are computed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from etl.columnar import bitsets
from etl.columnar.bitsets import I32, I64, U64
from etl.columnar.jit import allocating_kernel as kernel
from etl.columnar.keys import to_contiguous
from etl.correlate.adhoc.query.domain import Domain, domain_of, to_numbers
from etl.correlate.adhoc.query.model import Alternative
from etl.correlate.adhoc.query.values import BEFORE, ValueSet

_LOOKUP = 1 << 16  # a range of cut points up to this wide is looked up in a table instead of searched
_LEAST, _MOST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Cells:
    """The cut points of one column and the cells between them. Cell 2i+1 is point i itself; the last cell is NULL's."""

    points: tuple[Any, ...]
    domain: Domain

    @property
    def count(self) -> int:
        return 2 * len(self.points) + 2

    def table_column(self, allowed: ValueSet) -> npt.NDArray[np.bool_]:
        """Which cells a set of values covers."""
        flips = np.zeros(self.count, np.int8)
        for value, side in allowed.cuts:
            at = 2 * bisect_left(self.points, value) + (1 if side == BEFORE else 2)
            flips[at] ^= 1
        inside = (np.bitwise_xor.accumulate(flips) ^ allowed.below).astype(bool)
        inside[-1] = allowed.null
        return inside

    def locate(self, column: pa.ChunkedArray) -> I32:
        """The cell of every value."""
        if self.domain == "text":
            return self._locate_text(to_contiguous(column))
        values, missing = to_numbers(column)
        cells = self._lookup(values) if self._lookup_table is not None else self._search(values)
        if missing is not None:
            cells[missing] = self.count - 1
        return cells

    def _search(self, values: npt.NDArray[Any]) -> I32:
        if not self.points:
            return np.zeros(len(values), np.int32)
        points = np.array(self.points, values.dtype)
        left = np.searchsorted(points, values)
        equal = points[np.minimum(left, len(points) - 1)] == values
        return np.asarray(2 * left + equal, np.int32)

    @cached_property
    def _lookup_table(self) -> I32 | None:
        """The cells of all integers from one below the first point to one above the last."""
        if self.domain != "integer" or not self.points or self.points[-1] - self.points[0] >= _LOOKUP:
            return None
        if not _LEAST < self.points[0] <= self.points[-1] < _MOST - 1:  # there is nothing below or above
            return None
        return self._search(np.arange(self.points[0] - 1, self.points[-1] + 2, dtype=np.int64))

    def _lookup(self, values: npt.NDArray[Any]) -> I32:
        assert self._lookup_table is not None, "looked up without a table"
        return _look_up(self._lookup_table, values, self.points[0] - 1)

    def _locate_text(self, column: pa.Array) -> I32:
        """Each distinct string is searched once."""
        encoded = column.dictionary_encode()
        strings = encoded.dictionary.cast(pa.string())
        ranks = np.asarray(pc.rank(pa.concat_arrays([pa.array(self.points, pa.string()), strings]), tiebreaker="dense"))
        of_points, of_strings = ranks[: len(self.points)], ranks[len(self.points) :]
        cells = np.append(self._cells_among(of_points, of_strings), self.count - 1).astype(np.int32)
        return np.asarray(cells[np.asarray(encoded.indices.fill_null(len(strings)))], np.int32)

    @staticmethod
    def _cells_among(points: npt.NDArray[Any], values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if not len(points):
            return np.zeros(len(values), np.int32)
        left = np.searchsorted(points, values)
        return np.asarray(2 * left + (points[np.minimum(left, len(points) - 1)] == values))


@kernel
def _look_up(table: I32, values: I64, first: int) -> I32:
    """The cells of values, clamped to the ends of the table."""
    cells, last = np.empty(len(values), np.int32), len(table) - 1
    for at in range(len(values)):
        if values[at] <= first:
            cells[at] = table[0]
        else:
            cells[at] = table[last] if values[at] >= first + last else table[values[at] - first]
    return cells


class Selections:
    """The selections of many queries on one stream, compiled. Bit b belongs to entry b of `alternatives`."""

    def __init__(
        self, types: Mapping[str, pa.DataType], alternatives: Sequence[tuple[Alternative, ...] | None]
    ) -> None:
        self.size = len(alternatives)
        self._cells = {name: _cells_of(name, types[name], alternatives) for name in _columns_of(alternatives)}
        planes = max((1 if each is None else len(each) for each in alternatives), default=0)
        self._planes = [_plane(self._cells, alternatives, at) for at in range(planes)]

    def locate(self, table: pa.Table) -> dict[str, I32]:
        """The cells of a table's rows, column by column: computed once, used for every group of queries.

        A column that the table lacks is used only by queries that are newer than its tuples, and must not see them.
        """
        there, rows = set(table.column_names), table.num_rows
        return {
            name: cells.locate(table[name]) if name in there else np.zeros(rows, np.int32)
            for name, cells in self._cells.items()
        }

    def active(self, cells: Mapping[str, I32], rows: int) -> int:
        """A mask of the queries that can match some row."""
        if not rows:
            return 0
        present = {name: np.flatnonzero(np.bincount(at)) for name, at in cells.items()}
        found = 0
        for having, tables in self._planes:
            plane = having
            for name, table in tables.items():
                plane &= bitsets.to_mask(np.bitwise_or.reduce(table[present[name]], axis=0))
            found |= plane
        return found

    def evaluate(self, cells: Mapping[str, I32], rows: int, wanted: int) -> U64:
        """The query sets of all rows, for the queries in the mask `wanted`."""
        positions = bitsets.positions_of(wanted)
        words = np.zeros((rows, bitsets.words_for(len(positions))), np.uint64)
        for having, tables in self._planes:
            if not having & wanted:
                continue
            start = bitsets.select(bitsets.from_mask(having, self.size)[None, :], positions)
            plane = np.repeat(start, rows, axis=0)
            for name, table in tables.items():
                narrow = bitsets.select(table, positions)
                if not np.array_equal(np.bitwise_and.reduce(narrow, axis=0) & start[0], start[0]):
                    bitsets.gather_and(plane, narrow, cells[name])
            words |= plane
        return words


def _columns_of(alternatives: Sequence[tuple[Alternative, ...] | None]) -> list[str]:
    return sorted({name for each in alternatives for one in each or () for name in one})


def _cells_of(name: str, kind: pa.DataType, alternatives: Sequence[tuple[Alternative, ...] | None]) -> Cells:
    sets = [one[name] for each in alternatives for one in each or () if name in one]
    domain = domain_of(kind)
    assert domain is not None, "a selection compares a column that has no domain"
    points = {cut[0] for allowed in sets for cut in allowed.cuts}
    return Cells(tuple(sorted(points)), domain)


def _plane(
    cells: Mapping[str, Cells], alternatives: Sequence[tuple[Alternative, ...] | None], at: int
) -> tuple[int, dict[str, U64]]:
    """The `at`-th alternative of every query: a mask of the queries that have one, and a table per column."""
    ones: list[Alternative | None] = []
    for each in alternatives:
        found: tuple[Alternative, ...] = ({},) if each is None else each
        ones.append(found[at] if at < len(found) else None)
    having = bitsets.mask_of(bit for bit, one in enumerate(ones) if one is not None)
    tables = {}
    for name, column in cells.items():
        bits = np.ones((column.count, len(ones)), bool)
        for bit, one in enumerate(ones):
            if one is not None and name in one:
                bits[:, bit] = column.table_column(one[name])
        tables[name] = bitsets.pack(bits)
    return having, tables
