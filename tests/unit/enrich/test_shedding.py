"""Load shedding: detection, what goes, what comes back, and that considering first pays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from etl.columnar.keys import encode
from etl.enrich.batch import SHED, BatchBudget, build, join_batch
from etl.enrich.errors import UnknownChoice
from etl.enrich.front_stage.stage import FrontStage, FrontStageConfig
from etl.enrich.join import SemiStreamJoin
from etl.enrich.shedding import SheddingConfig, ShedLog, measure
from etl.enrich.step import StreamTuples
from etl.enrich.tactics.hybrid import HybridConfig, HybridJoin
from etl.enrich.tactics.inlj import IndexNestedLoop, InljConfig
from etl.enrich.tactics.pending import PendingTuples
from etl.masters.memory import MemoryMaster

ROWS, PAGE_ROWS = 8_000, 20


@pytest.fixture(scope="module")
def master() -> MemoryMaster:
    return MemoryMaster(pa.table({"id": np.arange(ROWS), "name": ["x" * 40] * ROWS}), "id", page_rows=PAGE_ROWS)


def test_load_is_too_high_when_more_than_twice_the_room_waits() -> None:
    assert (measure(20, 10).excess, measure(20, 10).reload) == (0, 0)
    assert (measure(25, 10).excess, measure(25, 10).reload) == (5, 0)
    assert (measure(0, 10).excess, measure(0, 10).reload) == (0, 20)
    assert (measure(15, 10).excess, measure(15, 10).reload) == (0, 5)


def test_considering_sheds_the_oldest_of_the_queue_and_keep_the_newest_of_the_buffer(master: MemoryMaster) -> None:
    shed = {}
    for policy in ("consider", "keep"):
        join = SemiStreamJoin(None, HybridJoin(master, HybridConfig(10)), SheddingConfig(policy))  # type: ignore[arg-type]
        first = join.offer(pa.array(np.arange(0, 10 * PAGE_ROWS, PAGE_ROWS)))  # ten pages: one leaves per step
        join.step()
        join.offer(pa.array(np.arange(4_000, 4_000 + 6 * PAGE_ROWS, PAGE_ROWS)))
        step = join.step()  # six wait, one place is free: four too many
        assert step.shed is not None
        assert step.metrics.shed == 4
        shed[policy] = step.shed.tickets.tolist()
    assert shed["consider"] == first[1:5].tolist()
    assert shed["keep"] == [12, 13, 14, 15]


def test_shed_tuples_come_back_in_order_when_load_has_fallen(master: MemoryMaster) -> None:
    join = SemiStreamJoin(None, HybridJoin(master, HybridConfig(10)), SheddingConfig("consider"))
    log, answered = ShedLog(), 0
    join.offer(pa.array(np.arange(0, 400 * PAGE_ROWS, PAGE_ROWS) % ROWS))
    for _ in range(2_000):
        step = join.step()
        answered += step.metrics.matched
        log.put(step.shed)
        back = log.take(step.reload)
        for part in back:
            assert (np.diff(part.tickets) > 0).all()
            join.offer_again(part)
        if not join.pending and not len(log):
            break
    assert answered == 400
    assert not len(log)


def test_what_waits_never_exceeds_the_hard_bound_after_a_step(master: MemoryMaster) -> None:
    for tactic in (HybridJoin(master, HybridConfig(50)), IndexNestedLoop(master, InljConfig(50))):
        join = SemiStreamJoin(None, tactic, SheddingConfig("consider", most_waiting=80))
        rng = np.random.default_rng(1)
        for _ in range(50):
            join.offer(pa.array(rng.integers(0, ROWS, 500)))
            metrics = join.step().metrics
            assert metrics.waiting <= 80
            assert metrics.pending <= 50


def served(master: MemoryMaster, policy: str) -> int:
    """Tuples matched in a fixed number of steps under overload, pages of hot keys lying together."""
    rng = np.random.default_rng(3)
    weight = 1.0 / np.arange(1, ROWS + 1)
    keys = rng.choice(ROWS, (500, 60), p=weight / weight.sum())
    join = SemiStreamJoin(None, HybridJoin(master, HybridConfig(800)), SheddingConfig(policy, 4_000))  # type: ignore[arg-type]
    matched = 0
    for step, offered in enumerate(keys):
        join.offer(pa.array(offered))
        metrics = join.step().metrics
        matched += metrics.matched if step >= 150 else 0
    return matched


def test_considered_shedding_serves_more_than_keep_and_tuned_more_than_untuned(master: MemoryMaster) -> None:
    keep, untuned, tuned = (served(master, policy) for policy in ("keep", "consider-untuned", "consider"))
    assert untuned > 2 * keep
    assert tuned > untuned


def test_a_batch_sheds_what_its_budget_of_pages_does_not_reach(master: MemoryMaster) -> None:
    join = build("chybridjoin", index=master, scan=master, budget_bytes=1 << 20, lookups=1)
    keys = pa.array(np.arange(0, 100 * PAGE_ROWS, PAGE_ROWS))
    result = join_batch(join, keys, budget=BatchBudget(pages=30))
    assert np.count_nonzero(result.position >= 0) == 30
    assert np.count_nonzero(result.position == SHED) == 70
    assert result.metrics.shed == 70
    assert join.pending == 0
    again = join_batch(join, keys.filter(pa.array(result.position == SHED)))
    assert (again.position >= 0).all()


def test_a_spent_budget_still_lets_the_front_stage_answer(master: MemoryMaster) -> None:
    front = FrontStage(FrontStageConfig(100_000))
    join = SemiStreamJoin(front, IndexNestedLoop(master, InljConfig(100)))
    join_batch(join, pa.array(np.arange(50).repeat(2)))
    result = join_batch(join, pa.array([3, 7_000, 4, 7_001]), budget=BatchBudget(lookups=0))
    assert (result.position >= 0).tolist() == [True, False, True, False]
    assert (result.position == SHED).tolist() == [False, True, False, True]


def test_an_unknown_shedding_policy_is_refused() -> None:
    with pytest.raises(UnknownChoice, match="shedding policy 'drop' is unknown; choose one of none, keep"):
        SheddingConfig("drop")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="most_waiting=0 is not positive"):
        SheddingConfig("keep", 0)


def test_frequent_keys_gather_at_neither_end_of_the_queue() -> None:
    rng = np.random.default_rng(4)
    frequent = rng.random(20_000) < 0.5
    keys = np.where(frequent, rng.integers(0, 200, 20_000), rng.integers(1_000, 10**9, 20_000))
    pending = PendingTuples(20_000)
    pending.load(StreamTuples(np.arange(20_000), encode(pa.array(keys))))
    for part in ("oldest", "next", "after that"):
        hot = int(np.count_nonzero(keys[pending.shed(4_000).tickets] < 200))
        assert 1_200 < hot < 2_800, f"{part}: half of the tuples have a frequent key, whatever part of the queue"
