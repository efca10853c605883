"""Bounds of columns in Delta's log: readers that leave out files by them leave out none that they want."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from etl.adapters.delta import data_files
from etl.adapters.delta.data_files import _bounds, write_part
from etl.adapters.delta.log import DeltaLog

MOMENT = datetime(2026, 11, 1, 1, 2, 3, 123_456, tzinfo=UTC)
COLUMNS: dict[str, tuple[pa.DataType, Any, Any]] = {
    "int": (pa.int64(), 1, 2),
    "bool": (pa.bool_(), False, True),
    "float": (pa.float64(), 1.5, 1e300),
    "date": (pa.date32(), date(2026, 1, 1), date(2026, 1, 2)),
    "moment": (pa.timestamp("us", "UTC"), MOMENT, MOMENT + timedelta(days=1)),
    "price": (pa.decimal128(18, 2), Decimal("19.99"), Decimal("1234567890123456.78")),
    "share": (pa.decimal128(38, 10), Decimal("0.0000000001"), Decimal("0.1234567891")),
    "text": (pa.string(), "a" * 50, "b" * 50),
    "hostile": (pa.string(), "\x00", "z\x1b]0;"),
    "empty": (pa.int64(), None, None),
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> ds.Dataset:
    root = tmp_path_factory.mktemp("tables")
    values = pa.table({name: pa.array([low, high], kind) for name, (kind, low, high) in COLUMNS.items()})
    log = DeltaLog(root, "app")
    log.create("t", values.schema)
    log.add("t", [write_part(root, "t", "one.parquet", values)], 1)
    return DeltaTable(str(root / "t")).to_pyarrow_dataset()


@pytest.mark.parametrize("name", [name for name, (_, low, _) in COLUMNS.items() if low is not None])
def test_a_filter_finds_the_least_and_the_most(rows: ds.Dataset, name: str) -> None:
    kind, *values = COLUMNS[name]
    for value in values:
        assert rows.to_table(filter=ds.field(name) == pa.scalar(value, kind)).num_rows == 1, value


@pytest.mark.parametrize("year", [1, 999, 1000])
def test_a_filter_finds_times_of_early_years(tmp_path: Path, year: int) -> None:
    early = datetime(year, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert found_by_their_values(tmp_path, pa.timestamp("us", "UTC"), early) == 1


@pytest.mark.parametrize("microsecond", [0, 998_999, 999_000, 999_001, 999_999])
def test_a_filter_finds_the_end_of_time(tmp_path: Path, microsecond: int) -> None:
    last = datetime(9999, 12, 31, 23, 59, 59, microsecond, tzinfo=UTC)
    assert found_by_their_values(tmp_path, pa.timestamp("us", "UTC"), last) == 1


def found_by_their_values(root: Path, kind: pa.DataType, value: Any) -> int:
    """How many rows a filter finds that asks for just this value, in a table that holds it once."""
    values = pa.table({"at": pa.array([value], kind)})
    log = DeltaLog(root, "app")
    log.create("t", values.schema)
    log.add("t", [write_part(root, "t", "one.parquet", values)], 1)
    rows = DeltaTable(str(root / "t")).to_pyarrow_dataset()
    return int(rows.to_table(filter=ds.field("at") == pa.scalar(value, kind)).num_rows)


@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20), min_size=2))
def test_bounds_of_decimals_hold_them_without_an_exponent(values: list[Decimal]) -> None:
    low, high = _bounds(min(values), max(values)) or (1, 0)
    assert Decimal(repr(low)) <= min(values) <= max(values) <= Decimal(repr(high))
    assert "e" not in repr(low) + repr(high)


@given(st.lists(st.text(), min_size=2))
def test_bounds_of_texts_hold_them_and_can_be_printed(values: list[str]) -> None:
    low, high = _bounds(min(values), max(values)) or ("b", "a")
    assert low <= min(values) <= max(values) <= high or max(values)[len(high) - 1 :] > high[-1:]
    assert low.isprintable()


@pytest.mark.parametrize("rows_per_group", [2, 4])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_texts_for_which_parquet_keeps_no_bounds_hide_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType, rows_per_group: int
) -> None:
    monkeypatch.setattr(data_files, "_ROWS_PER_GROUP", rows_per_group)
    texts = ["m", "n", None, "z" * 5_000, "y", "a" * 5_000]
    values = pa.table({"text": pa.array(texts).cast(kind)})
    log = DeltaLog(tmp_path, "app")
    log.create("t", pa.schema({"text": pa.string()}))
    log.add("t", [write_part(tmp_path, "t", "one.parquet", values)], 1)
    found = DeltaTable(str(tmp_path / "t")).to_pyarrow_dataset()
    for text in filter(None, texts):
        assert found.to_table(filter=ds.field("text") == text).num_rows == 1, text[:5]
