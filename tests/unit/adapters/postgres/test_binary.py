"""COPY's binary format: whatever rows there are, a table has the same values by it as by text."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg2 import sql

from etl.adapters import postgres
from etl.adapters.postgres import binary
from etl.contract.words.types import TIMESTAMP, postgres_type

_DIGITS = [pa.decimal128(*one) for one in ((38, 0), (38, 38), (38, 17), (18, 4), (3, 3), (1, 0), (5, 1))]
_KINDS = (pa.int32(), pa.int64(), pa.float64(), pa.bool_(), pa.string(), pa.date32(), TIMESTAMP, *_DIGITS)


def _decimals(kind: pa.DataType) -> st.SearchStrategy[Decimal]:
    most = 10**kind.precision - 1
    return st.integers(-most, most).map(lambda n: Decimal(f"{n}e-{kind.scale}")) | st.just(Decimal(0))


def _values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_decimal(kind):
        return _decimals(kind)
    if pa.types.is_string(kind):
        return st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=300)
    return {
        pa.int32(): st.integers(-(2**31), 2**31 - 1),
        pa.int64(): st.integers(-(2**63), 2**63 - 1),
        pa.float64(): st.floats(),
        pa.bool_(): st.booleans(),
        pa.date32(): st.dates(date(1, 1, 1), date(9999, 12, 31)),
        TIMESTAMP: st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),
    }[kind]


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    kinds = draw(st.lists(st.sampled_from(_KINDS), min_size=1, max_size=6))
    count = draw(st.integers(0, 5))
    columns = [
        pa.array(draw(st.lists(st.none() | _values(kind), min_size=count, max_size=count)), kind) for kind in kinds
    ]
    rows = pa.table(columns, [f'c "{number}", é' for number in range(len(kinds))])
    return rows.slice(draw(st.integers(0, count)))


def _loaded(connection: postgres.Connection, rows: pa.Table, source: io.BytesIO) -> list[tuple[Any, ...]]:
    columns = sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(field.name), sql.SQL(postgres_type(field.type))) for field in rows.schema
    )
    as_text = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name in rows.column_names)
    source.seek(0)
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("create temporary table loaded ({})").format(columns))
        assert postgres.copy_file(connection, "loaded", source) == rows.num_rows
        cursor.execute(sql.SQL("select {} from loaded").format(as_text))
        found = cursor.fetchall()
    connection.rollback()
    return found


@pytest.fixture(scope="module")
def connection(module_database: str) -> Iterator[postgres.Connection]:
    with postgres.connect(module_database) as connection:
        yield connection


@given(rows=tables())
@settings(max_examples=60)
def test_rows_are_the_same_as_by_text(connection: postgres.Connection, rows: pa.Table) -> None:
    by_value, by_text = io.BytesIO(), io.BytesIO()
    binary.write_values(rows, by_value)
    postgres.copy.write_text(rows, by_text)
    assert _loaded(connection, rows, by_value) == _loaded(connection, rows, by_text)


def test_rows_of_many_chunks_arrive_in_their_order(connection: postgres.Connection) -> None:
    count = 20_000
    texts = [None if n % 7 == 0 else "x" * (n % 31) for n in range(count)]
    rows = pa.table({"n": pa.array(range(count), pa.int64()), "t": pa.array(texts, pa.string())})
    written = io.BytesIO()
    binary.write_values(rows, written)
    found = _loaded(connection, rows, written)
    assert found == [(str(n), text) for n, text in enumerate(texts)]


def test_bytes_that_are_no_text_arrive_as_they_are(connection: postgres.Connection) -> None:
    rows = pa.table({"b": pa.array([b"\x00\xff", None, b""], pa.binary())})
    written = io.BytesIO()
    binary.write_values(rows, written)
    assert _loaded(connection, rows, written) == [("\\x00ff",), (None,), ("\\x",)]


@pytest.mark.parametrize("text", ["0.0001", "-0.0001", "9999.9999", "10000", "-99999999999999.9999", "0"])
def test_decimals_keep_their_digits(connection: postgres.Connection, text: str) -> None:
    rows = pa.table({"d": pa.array([Decimal(text)], pa.decimal128(18, 4))})
    written = io.BytesIO()
    binary.write_values(rows, written)
    assert _loaded(connection, rows, written) == [(f"{Decimal(text):.4f}",)]
