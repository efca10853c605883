"""Durations, schedules, aggregates and expectations as people write them."""

from __future__ import annotations

import warnings
from datetime import timedelta

import pyarrow as pa
import pytest

from etl.contract.drafting.sample import FORMATS
from etl.contract.model import RelativeTime
from etl.contract.words import time_formats, times
from etl.contract.words.dag_ids import broken_ids
from etl.contract.words.expectation_types import COMMON, EXPECTATIONS
from etl.contract.words.expressions import Names, aggregate, column_sql
from etl.contract.words.types import arrow_type, declared_name, stored_type
from etl.ingest.formats import FormatUnsupported, compile_format


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("7d", 604_800), ("24h", 86_400), ("5 minutes", 300), ("1h 30m", 5400), ("2 weeks", 1_209_600)],
)
def test_a_length_of_time_is_written_with_its_unit(text: str, seconds: int):
    assert times.duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "30", "s", "-5s", "5 fortnights", "1.5h", "1h x", "999999d"])
def test_what_is_no_length_of_time_is_none(text: str):
    assert times.duration(text) is None


def test_a_moment_may_be_relative_to_now():
    assert times.relative("now + 24h") == RelativeTime(timedelta(hours=24))
    assert times.relative("NOW-7 days") == RelativeTime(timedelta(days=-7))
    assert times.relative("now") == RelativeTime(timedelta(0))
    assert times.relative("now + soon") is None
    assert times.relative("2000-01-01") is None


@pytest.mark.parametrize(
    "text",
    ["on_arrival", "none", "@continuous", "@daily", "* * * * *", "*/5 0-6,22 1 jan-mar mon", "0 0 1-31/2 * 0,7"],
)
def test_schedules_and_cron_expressions_are_allowed(text: str):
    assert times.is_schedule(text)


@pytest.mark.parametrize(
    "text", ["", "hourly", "@often", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8",
             "5-1 * * * *", "*/0 * * * *", "1- * * * *", "a * * * *", "1,, * * * *", "1-2-3 * * * *"],
)  # fmt: skip
def test_other_schedules_are_not(text: str):
    assert not times.is_schedule(text)


def test_aggregates_have_the_types_of_sums_that_grow():
    names = Names(pa.schema({"n": pa.int32(), "d": pa.decimal128(12, 2), "x": pa.float32(), "s": pa.string()}))
    types = {sql: names.aggregate_type(sql) for sql in ("count(*)", "count(s)", "sum(n)", "sum(d)", "max(s)", "min(d)")}
    assert types == {
        "count(*)": pa.int64(), "count(s)": pa.int64(), "sum(n)": pa.int64(), "sum(d)": pa.decimal128(22, 2),
        "max(s)": pa.string(), "min(d)": pa.decimal128(12, 2),
    }  # fmt: skip


@pytest.mark.parametrize("sql", ["avg(n)", "count(distinct n)", "sum(n) + 1", "sum(*)", "n", "count(a, b)"])
def test_what_cannot_be_brought_up_to_date_batch_by_batch_is_refused(sql: str):
    with pytest.raises(ValueError, match="is not an aggregate"):
        aggregate(sql)


@pytest.mark.parametrize(
    "text",
    ["%Y-%m-%d %H:%M:%S.%f", "%D", "%D %R", "%F %T", "%e %b %y", "%d %B %Y", "%Y%j", "%Y-%m-%d 100%%", *FORMATS],
)
def test_a_format_that_names_a_day_is_good_and_the_reader_knows_it(text: str):
    assert time_formats.mistake(text) is None
    assert len(compile_format(text))


@pytest.mark.parametrize(
    "text", ["", "x", "%H:%M", "%d/%m", "%Y-%m", "%y", "%%", "%%Y-%m-%d", "%T", "%d %b", "%Y%j%Q", "%Y%j%"]
)
def test_a_format_that_names_no_day_is_none(text: str):
    assert time_formats.mistake(text) is not None


def test_the_check_and_the_reader_know_the_same_directives():
    for letter in map(chr, range(33, 127)):
        known = True
        try:
            compile_format(f"%Y%j%{letter}")
        except FormatUnsupported:
            known = False
        assert (time_formats.mistake(f"%Y%j%{letter}") is None) == known


def test_files_with_mistakes_have_ids_of_their_own_whatever_they_are_called():
    files = ["orders.toml", "my orders.toml", "my_orders.toml", "my-orders.toml", "Größe.toml", "a.b.toml", "=.toml"]
    ids = broken_ids([*files, f"{'x' * 250}.toml"])
    assert ids[:-1] == [
        "broken_orders", "broken_my_orders", "broken_my_orders_2", "broken_my-orders", "broken_Gr_e", "broken_a.b",
        "broken__",
    ]  # fmt: skip
    assert len(ids[-1]) < 250


def test_a_column_is_quoted_only_if_it_must_be():
    assert column_sql("price") == "price"
    assert column_sql("case") == "`case`"
    assert column_sql("select") == "`select`"


@pytest.mark.parametrize("text", ["int", "bigint", "double", "boolean", "string", "date", "timestamp", "decimal(18,4)"])
def test_a_declared_type_is_shown_as_it_was_written(text: str):
    assert declared_name(arrow_type(text)) == text
    assert stored_type(arrow_type(text)) == arrow_type(text)


@pytest.mark.slow
def test_the_list_of_expectations_is_what_the_library_has():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from great_expectations.expectations import core
        from great_expectations.expectations.expectation import Expectation
    classes = {getattr(one, "expectation_type", None): one for one in vars(core).values() if isinstance(one, type)}
    assert set(COMMON) <= set(Expectation.__fields__)
    for name, arguments in EXPECTATIONS.items():
        fields = classes[name].__fields__
        assert set(arguments.names) <= set(fields), name
        needed = {field for field, info in fields.items() if info.required}
        assert needed <= set(arguments.needed), name
