"""Is a batch like the ones before it? Bounds learnt from history, against what a person would say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from etl.validate.distribution import HISTORY_BATCHES, MIN_BATCHES, Figure, Profile, bounds, judge, share
from etl.validate.profile import as_json, from_json


def past(kind: str, *values: float) -> list[Profile]:
    return [{kind: Figure(kind, "", value)} for value in values]  # type: ignore[arg-type]


def one(figure: Figure) -> Profile:
    return {figure.name: figure}


def test_a_first_few_batches_teach_nothing() -> None:
    assert judge(one(Figure("volume", "", 1e9)), past("volume", *[100.0] * (MIN_BATCHES - 1))) == ()
    assert len(judge(one(Figure("volume", "", 1e9)), past("volume", *[100.0] * MIN_BATCHES))) == 1


@pytest.mark.parametrize(("lines", "unusual"), [(100, False), (350, False), (30, False), (2000, True), (2, True)])
def test_a_batch_of_half_or_double_the_size_is_usual_and_one_of_twenty_times_is_not(lines: int, unusual: bool) -> None:
    steady = past("volume", *np.linspace(90, 110, HISTORY_BATCHES))
    assert bool(judge(one(Figure("volume", "", lines)), steady)) is unusual


def test_one_odd_batch_in_the_past_hides_nothing() -> None:
    history = past("volume", *[100.0] * 30, 1e6)
    assert judge(one(Figure("volume", "", 1e6)), history)


def test_a_lasting_change_becomes_usual_after_half_of_the_history() -> None:
    history = past("volume", *[100.0] * 20, *[5000.0] * 25)
    assert judge(one(Figure("volume", "", 5000)), history) == ()


def test_a_small_batch_may_differ_more_than_a_large_one() -> None:
    history = past("null_share", *[0.1] * 30)
    small, large = share("null_share", "", 3, 10), share("null_share", "", 30_000, 100_000)
    assert judge(one(small), history) == ()
    assert [finding.check for finding in judge(one(large), history)] == ["null_share"]


@given(
    st.lists(st.floats(-1e9, 1e9), min_size=MIN_BATCHES, max_size=HISTORY_BATCHES),
    st.floats(0, 1e6),
)
def test_the_median_of_the_past_is_always_usual(values: list[float], error: float) -> None:
    figure = Figure("mean", "x", float(np.median(values)), error)
    low, high = bounds(figure, np.array(values))
    assert low <= figure.value <= high


@given(st.integers(1, 10**6), st.data())
def test_a_share_lies_between_nothing_and_all_and_its_bounds_too(whole: int, data: st.DataObject) -> None:
    part = data.draw(st.integers(0, whole))
    figure = share("unmatched", "customer", part, whole)
    low, high = bounds(figure, np.full(20, figure.value))
    assert 0 <= low <= figure.value <= high <= 1
    assert figure.error > 0, "nobody is certain"


def test_a_change_for_the_better_is_no_finding() -> None:
    assert judge(one(Figure("hit_ratio", "", 1.0)), past("hit_ratio", *[0.2] * 30)) == ()
    assert judge(one(Figure("hit_ratio", "", 0.1)), past("hit_ratio", *[0.9] * 30))
    assert judge(one(Figure("quarantined", "", 0.0)), past("quarantined", *[0.2] * 30)) == ()
    assert judge(one(Figure("quarantined", "", 0.9)), past("quarantined", *[0.2] * 30))


def test_figures_survive_the_ledger() -> None:
    figures = {f.name: f for f in (Figure("mean", "unit_price", 9.99, 0.25), Figure("volume", "", 12.0))}
    assert from_json(as_json(figures)) == figures


def test_more_events_of_the_backlog_may_be_refused_than_lines_were_read() -> None:
    assert share("quarantined", "", 9, 1).error == 0.0
