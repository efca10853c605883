"""For whom a batch reads that may not read for all: keys that most wait for, or tuples around a place of the queue."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from etl.columnar.keys import encode
from etl.enrich.batch import SHED, BatchBudget, build, join_batch
from etl.enrich.step import StreamTuples
from etl.enrich.tactics.inlj import IndexNestedLoop, InljConfig
from etl.masters.memory import MemoryMaster

ROWS = pa.table({"id": pa.array(range(1000), pa.int64()), "name": pa.array([f"row {n}" for n in range(1000)])})


def served(keys: list[int], lookups: int, **config: object) -> set[int]:
    """The keys that one round asks for."""
    tactic = IndexNestedLoop(MemoryMaster(ROWS, "id"), InljConfig(**config))  # type: ignore[arg-type]
    tactic.load(StreamTuples(np.arange(len(keys)), encode(pa.array(keys, pa.int64()))))
    step = tactic.advance(draining=True, most=BatchBudget(lookups=lookups))
    return {keys[ticket] for ticket in step.matched.tickets}


def one_at_a_time(keys: list[int], position: float, lookups: int) -> set[int]:
    """The paper's rule, literally: the element at the position chooses, and leaves with all of its key."""
    queue, chosen = list(keys), set()  # oldest first
    while queue and len(chosen) < lookups:
        key = queue[round((1.0 - position) * (len(queue) - 1))]
        chosen.add(key)
        queue = [one for one in queue if one != key]
    return chosen


def test_best_first_asks_for_the_keys_that_most_tuples_share() -> None:
    assert served([1, 2, 2, 3, 3, 3, 4], 2) == {2, 3}


def test_by_position_the_tuples_around_it_choose() -> None:
    keys = list(range(100))  # the oldest is 0
    assert served(keys, 1, best_first=False, position=1.0) == {0}
    assert served(keys, 1, best_first=False, position=0.0) == {99}
    assert served(keys, 20, best_first=False, position=0.15) == set(range(68, 88))


@pytest.mark.parametrize("position", [0.0, 0.15, 0.5, 1.0])
def test_many_choices_at_once_are_about_those_made_one_after_the_other(position: float) -> None:
    keys = list(range(400))
    ours, papers = served(keys, 60, best_first=False, position=position), one_at_a_time(keys, position, 60)
    assert len(ours ^ papers) <= 4, "but for rounding"


@given(keys=st.lists(st.integers(0, 30), min_size=1, max_size=80), lookups=st.integers(1, 40), best_first=st.booleans())
def test_whatever_the_rule_the_budget_is_used_and_not_exceeded(keys: list[int], lookups: int, best_first: bool) -> None:
    join = build(
        "inlj", lookup=MemoryMaster(ROWS, "id"), budget_bytes=2**20, best_first=best_first, shedding_position=0.15
    )
    result = join_batch(join, pa.array(keys, pa.int64()), budget=BatchBudget(lookups=lookups))
    assert result.metrics.cost.lookups == min(lookups, len(set(keys)))
    shed = result.position == SHED
    assert (shed.sum() == 0) == (lookups >= len(set(keys)))
    if best_first and shed.any():
        counts = {key: keys.count(key) for key in keys}
        left = {key for key, gone in zip(keys, shed, strict=True) if gone}
        assert max(counts[key] for key in left) <= min(counts[key] for key in set(keys) - left)
