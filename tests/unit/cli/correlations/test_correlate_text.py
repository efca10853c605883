"""The plan of a correlation as text."""

from __future__ import annotations

from typing import Any

from etl.cli.correlations.correlate_text import plan_lines, readable, size


def plan(**changed: Any) -> dict[str, Any]:
    step = {
        "step": 0, "left": "l", "right": ["r"], "condition": "l.k = r.k", "index": "hash",
        "window": {"lower_s": -60.0, "upper_s": 60.0}, "residual": None,
    }  # fmt: skip
    return {
        "name": "pairs", "sql": "\nselect l.k\nfrom l join r on l.k = r.k\n", "output": "rows", "lateness_s": 90.0,
        "sources": {"l": {"stream": "left", "event_time": "l.t", "selection": "l.x > 1"},
                    "r": {"stream": "right", "event_time": "r.t", "selection": None}},
        "steps": [{**step, **changed}], "since": None, "measured": {"batches": 0},
    }  # fmt: skip


def test_a_plan_that_has_not_run_says_what_is_chosen_later() -> None:
    text = "\n".join(plan_lines(plan()))
    assert "pairs: returns rows; tuples may come 0:01:30 late" in text
    assert "left by t, only where l.x > 1" in text
    assert "chosen when the first batch has come" in text
    assert "no batch has run" in text


def test_a_window_without_a_bound_says_so() -> None:
    assert "full history" in "\n".join(plan_lines(plan(window={"lower_s": None, "upper_s": None})))
    half = "\n".join(plan_lines(plan(window={"lower_s": 0.0, "upper_s": None})))
    assert "from +0:00:00 to any time after" in half


def test_units_are_drawn_in_proportion_to_the_fullest() -> None:
    units = [
        {"unit": 0, "side": "left", "subgroup": 0, "draining": False, "tuples": 1000, "bytes": 24_000},
        {"unit": 1, "side": "left", "subgroup": 0, "draining": True, "tuples": 500, "bytes": 12_000},
    ]
    routed = plan(
        routing="hash", why="even keys", units=units,
        expected={"messages_per_left_tuple": 2.0, "messages_per_right_tuple": 2.5},
    )  # fmt: skip
    text = "\n".join(plan_lines(routed))
    assert "█" * 24 in text
    assert "█" * 12 + "·" * 12 in text
    assert "runs empty" in text
    assert "2 for a left tuple, 2.5 for a right one" in text


def test_measured_costs_are_sums_over_batches() -> None:
    measured = {
        "batches": 3, "tuples": 1000, "messages": 2000, "probes": 900, "candidates": 50, "pairs": 40, "expired": 7,
        "tuples_per_s": 500, "messages_per_tuple": 2.0,
    }  # fmt: skip
    text = "\n".join(plan_lines({**plan(), "since": 4, "measured": measured}))
    assert "over 3 batches since batch 4" in text
    assert "500 tuples per second; 2 messages per tuple" in text


def test_microseconds_become_lengths_of_time() -> None:
    assert readable("`o`.`t` - `p`.`t` >= INTERVAL '-7200000000' MICROSECONDS") == "o.t - p.t >= −2:00:00"


def test_sizes_have_units() -> None:
    assert [size(count) for count in (7, 2048, 3 * 2**20, 5 * 2**30)] == ["7 bytes", "2.0 KiB", "3.0 MiB", "5.0 GiB"]
