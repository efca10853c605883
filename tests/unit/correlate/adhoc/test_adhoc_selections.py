"""All selections of a stream together against each selection by itself, value by value."""

from __future__ import annotations

from decimal import Decimal
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.columnar import bitsets
from etl.correlate.adhoc.query import values
from etl.correlate.adhoc.query.model import Query
from etl.correlate.adhoc.query.parse import parse_query
from etl.correlate.adhoc.query.selections import Selections
from tests.support.adhoc_histories import random_condition, random_row
from tests.support.adhoc_oracle import STREAMS, _wanted, table

PARTNER = {"V": "W", "W": "V", "C": "R", "R": "C", "S": "W"}
KEY = {"V": "vid", "W": "vid", "C": "usr", "R": "usr", "S": "usr"}


def query_on(stream: str, condition: str) -> Query:
    other, key = PARTNER[stream], KEY[stream]
    return parse_query(
        "q",
        f"select count(*) from {stream}, {other} where {stream}.{key} = {other}.{key} and ({condition})",
        1,
        STREAMS,
    )


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_query_sets_are_what_each_selection_says_of_each_tuple(seed: int) -> None:
    random = Random(seed)
    stream = random.choice(sorted(STREAMS))
    queries = [query_on(stream, random_condition(random, stream, 3)) for _ in range(random.choice([1, 5, 70]))]
    rows = [random_row(random, stream) for _ in range(20)]
    selections = Selections(STREAMS[stream].columns, [query.selections.get(stream) for query in queries])
    cells = selections.locate(table(stream, rows))
    truth = np.array([[_wanted(query, stream, row) for query in queries] for row in rows])
    every = (1 << len(queries)) - 1
    assert np.array_equal(bitsets.unpack(selections.evaluate(cells, len(rows), every), len(queries)), truth)
    active = selections.active(cells, len(rows))
    assert not bitsets.mask_of(np.flatnonzero(truth.any(axis=0)).tolist()) & ~active, "an inactive query matched"
    some = bitsets.mask_of(random.sample(range(len(queries)), len(queries) // 2 + 1))
    chosen = bitsets.positions_of(some)
    assert np.array_equal(bitsets.unpack(selections.evaluate(cells, len(rows), some), len(chosen)), truth[:, chosen])


def cells_of(kind: pa.DataType, column: pa.Array, allowed: values.ValueSet) -> list[bool]:
    selections = Selections({"x": kind}, [({"x": allowed},)])
    found = selections.evaluate(selections.locate(pa.table({"x": column})), len(column), 1)
    return bitsets.has_bit(found, 0).tolist()


def test_wide_integers_are_compared_exactly() -> None:
    big = 2**62
    column = pa.array([big - 1, big, big + 1, -big, None])
    assert cells_of(pa.int64(), column, values.above(big, inclusive=True)) == [False, True, True, False, False]
    both = values.at(big).union(values.at(-big))
    assert cells_of(pa.int64(), column, both) == [False, True, False, True, False]


def test_timestamps_compare_with_quoted_times() -> None:
    import datetime as dt

    streams = {"A": _stream("A"), "B": _stream("B")}
    query = parse_query("q", "select count(*) from A, B where A.k = B.k and A.at >= '2026-01-02'", 1, streams)
    column = pa.array([dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 2), None], pa.timestamp("us"))
    ((alternative,),) = query.selections.values()
    assert cells_of(pa.timestamp("us"), column, alternative["at"]) == [False, True, False]


def _stream(name: str):  # type: ignore[no-untyped-def]
    from etl.correlate.adhoc.query.model import Stream

    return Stream(name, {"k": pa.int64(), "at": pa.timestamp("us")})


NUMBERS = st.integers(-3, 3)
SETS = st.recursive(
    st.one_of(
        NUMBERS.map(values.at),
        st.tuples(NUMBERS, st.booleans()).map(lambda p: values.below(p[0], inclusive=p[1])),
        st.tuples(NUMBERS, st.booleans()).map(lambda p: values.above(p[0], inclusive=p[1])),
        st.sampled_from([values.NOTHING, values.NOT_NULL, values.NULL_ONLY, values.EVERYTHING]),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: p[0].union(p[1])),
        st.tuples(inner, inner).map(lambda p: p[0].intersection(p[1])),
    ),
    max_leaves=6,
)


@given(SETS, SETS)
def test_sets_of_values_are_closed_under_and_or_not(one: values.ValueSet, other: values.ValueSet) -> None:
    for value in [None, *(n / 2 for n in range(-9, 10))]:
        assert (value in one.union(other)) == (value in one or value in other)
        assert (value in one.intersection(other)) == (value in one and value in other)
        assert (value in one.complement()) == (value is not None and value not in one)


_BIG = "9" * 40


@pytest.mark.parametrize(
    ("condition", "everybody"),
    [
        (f"V.length < {_BIG}", True), (f"V.length > {_BIG}", False), (f"V.length = {_BIG}", False),
        (f"V.length <> -{_BIG}", True), (f"V.length >= -{_BIG}", True), (f"V.length <= -{_BIG}", False),
        ("V.length < 1e99999999", True), ("V.length in (1e400, -1e400)", False), ("V.price < 1e99999999", True),
        ("V.length > -9223372036854775808", True), ("V.length < 9223372036854775807", True),
        ("V.length <= 9223372036854775806 and V.length >= 9223372036854775806", False),
        (f"V.price <= 4.{_BIG}", False), (f"V.price > -0.{_BIG}", True),
    ],
)  # fmt: skip
def test_numbers_that_no_column_can_hold_are_compared_and_stop_nobody(condition: str, everybody: bool) -> None:
    query = query_on("V", condition)
    selections = Selections(STREAMS["V"].columns, [query.selections.get("V"), None])
    rows = table("V", [{"vid": 1, "length": n, "geo": "x", "price": Decimal(5)} for n in (0, 7, -7)])
    found = selections.evaluate(selections.locate(rows), 3, 3)
    assert bitsets.has_bit(found, 0).tolist() == [everybody] * 3
    assert bitsets.has_bit(found, 1).tolist() == [True] * 3
