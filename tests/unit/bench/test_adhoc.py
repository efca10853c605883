"""The benchmark of ad-hoc queries: contenders that fail or take too long, what is aimed at, and how it is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.adhoc import contender, page, plots
from bench.adhoc.aims import aims

Row = dict[str, Any]


def through(series: str, queries: int, speed: float, **more: Any) -> Row:
    return {"figure": "15", "series": series, "queries": queries, "overall_tuples_per_s": speed, **more}


def ours(queries: int, speed: float, held: int) -> Row:
    steps = dict.fromkeys(("joins_s", "ingest_s", "correlate_s", "load_s"), 0.1)
    return through("ours", queries, speed, bytes_per_query=held, **steps)


GOOD = [
    ours(1, 2e6, 900), ours(20, 9e6, 500), ours(100, 4e7, 300), ours(500, 6e7, 200),
    through("separate Spark joins", 1, 1e6), through("separate Spark joins", 100, 1.5e6, measured_queries=12),
    {"figure": "changes", "series": "ours", "changes": 80, "changes_per_s": 9.9,
     "seconds_quiet": 1.0, "seconds_changing": 1.1,
     "throughput_ratio": 0.91, "deployment_s_median": 1.0, "deployment_s_most": 2.0, "batches_waited_most": 0},
    {"figure": "idle", "series": "ours", "idle": 990, "seconds_ten": 0.5, "seconds_thousand": 0.6, "ratio": 1.2},
    {"figure": "21", "series": "everything", "x": 0, "queries": 20, "ways": 3, "times_everything": 1.0},
    {"figure": "21", "series": "no grouping", "x": 1, "queries": 20, "ways": 3, "times_everything": 1.4},
]  # fmt: skip


def test_all_aims_are_met_by_rows_that_meet_them() -> None:
    judged = aims(GOOD)
    assert len(judged) == 10
    assert [one["name"] for one in judged if not one["met"]] == []


@pytest.mark.parametrize(
    ("gone", "missed"),
    [
        (("separate Spark joins", 100), "100 queries: ours over separate Spark joins, tuples/s"),
        (("separate Spark joins", 1), "one query: ours over the best of Spark's ways, tuples/s"),
    ],
)
def test_what_a_stopped_contender_did_not_measure_is_not_met(gone: tuple[str, int], missed: str) -> None:
    judged = aims([row for row in GOOD if (row["series"], row.get("queries")) != gone])
    assert [(one["name"], one["measured"]) for one in judged if not one["met"]] == [(missed, None)]


def test_a_contender_that_ends_with_an_error_is_reported(tmp_path: Path) -> None:
    assert contender.run("nobody", {}, tmp_path, 600.0) == ([], "ended with exit code 1")


def test_a_contender_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    rows, reason = contender.run(
        "separate", {"rows": 10, "data": str(tmp_path), "most": 1, "counts": []}, tmp_path, 0.1
    )
    assert (rows, reason) == ([], "stopped after 0 s")


def test_results_are_drawn_and_shown(tmp_path: Path) -> None:
    drawn = plots.draw(GOOD, tmp_path)
    assert [path.name for path in drawn] == ["adhoc-15.svg", "adhoc-19.svg", "adhoc-21.svg"]
    result = {"machine": {}, "rows": GOOD, "aims": aims(GOOD[:4]), "not_measured": {"separate": "stopped after 270 s"}}
    shown = page.measured(result)
    assert "not measured in full: separate stopped after 270 s" in shown
    assert "| not measured |" in shown
    assert "≈ 1.50" in shown
