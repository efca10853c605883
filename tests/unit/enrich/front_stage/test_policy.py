"""Which rows the front stage keeps: as good as clairvoyance on a steady stream, quick on a drifting one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from etl.columnar.keys import encode
from etl.columnar.sketch import CountMinSketch
from etl.enrich.batch import join_batch
from etl.enrich.front_stage.stage import FrontStage, FrontStageConfig
from etl.enrich.join import SemiStreamJoin
from etl.enrich.tactics.inlj import IndexNestedLoop
from etl.masters.memory import MemoryMaster

ROWS, BATCH = 20_000, 2_000


@pytest.fixture(scope="module")
def master() -> MemoryMaster:
    return MemoryMaster(pa.table({"id": np.arange(ROWS), "name": ["x" * 100] * ROWS}), "id")


def zipf(exponent: float, keys: int) -> np.ndarray:
    weight = 1.0 / np.arange(1, keys + 1) ** exponent
    return weight / weight.sum()


def hits(front: FrontStage, master: MemoryMaster, trace: np.ndarray, warm_up: int) -> float:
    join = SemiStreamJoin(front, IndexNestedLoop(master))
    found = seen = 0
    for start in range(0, len(trace), BATCH):
        metrics = join_batch(join, pa.array(trace[start : start + BATCH])).metrics
        if start >= warm_up:
            found, seen = found + metrics.front_hits, seen + metrics.tuples
    return found / seen


@pytest.mark.parametrize("exponent", [0.8, 1.0, 1.2])
@pytest.mark.parametrize("budget", [80_000, 300_000])
def test_the_default_policy_comes_within_five_percent_of_clairvoyance(
    master: MemoryMaster, exponent: float, budget: int
) -> None:
    rng = np.random.default_rng(17)
    ranks, probability = rng.permutation(ROWS), zipf(exponent, ROWS)
    trace = ranks[rng.choice(ROWS, 240_000, p=probability)]
    bound = FrontStage(FrontStageConfig(budget, policy="static"))
    true = np.empty(ROWS)
    true[ranks] = probability
    bound.learn(master.read_pages(0, master.page_count()), np.round(true * 1e9).astype(np.int64))
    best = hits(bound, master, trace, warm_up=160_000)
    default = hits(FrontStage(FrontStageConfig(budget)), master, trace, warm_up=160_000)
    assert default >= 0.95 * best


@pytest.mark.parametrize("budget", [80_000, 300_000])
def test_the_default_policy_follows_drift_better_than_the_papers(master: MemoryMaster, budget: int) -> None:
    rng = np.random.default_rng(19)
    ranks, slices = rng.permutation(ROWS), 25
    part = ROWS // slices
    drawn = [rng.choice(part, 6_000, p=zipf(1.0, part)) + part * i for i in range(slices)]
    trace = ranks[np.concatenate(drawn)]
    ours, papers = (
        hits(FrontStage(FrontStageConfig(budget, policy=policy)), master, trace, warm_up=0)
        for policy in ("tinylfu", "paper")
    )
    assert ours > 1.1 * papers


def test_the_sketch_never_counts_too_little_and_rarely_too_much() -> None:
    rng = np.random.default_rng(2)
    sketch = CountMinSketch(CountMinSketch.width_for(2_000))
    truth = np.zeros(5_000, np.int64)
    for _ in range(20):
        ids, counts = np.unique(rng.choice(5_000, 500, p=zipf(1.0, 5_000)), return_counts=True)
        sketch.add(encode(pa.array(ids)), counts)
        truth[ids] += counts
    estimate = sketch.estimate(encode(pa.array(np.arange(5_000))))
    assert (estimate >= np.minimum(truth, 255)).all()
    assert np.mean(estimate - np.minimum(truth, 255)) < 1.0
    sketch.halve()
    assert sketch.estimate(encode(pa.array(np.arange(5_000)))).max() <= 127


def test_rows_that_turn_out_smaller_than_the_first_ones_still_fill_the_budget() -> None:
    front = FrontStage(FrontStageConfig(200_000))
    front.learn(pa.table({"id": np.arange(3), "name": ["x" * 3_000] * 3}), np.array([1, 1, 1]))
    for start in range(10, 4_000, 100):
        ids = np.arange(start, start + 100)
        front.learn(pa.table({"id": ids, "name": ["y" * 20] * 100}), np.full(100, 2))
        assert front.nbytes <= 200_000
    assert len(front) > 800


@pytest.mark.parametrize("width", [20, 40, 80])
def test_a_full_front_stage_gives_no_row_away_for_a_less_frequent_one(width: int) -> None:
    """Whether bytes or places have run out: planned for rows of 40, filled with smaller, equal or larger ones."""
    front = FrontStage(FrontStageConfig(100_000))
    front.learn(pa.table({"id": [0], "name": ["x" * 40]}), np.array([50]))
    for start in range(1, 1_000, 100):
        ids = np.arange(start, start + 100)
        front.learn(pa.table({"id": ids, "name": ["y" * width] * 100}), np.full(100, 50))
    held, admitted = len(front), front.counts.admissions
    for start in range(5_000, 6_000, 100):
        ids = np.arange(start, start + 100)
        front.learn(pa.table({"id": ids, "name": ["z" * width] * 100}), np.full(100, 3))
    assert len(front) == held
    assert front.counts.admissions - admitted <= 60, "of a thousand; the sketch takes some for others"
