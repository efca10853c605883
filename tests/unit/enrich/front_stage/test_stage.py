"""The front stage: bounded in bytes, honest about what it knows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from etl.columnar.keys import Keys, encode
from etl.enrich.errors import BudgetTooSmall
from etl.enrich.front_stage.policy import POLICIES
from etl.enrich.front_stage.stage import KNOWN_ABSENT, MISS, STALE, FrontStage, FrontStageConfig


def keys(*values: int) -> Keys:
    return encode(pa.array(values, pa.int64()))


def rows(ids: np.ndarray, width: np.ndarray | int = 20) -> pa.Table:
    widths = np.broadcast_to(width, len(ids))
    return pa.table({"id": ids, "text": pa.array(["x" * int(w) for w in widths], pa.string())})


def answered(front: FrontStage, hits: np.ndarray) -> pa.Table:
    every, row = front.answers(hits)
    return every.take(pa.array(row))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("budget", [20_000, 100_000, 1_000_000])
def test_bytes_never_exceed_the_budget_whatever_the_rows(policy: str, budget: int) -> None:
    front = FrontStage(FrontStageConfig(budget, policy=policy))  # type: ignore[arg-type]
    rng = np.random.default_rng(3)
    for round_ in range(60):
        count = int(rng.integers(1, 400))
        ids = np.unique(rng.integers(0, 5_000, count))
        width = rng.integers(0, 1 + (10, 60, 200)[round_ % 3], len(ids))
        front.probe(encode(pa.array(ids)))
        front.learn(rows(ids, width), rng.integers(1, 20, len(ids)))
        assert front.nbytes <= budget, f"round {round_}"
    assert len(front) > 4


def test_rows_come_back_as_they_went_in() -> None:
    front = FrontStage(FrontStageConfig(200_000, policy="tinylfu"))
    rng = np.random.default_rng(5)
    for _ in range(80):
        ids = np.unique(rng.zipf(1.3, 300) % 4_000)
        entry = front.probe(encode(pa.array(ids)))
        if (entry >= 0).any():
            kept = answered(front, entry[entry >= 0])
            assert kept.column("id").to_pylist() == ids[entry >= 0].tolist()
            assert [len(text) for text in kept.column("text").to_pylist()] == [i % 97 for i in ids[entry >= 0].tolist()]
        front.record(entry[entry >= 0], len(ids))
        front.learn(rows(ids, ids % 97), np.ones(len(ids), np.int64) * 2)
    assert front.counts.evictions > 0


def test_an_absent_key_is_believed_absent_until_its_deadline_only() -> None:
    front = FrontStage(FrontStageConfig(100_000, negative_ttl_s=10))
    front.learn(rows(np.array([1])), np.array([2]))
    front.learn_absent(keys(9), now=100.0)
    assert front.probe(keys(9, 1, 8), now=105.0).tolist()[0] == KNOWN_ABSENT
    assert front.probe(keys(9), now=110.0).tolist() == [STALE]
    assert front.probe(keys(9)).tolist() == [STALE], "without a clock nothing is believed absent"
    front.learn(rows(np.array([9])), np.array([2]))
    assert front.probe(keys(9), now=105.0)[0] >= 0, "the row arrived: the belief is gone"


def test_an_invalidated_row_is_a_stale_miss_and_then_learnt_again() -> None:
    front = FrontStage(FrontStageConfig(100_000))
    front.learn(rows(np.array([1, 2])), np.array([2, 2]))
    front.invalidate(keys(1, 7))
    assert front.probe(keys(1, 7)).tolist() == [STALE, MISS]
    assert front.probe(keys(2))[0] >= 0
    front.learn(rows(np.array([1]), 33), np.array([2]))
    assert answered(front, front.probe(keys(1))).column("text").to_pylist() == ["x" * 33]


def test_the_papers_policy_admits_at_the_threshold_and_displaces_the_least_frequent() -> None:
    front = FrontStage(FrontStageConfig(20_000, policy="paper", threshold=3))
    front.learn(rows(np.arange(4)), np.array([2, 3, 9, 4]))
    assert [entry >= 0 for entry in front.probe(keys(0, 1, 2, 3))] == [False, True, True, True]
    for start in range(100, 2_000, 20):  # more than fits, each more frequent than row 1 and 3
        front.learn(rows(np.arange(start, start + 20)), np.full(20, 5))
    assert [entry >= 0 for entry in front.probe(keys(1, 2, 3))] == [False, True, False]


def test_the_papers_threshold_falls_while_there_is_room_and_rises_under_churn() -> None:
    front = FrontStage(FrontStageConfig(20_000, policy="paper", threshold=5))
    for start in range(0, 4_000, 100):
        ids = np.arange(start, start + 100)
        front.record(np.zeros(0, np.int64), 100)
        front.learn(rows(ids), np.full(100, 3))
    assert front.counts.admissions > 0, "it fell from 5 to at most 3"
    fallen = front.threshold
    for start in range(10_000, 40_000, 100):
        front.record(np.zeros(0, np.int64), 100)
        front.learn(rows(np.arange(start, start + 100)), np.full(100, 50))
    assert front.threshold > fallen


def test_content_can_be_saved_and_learnt_again() -> None:
    front = FrontStage(FrontStageConfig(100_000))
    front.learn(rows(np.arange(50)), np.arange(50) + 1)
    saved = front.content()
    assert saved is not None
    table, frequency = saved
    other = FrontStage(FrontStageConfig(100_000))
    other.learn(table, frequency)
    assert (other.probe(encode(pa.array(np.arange(50)))) >= 0).all()
    assert frequency.tolist() == sorted(frequency.tolist(), reverse=True)
    assert FrontStage(FrontStageConfig(100_000)).content() is None


def test_a_budget_too_small_for_rows_of_this_size_is_refused_with_what_is_needed() -> None:
    front = FrontStage(FrontStageConfig(20_000))
    with pytest.raises(BudgetTooSmall, match="20000 bytes are too few for a front stage of four rows"):
        front.learn(rows(np.array([1]), 50_000), np.array([2]))


def test_rows_that_nobody_wants_any_more_leave_also_when_little_is_learned_at_a_time() -> None:
    front = FrontStage(FrontStageConfig(200_000))
    front.learn(rows(np.arange(5_000), 100), np.ones(5_000, np.int64))
    held = len(front)
    for start in range(10_000, 10_000 + 4 * held, 20):
        front.learn(rows(np.arange(start, start + 20), 100), np.full(20, 50))
    saved = front.content()
    assert saved is not None
    assert not [number for number in saved[0].column("id").to_pylist() if number < 5_000]
