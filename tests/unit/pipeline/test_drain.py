"""Draining the backlog: batch after batch, as long as that helps."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from etl.pipeline.inspection.backlog import Drained, drain


def silent(_: str) -> None:
    """Progress that nobody reads."""


@given(left=st.lists(st.integers(0, 100), min_size=1, max_size=20))
def test_batches_run_while_less_waits_after_each_and_no_longer(left: list[int]) -> None:
    at = [0]

    def run_batch() -> int | None:
        at[0] += 1
        return at[0] if at[0] < len(left) else None

    done = drain("orders", lambda: left[min(at[0], len(left) - 1)], run_batch, lambda: True, silent)
    assert done.before == left[0]
    assert done.after == min(left[: done.batches + 1])
    assert all(later < earlier for earlier, later in pairwise(left[: done.batches]))
    assert done.after == 0 or done.batches == len(left) - 1 or left[done.batches] >= left[done.batches - 1]


def test_nothing_runs_when_nothing_waits_or_time_is_up() -> None:
    def run_batch() -> int | None:
        raise AssertionError("no batch is needed")

    assert drain("orders", lambda: 0, run_batch, lambda: True, silent) == Drained("orders", 0, 0, 0)
    assert drain("orders", lambda: 9, run_batch, lambda: False, silent) == Drained("orders", 0, 9, 9)
