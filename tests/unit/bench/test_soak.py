"""What a soak calls growth, and what it does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.page import table
from bench.soak import LISTED, Sample, aims, section

FRESH = {"p50": 1.0, "p95": 2.0}


def samples(**drawn: Callable[[int], float]) -> list[Sample]:
    """A hundred samples of a soak in which nothing grows, but for what is drawn."""
    steady = {"memory_mb driver": 100.0, "open_files driver": 50.0, "claim_runs": 5.0, **dict.fromkeys(LISTED, 10.0)}
    return [{**steady, **{name: draw(at) for name, draw in drawn.items()}} for at in range(100)]


def missed(found: list[Sample], backlog: int = 0) -> list[str]:
    return [aim["name"].split(":")[0] for aim in aims(found, backlog, FRESH) if not aim["met"]]


def test_what_stays_is_met() -> None:
    assert missed(samples()) == []


@pytest.mark.parametrize("name", ["memory_mb driver", "open_files driver"])
def test_what_grows_after_the_warm_up_is_missed(name: str) -> None:
    assert missed(samples(**{name: lambda at: 100.0 + at})) == [name]
    assert missed(samples(**{name: lambda at: 100.0 + 5 * min(at, 25)})) == [], "what grows in the warm-up is none"


@pytest.mark.parametrize("name", LISTED)
def test_files_that_rise_and_fall_with_maintenance_are_met_and_those_that_only_rise_are_missed(name: str) -> None:
    assert missed(samples(**{name: lambda at: 10.0 * (at % 10)})) == []
    assert missed(samples(**{name: lambda at: 2.0 * at})) == [name]


def test_a_backlog_at_the_end_is_missed() -> None:
    assert missed(samples(), backlog=1) == ["backlog at the end"]


def test_the_page_says_what_was_run_and_how_fresh_it_was() -> None:
    row = {"minutes": 30.0, "rate_per_s": 2000.0, "batches": 640, "lines": 6_300_000, **FRESH}
    text = section({"rows": [row], "aims": aims(samples(), 0, FRESH)}, table)
    assert "30 minutes, 2,000 orders a second" in text
    assert "the 95th percentile 2.0 s" in text
    assert "| backlog at the end | ≤ 0 | 0 | met |" in text
