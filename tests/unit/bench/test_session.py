"""What the comparison of sessions says about its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench import session
from bench.page import table
from bench.pipeline.orders import Orders
from bench.session import NEAR, VARIANTS, aims, named, row_of, sections
from etl import settings
from etl.errors import TerminalError


def row(name: str, size: int, *seconds: float) -> dict[str, Any]:
    return row_of(named(name), size, [(one, 2 * one) for one in seconds])


def test_the_settings_of_the_pipeline_are_held_against_the_best_variant() -> None:
    best = [row("both compilers", size, 0.9, 1.0, 1.1) for size in (100, 50_000)]
    ours = [row("ours", 100, 1.0 * NEAR), row("ours", 50_000, 1.01 * NEAR)]
    assert [(one["measured"], one["met"]) for one in aims([*best, *ours])] == [(1.1, True), (1.111, False)]


def test_there_are_orders_for_every_batch_that_a_variant_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: dict[int, range] = {}
    monkeypatch.setattr(Orders, "make", lambda _, size, numbers: made.update({size: numbers}))
    session.make_orders(session.run_of(settings.load(var=tmp_path)))
    assert {size: len(numbers) for size, numbers in made.items()} == {100: 23, 50_000: 10, 500_000: 3}


def test_an_aim_without_a_measure_is_missed() -> None:
    assert [one["met"] for one in aims([row("both compilers", 100, 1.0)])] == [False, False]


def test_a_row_has_the_median_of_seconds_and_the_mean_of_cpu_time() -> None:
    assert {what: row("ours", 100, 1.0, 2.0, 6.0)[what] for what in ("seconds", "cpu_seconds")} == {
        "seconds": 2.0,
        "cpu_seconds": 6.0,
    }


def test_the_page_shows_every_variant_that_was_measured() -> None:
    rows = [row("ours", 100, 1.0), row("as Spark comes", 50_000, 3.0)]
    text = sections({"notes": {"a": "b"}, "rows": rows, "aims": aims(rows)}, table)
    assert "| ours | 1.00, 2.00 |  |" in text
    assert "| as Spark comes |  | 3.00, 6.00 |" in text
    assert "**not met**" in text


def test_a_variant_that_is_unknown_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(TerminalError, match="'fast' is unknown; allowed are ours, whole-stage code"):
        named("fast")
    assert len({one.name for one in VARIANTS}) == len(VARIANTS)
