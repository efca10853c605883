"""Expressions: DuckDB is the truth where both define the same thing, plain Python where they differ."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import sqlglot

from etl.columnar.expression import ExpressionFailed, ExpressionRefused, compile_expression

UTC = dt.UTC


def moment(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=UTC)


BATCH = pa.record_batch(
    {
        "a": pa.array([1, -7, None, 100, 0, 3], pa.int32()),
        "b": pa.array([2, 3, 5, None, -4, 0], pa.int64()),
        "x": pa.array([1.5, -2.5, None, 1e10, 0.0, 0.1], pa.float64()),
        "price": pa.array(
            [None if v is None else Decimal(v) for v in ("1.2500", "-0.0050", "99999.9999", None, "0", "7")],
            pa.decimal128(18, 4),
        ),
        "rate": pa.array(
            [None if v is None else Decimal(v) for v in ("0.1", "3.0", None, "9.9", "0.0", "-2.5")], pa.decimal128(5, 1)
        ),
        "s": pa.array(["Alpha", " beta ", None, "", "100%", "über"]),
        "t": pa.array(["a", "b", "c", None, "100%", "ü"]).dictionary_encode(),
        "flag": pa.array([True, False, None, True, False, None]),
        "d": pa.array(
            [
                dt.date(2024, 1, 31),
                dt.date(2024, 2, 29),
                None,
                dt.date(1999, 12, 31),
                dt.date(1970, 1, 1),
                dt.date(2026, 11, 17),
            ]
        ),
        "ts": pa.array(
            [
                moment("2024-01-31T12:34:56.789"),
                moment("2024-02-29T00:00:00"),
                None,
                moment("1999-12-31T23:59:59"),
                moment("1970-01-01T00:00:00"),
                moment("2026-11-17T05:00:00"),
            ],
            pa.timestamp("us", "UTC"),
        ),
        "m": pa.array(
            [
                {"region": "EU", "n": 1},
                None,
                {"region": None, "n": 3},
                {"region": "US", "n": 4},
                {"region": "EU", "n": None},
                {"region": "APAC", "n": 6},
            ],
            pa.struct({"region": pa.string(), "n": pa.int64()}),
        ),
    }
)

SHARED = [
    "a + b",
    "a - b",
    "a * b",
    "b % a",
    "a div b",
    "-a",
    "abs(a)",
    "a + 1 > b",
    "x * 2",
    "x + a",
    "a / 2",
    "price + rate",
    "price - rate",
    "price * rate",
    "price * a",
    "price * 3",
    "abs(price)",
    "-price",
    "round(price, 2)",
    "round(price)",
    "floor(price)",
    "ceil(price)",
    "floor(x)",
    "ceil(x)",
    "a = b",
    "a <> b",
    "a < b",
    "price >= rate",
    "price > a",
    "a is null",
    "a is not null",
    "a <=> b",
    "x = a",
    "flag and a > 0",
    "flag or a > 0",
    "not flag",
    "flag is true",
    "flag is false",
    "a in (1, 3)",
    "a in (1, null)",
    "a not in (1, null)",
    "a not in (1, 3)",
    "s in ('Alpha', '')",
    "a in (b, 1)",
    "price in (7, 0.0)",
    "a between 0 and b",
    "price between rate and 100",
    "a not between 0 and 5",
    "case when a > 0 then 'p' when a < 0 then 'n' end",
    "case a when 1 then 10 when 3 then b else 0 end",
    "if(a > 0, a, b)",
    "coalesce(a, b, 0)",
    "nullif(a, 1)",
    "nullif(price, rate)",
    "greatest(a, b)",
    "least(a, b, 2)",
    "lower(s)",
    "upper(s)",
    "trim(s)",
    "ltrim(s)",
    "rtrim(s)",
    "length(s)",
    "substring(s, 2, 3)",
    "left(s, 2)",
    "s like 'A%'",
    "s like '%a_'",
    "s not like '%e%'",
    "s ilike 'alph_'",
    "concat(s, t)",
    "s || '!'",
    "s < t",
    "s rlike '^[A-Z]'",
    "contains(s, 'et')",
    "startswith(s, 'Al')",
    "year(ts)",
    "month(d)",
    "day(ts)",
    "hour(ts)",
    "minute(ts)",
    "second(ts)",
    "date(ts)",
    "extract(hour from ts)",
    "date_trunc('hour', ts)",
    "date_trunc('month', ts)",
    "date_trunc('week', ts)",
    "datediff(ts, d)",
    "date_add(d, 3)",
    "d + interval 1 day",
    "d < date '2020-01-01'",
    "ts >= timestamp '2024-01-01 00:00:00'",
    "d >= '2024-01-31'",
    "ts + interval 90 minutes",
    "ts - interval 1 month",
    "d + interval 1 month",
    "ts + interval 1 year",
    "cast(a as string)",
    "try_cast(s as int)",
    "cast(price as double)",
    "cast(a as decimal(10, 2))",
    "cast(d as timestamp) < ts",
    "cast(flag as int)",
    "cast(a as boolean)",
    "cast(d as string)",
    "m.n + 1",
    "m.region = 'EU'",
    "coalesce(m.region, 'none')",
]


def by_duckdb(sql: str) -> list[object]:
    """DuckDB knows no time zones without an extension: it sees UTC as wall-clock time."""
    position = BATCH.schema.get_field_index("ts")
    naive = pa.Table.from_batches([BATCH]).set_column(position, "ts", BATCH.column("ts").cast(pa.timestamp("us")))
    database = duckdb.connect()
    database.execute("set error_on_division_by_zero = false")
    database.register("batch", naive)
    query = sqlglot.transpile(f"select {sql} as r from batch", read="spark", write="duckdb")[0]
    return [row[0] for row in database.execute(query.replace("TIMESTAMPTZ", "TIMESTAMP")).fetchall()]


def ours(sql: str, **options: Any) -> list[object]:
    return list(compile_expression(sql, BATCH.schema, **options).evaluate(BATCH).to_pylist())


def comparable(value: object) -> object:
    """Dates as their midnight, numbers as floats: engines differ in types, not in values."""
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, dt.date):
        return dt.datetime.combine(value, dt.time())
    return round(float(value), 9) if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else value


@pytest.mark.parametrize("sql", SHARED)
def test_an_expression_gives_what_duckdb_gives(sql: str) -> None:
    assert [comparable(value) for value in ours(sql)] == [comparable(value) for value in by_duckdb(sql)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("1 / 0", None),
        ("a / 0", None),
        ("1.0 / 3", Decimal("0.333333")),
        ("2.5 % 0", None),
        ("9223372036854775807 + 1", None),
        ("9223372036854775807 * 2", None),
        ("abs(-9223372036854775807 - 1)", None),
        ("-7 div 2", -3),
        ("-7 % 3", -1),
        ("7 % -3", 1),
        ("5.5 div 2", 2),
        ("round(2.5)", Decimal(3)),
        ("round(-2.5)", Decimal(-3)),
        ("round(1234, -2)", 1200),
        ("round(1.005, 2)", Decimal("1.01")),
        ("1e2 + 1", 101.0),
        ("99999999999999999999999999999999999999 + 1", None),
        ("0.1 + 0.2", Decimal("0.3")),
        ("null and false", False),
        ("null or true", True),
        ("null and true", None),
        ("null + 1", None),
        ("null = null", None),
        ("null <=> null", True),
        ("cast('1.25' as decimal(3, 1))", Decimal("1.3")),
        ("try_cast('12x' as int)", None),
        ("cast('2024-02-30' as date)", "refused"),
        ("try_cast(' 42 ' as int)", 42),
        ("cast('yes' as boolean)", True),
        ("substring('abcdef', -3, 2)", "de"),
        ("substring('ab', -3, 2)", "a"),
        ("substring('abc', 0, 2)", "ab"),
        ("right('abc', 2)", "bc"),
        ("timestamp '2024-01-01 02:00:00+02:00' = timestamp '2024-01-01'", True),
        ("cast(timestamp '2024-01-01 02:00:00.5' as string)", "2024-01-01 02:00:00.5"),
        ("timestamp '2024-01-01 01:00:00' - timestamp '2024-01-01' > interval 59 minutes", True),
        ("abs(timestamp '2024-01-01' - timestamp '2024-01-02') <= interval 1 day", True),
        ("date '2024-03-31' - interval 1 month", dt.date(2024, 2, 29)),
        ("date '2024-01-01' + interval 1 hour", dt.datetime(2024, 1, 1, 1)),
        ("trunc(date '2024-03-31', 'month')", dt.date(2024, 3, 1)),
        ("trim(both 'x' from 'xxaxx')", "a"),
        ("'a.c' like 'a.c'", True),
        ("'abc' like 'a.c'", False),
        ("'a\nb' like 'a%b'", True),
        ("greatest(null, 2, 1)", 2),
        ("cast(-2.9e0 as int)", -2),
        ("cast(1.9 as int)", 1),
        ("'100%' like '100\\\\%'", True),
        ("'100x' like '100\\\\%'", False),
    ],
)
def test_a_constant_expression(sql: str, expected: object) -> None:
    if expected == "refused":
        with pytest.raises(ExpressionRefused, match="is not a value of type"):
            ours(sql)
        return
    values = ours(sql)
    assert values == [expected] * BATCH.num_rows


@pytest.mark.parametrize(
    ("sql", "line", "column", "reason"),
    [
        ("a + nope", 1, 5, "there is no column 'nope'"),
        ("a +\n  s", 1, 1, "string is not a number"),
        ("a = s", 1, 1, "no type in common"),
        ("price = s", 1, 1, "do not compare"),
        ("a and flag", 1, 1, "a condition is needed"),
        ("rand()", 1, 1, "rand"),
        ("current_timestamp()", 1, 1, "not available"),
        ("sum(a)", 1, 1, "sum"),
        ("a in (select 1)", 1, 1, "not a query"),
        ("a +", 1, 3, "cannot be read"),
        ("select 1", 1, 1, "one expression"),
        ("a; b", 1, 1, "one expression"),
        ("reflect('java.lang.System', 'exit')", 1, 1, "reflect"),
        ("m.nope", 1, 1, "there is no field 'nope'"),
        ("s rlike '('", 1, 1, "not a regular expression"),
        ("cast(a as array<int>)", 1, 6, "not a type"),
        ("lower(a)", 1, 1, "a text is needed"),
        ("1 +\n 2 +\n foo", 3, 2, "there is no column 'foo'"),
        ("substring(s, a)", 1, 11, "constant integer"),
        ("d + 1", 1, 1, "not defined"),
    ],
)
def test_what_cannot_run_is_refused_with_its_place(sql: str, line: int, column: int, reason: str) -> None:
    with pytest.raises(ExpressionRefused, match=reason.replace("(", "\\(")) as refused:
        ours(sql)
    assert (refused.value.line, refused.value.column) == (line, column)


def test_a_row_without_a_result_raises_when_that_is_asked_for() -> None:
    with pytest.raises(ExpressionFailed, match="row 5") as failed:
        ours("a div b", on_error="raise")
    assert failed.value.row == 5
    assert ours("try_cast(s as int)", on_error="raise") == [None] * 6
    assert ours("a + b", on_error="raise") == [3, -4, None, None, -4, 3]


def test_the_type_is_known_before_any_row() -> None:
    kinds = {"price * a": pa.decimal128(29, 4), "price / rate": pa.decimal128(25, 10), "a + 1": pa.int64()}
    kinds |= {"a": pa.int32(), "t": pa.string(), "date(ts)": pa.date32(), "ts - ts": pa.duration("us")}
    assert {sql: compile_expression(sql, BATCH.schema).type for sql in kinds} == kinds


def test_a_wanted_type_is_checked() -> None:
    with pytest.raises(ExpressionRefused, match="bool is needed"):
        ours("a + 1", wanted=pa.bool_())
    assert ours("null", wanted=pa.bool_()) == [None] * 6


def test_dotted_columns_come_before_structs_and_a_bare_name_must_be_unique() -> None:
    batch = pa.record_batch({"o.id": [1, 2], "p.id": [1, 3], "p.Amount": [5, 6]})
    expression = compile_expression("o.id = p.id and amount > 4", batch.schema)
    assert expression.evaluate(batch).to_pylist() == [True, False]
    assert expression.columns == {"o.id", "p.id", "p.Amount"}
    with pytest.raises(ExpressionRefused, match=r"'id' is ambiguous: o\.id, p\.id"):
        compile_expression("id = 1", batch.schema)


def test_an_expression_survives_pickling_and_takes_tables_and_empty_batches() -> None:
    for sql in SHARED:
        expression = compile_expression(sql, BATCH.schema)
        again = pickle.loads(pickle.dumps(expression))
        assert again.type == expression.type
        assert again.evaluate(BATCH).equals(expression.evaluate(BATCH)), sql
        assert len(expression.evaluate(BATCH.slice(0, 0))) == 0
        table = pa.Table.from_batches([BATCH.slice(0, 2), BATCH.slice(2)])
        assert expression.evaluate(table).equals(expression.evaluate(BATCH)), sql


def test_decimals_are_exact_beyond_sixty_four_bits() -> None:
    big = Decimal("12345678901234567890.1234")
    batch = pa.record_batch({"p": pa.array([big, -big, Decimal(1), None], pa.decimal128(38, 4))})
    evaluate = lambda sql: compile_expression(sql, batch.schema).evaluate(batch).to_pylist()  # noqa: E731
    assert evaluate("p + p") == [2 * big, -2 * big, 2, None]
    assert evaluate("p - 0.0001") == [big - Decimal("0.0001"), -big - Decimal("0.0001"), Decimal("0.9999"), None]
    assert evaluate("p > 12345678901234567890") == [True, False, False, None]
    assert evaluate("p * p")[2:] == [Decimal(1), None]
    assert evaluate("p / 7")[0] == (big / 7).quantize(Decimal("0.000001"))
    assert evaluate("cast(p as bigint)") == [None, None, 1, None]


def test_time_zones_decide_parts_and_days() -> None:
    batch = pa.record_batch({"ts": pa.array([moment("2024-06-30T23:30:00")], pa.timestamp("us", "UTC"))})
    berlin = lambda sql: compile_expression(sql, batch.schema, timezone="Europe/Berlin").evaluate(batch).to_pylist()  # noqa: E731
    assert berlin("hour(ts)") == [1]
    assert berlin("date(ts)") == [dt.date(2024, 7, 1)]
    assert berlin("date_trunc('month', ts) = timestamp '2024-07-01'") == [True]
    assert berlin("ts = timestamp '2024-07-01 01:30:00'") == [True]
