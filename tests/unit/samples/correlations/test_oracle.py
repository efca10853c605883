"""The oracle of the correlations, held against a nested loop in plain Python."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from etl.samples.correlations.oracle import Asked, History, same_rows, truth

START = datetime(2026, 11, 1)
SCHEMA = pa.schema({"id": pa.int64(), "k": pa.int64(), "x": pa.decimal128(12, 2), "t": pa.timestamp("us")})
LATENESS, WITHIN = timedelta(minutes=3), timedelta(minutes=5)
Row = dict[str, Any]


def batches(seed: int, count: int = 4, rows: int = 25) -> list[list[Row]]:
    random = np.random.default_rng(seed)
    return [
        [
            {
                "id": number * rows + row, "k": None if random.random() < 0.1 else int(random.integers(12)),
                "x": Decimal(int(random.integers(100, 2000))) / 100,
                "t": START + timedelta(minutes=10 * number) + timedelta(seconds=int(random.integers(-600, 600))),
            }
            for row in range(rows)
        ]
        for number in range(count)
    ]  # fmt: skip


def split(history: list[list[Row]]) -> tuple[list[Row], list[Row]]:
    """What is on time and what is late, batch by batch."""
    on_time, late, largest = [], [], None
    for batch in history:
        for row in batch:
            (late if largest is not None and row["t"] < largest - LATENESS else on_time).append(row)
        largest = max([row["t"] for row in batch] + ([largest] if largest else []))
    return on_time, late


def tables(history: list[list[Row]]) -> History:
    return History([pa.Table.from_pylist(batch, SCHEMA) for batch in history], "t")


def near(a: Row, b: Row) -> bool:
    return bool(abs(a["t"] - b["t"]) <= WITHIN)


@pytest.mark.parametrize("seed", range(3))
def test_pairs_and_late_tuples_are_those_of_the_nested_loop(seed: int) -> None:
    left, right = batches(seed), batches(seed + 100)
    sql = "select l.id as a, r.id as b from l join r on l.k = r.k where l.x > 5"
    found = truth(Asked(sql, WITHIN, LATENESS), {"l": tables(left), "r": tables(right)})
    (on_l, late_l), (on_r, late_r) = split(left), split(right)
    wanted = [
        (a["id"], b["id"]) for a in on_l for b in on_r
        if a["x"] > 5 and a["k"] is not None and a["k"] == b["k"] and near(a, b)
    ]  # fmt: skip
    assert sorted(zip(*found.rows.to_pydict().values(), strict=True)) == sorted(wanted)
    assert found.pairs == len(wanted) > 0
    assert found.late == {"l": sum(row["x"] > 5 for row in late_l), "r": len(late_r)}
    assert found.late["r"] > 0


def test_a_relative_band_is_exact_in_decimals() -> None:
    left, right = batches(7), batches(8)
    sql = "select l.id as a, r.id as b from l join r on l.x between r.x * 0.95 and r.x * 1.05"
    found = truth(Asked(sql, WITHIN, LATENESS), {"l": tables(left), "r": tables(right)})
    low, high = Decimal("0.95"), Decimal("1.05")
    wanted = [
        (a["id"], b["id"]) for a in split(left)[0] for b in split(right)[0]
        if b["x"] * low <= a["x"] <= b["x"] * high and near(a, b)
    ]  # fmt: skip
    assert sorted(zip(*found.rows.to_pydict().values(), strict=True)) == sorted(wanted)


def test_three_streams_are_near_each_other_two_by_two_and_then_grouped() -> None:
    history = {name: batches(seed) for name, seed in (("l", 1), ("r", 2), ("u", 3))}
    sql = """select l.k, count(*) as n, sum(u.x) as x from l join r on l.k = r.k join u on u.k = l.k group by l.k"""
    asked = Asked(sql, WITHIN, LATENESS)
    found = truth(asked, {name: tables(each) for name, each in history.items()})
    on = {name: split(each)[0] for name, each in history.items()}
    triples = [
        (a, b, c) for a in on["l"] for b in on["r"] for c in on["u"]
        if a["k"] is not None and a["k"] == b["k"] == c["k"] and near(a, b) and near(a, c) and near(b, c)
    ]  # fmt: skip
    keys = {a["k"] for a, _, _ in triples}
    wanted = [
        {"k": key, "n": sum(a["k"] == key for a, _, _ in triples),
         "x": sum(c["x"] for a, _, c in triples if a["k"] == key)}
        for key in keys
    ]  # fmt: skip
    assert found.pairs == len(triples) > 0
    assert sorted(found.rows.to_pylist(), key=lambda row: row["k"]) == sorted(wanted, key=lambda row: row["k"])


def test_one_stream_may_meet_itself_under_two_names() -> None:
    sql = "select a.id as a, b.id as b from l a join l b on a.k = b.k where a.id < b.id and a.x > 10"
    found = truth(Asked(sql), {"l": tables(batches(5))})
    assert set(found.late) == {"a", "b"}
    assert found.rows.num_rows == found.pairs > 0


def test_rows_are_the_same_in_any_order_but_not_in_any_number() -> None:
    one = pa.table({"a": [1, 2, 2], "b": pa.array([Decimal("1.50")] * 3, pa.decimal128(12, 2)), "batch": [1, 2, 3]})
    other = pa.table({"a": pa.array([2, 1, 2], pa.int32()), "b": pa.array([Decimal("1.5")] * 3, pa.decimal128(20, 4))})
    assert same_rows(one, other)
    assert not same_rows(one, other.slice(1))
    assert not same_rows(one, pa.table({"a": [1, 1, 2], "b": other["b"]}))
    assert not same_rows(one.drop(["b"]), other)
