"""Rows gathered in rising order from a table in pieces, against Arrow's own `take`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from etl.columnar.gather import MasterRows, stable_argsort

COLUMNS = ["name", "size"]


def in_pieces(sizes: list[int]) -> pa.Table:
    total = sum(sizes)
    names = [None if row % 7 == 3 else f"row {row}" for row in range(total)]
    whole = pa.table({"id": range(total), "name": pa.array(names, pa.string()), "size": pa.array(range(total))})
    starts = np.cumsum([0, *sizes])
    return pa.concat_tables([whole.slice(start, size) for start, size in zip(starts, sizes, strict=False)])


@st.composite
def tables_and_positions(draw: st.DrawFn) -> tuple[pa.Table, np.ndarray]:
    table = in_pieces(draw(st.lists(st.integers(0, 9), min_size=1, max_size=6)))
    wanted = draw(st.lists(st.integers(-2, table.num_rows - 1) if table.num_rows else st.integers(-2, -1)))
    return table, np.array(wanted, np.int64)


def one_by_one(table: pa.Table, positions: np.ndarray) -> list[dict | None]:
    rows = table.select(COLUMNS).to_pylist()
    return [None if position < 0 else rows[position] for position in positions.tolist()]


@given(tables_and_positions())
def test_rows_at_rising_positions_are_the_rows_one_by_one(case: tuple[pa.Table, np.ndarray]) -> None:
    table, positions = case
    rising = positions[stable_argsort(positions)]
    assert rising.tolist() == sorted(positions.tolist())
    assert MasterRows(table, COLUMNS).take(rising).to_pylist() == one_by_one(table, rising)


@given(tables_and_positions())
def test_compact_rows_stand_for_positions_in_any_order(case: tuple[pa.Table, np.ndarray]) -> None:
    table, positions = case
    rows, code = MasterRows(table, COLUMNS).compact(positions)
    assert len(rows) == len(set(positions.tolist())), "each row once"
    assert rows.take(pa.array(code)).to_pylist() == one_by_one(table, positions)


def test_equal_positions_keep_their_order() -> None:
    order = stable_argsort(np.array([3, -1, 3, -2, 3, -1]))
    assert order.tolist() == [3, 1, 5, 0, 2, 4]
