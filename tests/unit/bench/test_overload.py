"""The benchmark of overload: what it draws, what it aims at, and how it is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.overload import page, plots
from bench.overload.__main__ import parsed, run_of
from bench.overload.cell import POLICIES
from bench.overload.events import Customers, lines
from bench.overload.results import NOTES, aims, table
from bench.page import table as markdown


def batch(number: int, fresh: float) -> dict[str, Any]:
    return {"number": number, "fresh_p95_s": fresh, "seconds": 1.5, "accepted": 100}


def row(policy: str, times: int, served: float, **other: Any) -> dict[str, Any]:
    given = {
        "store": "postgres", "policy": policy, "times": times, "served_per_s": served, "w": 1000, "deadline_s": 2.0,
        "slowest_over_deadline": 0.9, "left_after_load": 10, "rss_mib": 500.0,
        "batches": [batch(n, 2.0) for n in range(10)], "drain": {"seconds": 4.0, "left": 0, "estimated": False},
    }  # fmt: skip
    return {**given, **other}


GOOD = [row("best-first", 10, 3200.0), row("position", 10, 3150.0), row("keep", 10, 1000.0),
        row("best-first", 1, 500.0), row("best-first", 2, 1000.0)]  # fmt: skip


def test_all_aims_are_met_by_rows_that_meet_them() -> None:
    assert all(one["met"] for one in aims(GOOD))


@pytest.mark.parametrize(
    ("changed", "missed"),
    [
        ({"slowest_over_deadline": 1.6}, "slowest batch"),
        ({"served_per_s": 3000.0}, "(best-first) / served by keep"),
        ({"batches": [batch(n, 2.0 + n) for n in range(10)]}, "freshness"),
        ({"rss_mib": 700.0}, "memory"),
    ],
)
def test_an_aim_that_a_row_misses_is_said_to_be_missed(changed: dict[str, Any], missed: str) -> None:
    found = aims([{**GOOD[0], **changed}, *GOOD[1:]])
    assert [missed in one["name"] for one in found if not one["met"]] == [True]


def test_what_was_not_measured_is_not_met() -> None:
    found = aims([one for one in GOOD if one["policy"] != "keep"])
    assert {one["measured"] for one in found if "keep" in one["name"]} == {None}
    assert not any(one["met"] for one in aims([]))


def test_a_time_to_drain_that_was_only_estimated_is_not_met() -> None:
    *others, drained = GOOD
    found = aims([*others, {**drained, "drain": {"seconds": 4.0, "left": 9, "estimated": True}}])
    assert [one["name"][:27] for one in found if not one["met"]] == ["seconds until nothing waits"]


def test_popular_customers_are_drawn_as_often_as_zipf_says_and_the_same_every_time() -> None:
    customers = Customers(1000, 1.0)
    drawn = customers.draw(100_000, 3)
    np.testing.assert_array_equal(drawn, customers.draw(100_000, 3))
    shares = np.sort(np.bincount(drawn))[::-1] / len(drawn)
    assert shares[0] == pytest.approx(1 / 7.485, rel=0.05)
    assert shares[1] == pytest.approx(shares[0] / 2, rel=0.05)


def test_events_are_lines_of_json() -> None:
    text = lines(np.array([5, 6, 70]), 10).decode()
    assert [(one["order_id"], one["customer_id"]) for one in map(json.loads, text.splitlines())] == [
        (10, 5), (11, 6), (12, 70),
    ]  # fmt: skip
    assert lines(np.array([], np.int64), 1) == b""


def test_all_cells_are_asked_for_unless_said_and_the_extremes_come_first() -> None:
    run = run_of(parsed([]))
    assert len(run.cells) == 2 * 4 * len(POLICIES)
    assert [cell.times for cell in run.cells[:: len(POLICIES)]][:4] == [1, 10, 2, 4]
    assert len({cell.name for cell in run.cells}) == len(run.cells)


def test_the_result_is_shown_to_people() -> None:
    result = {"notes": NOTES, "rows": GOOD, "aims": aims(GOOD), "not_measured": {"x": "the time was up"}}
    assert "MISSED" not in table(result)
    text = page.render(result, Path("../bench/results"), markdown)
    assert "| postgres | best-first | 10 × | 3,200 | 6.40 | 0.90 | 2.0 | 10 | 4.0 |" in text
    assert "not measured, x: the time was up" in text
    assert len(plots.spec(result)["vconcat"]) == 1
