"""Sketches: what they remember, what they forget, and what follows for the model."""

from __future__ import annotations

import numpy as np
import pytest

from etl.correlate.multiway.planning.pmjoin import best_unpartitioned
from etl.correlate.multiway.planning.several import partition_plan
from etl.correlate.multiway.planning.tree import PMJoin, cost
from etl.correlate.multiway.statistics import (
    DistinctSketch,
    StreamStatistics,
    ValueSketch,
    good_turing,
    histogram,
    rate_model,
)
from tests.support.multiway_worlds import query, seconds, stream

RNG = np.random.default_rng(7)


def test_a_steady_stream_keeps_its_rate() -> None:
    known = StreamStatistics(half_life_s=60.0)
    for _ in range(50):
        known.add({0: RNG.integers(0, 10, 500)}, {"x": 4000}, 500, 5.0)
    assert known.rate_per_s == pytest.approx(100.0)
    assert known.width_bytes("x") == pytest.approx(8.0)


def test_an_old_rate_fades() -> None:
    known = StreamStatistics(half_life_s=10.0)
    known.add({}, {}, 10_000, 10.0)
    for _ in range(10):
        known.add({}, {}, 100, 10.0)
    assert 10.0 < known.rate_per_s < 12.0


def test_frequent_values_are_counted_exactly_and_the_others_together() -> None:
    sketch = ValueSketch(capacity=10)
    for _ in range(20):
        sketch.add(np.concatenate([np.repeat(np.arange(5), 100), RNG.integers(1000, 100_000, 200)]), 1.0, 1e9)
    hot = dict(zip(sketch.codes.tolist(), sketch.counts.tolist(), strict=True))
    assert all(hot[value] == pytest.approx(2000, rel=1e-6) for value in range(5))
    assert sketch.total == pytest.approx(20 * 700, rel=1e-6)
    assert sketch.rest_distinct == pytest.approx(4000, rel=0.15)


def test_a_value_that_no_longer_comes_is_forgotten() -> None:
    sketch = ValueSketch(capacity=4)
    sketch.add(np.full(1000, 1), 1.0, 1.0)
    for _ in range(20):
        sketch.add(np.repeat([2, 3, 4, 5], 10), 1.0, 1.0)
    assert sketch.codes.tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize("distinct", [10, 1000, 100_000])
def test_distinct_values_are_estimated(distinct: int) -> None:
    sketch = DistinctSketch()
    sketch.add(np.arange(distinct), 1.0, 10.0)
    assert sketch.estimate() == pytest.approx(distinct, rel=0.12)


def test_distinct_values_of_two_half_lives_ago_are_forgotten() -> None:
    sketch = DistinctSketch()
    sketch.add(np.arange(1000), 1.0, 10.0)
    for _ in range(3):
        sketch.add(np.arange(5), 11.0, 10.0)
    assert sketch.estimate() == 5


def test_a_histogram_of_sketches_gives_the_selectivity_of_the_exact_one() -> None:
    chances = np.arange(1, 3001) ** -1.1
    chances /= chances.sum()
    draws = [RNG.choice(3000, 100_000, p=chances) for _ in range(3)]
    sketches = {i: ValueSketch(capacity=500) for i in range(3)}
    for i, values in enumerate(draws):
        for part in np.array_split(values, 10):
            sketches[i].add(part, 1.0, 1e9)
    made = histogram(0b111, sketches, 3)
    assert made.share.sum(axis=1) + made.rest == pytest.approx(np.ones(3))
    assert made.of(0b011) == pytest.approx(float((chances**2).sum()), rel=0.05)
    assert made.of(0b111) == pytest.approx(float((chances**3).sum()), rel=0.05)
    assert made.of_all(3)[0b111] == pytest.approx(made.of(0b111))


def test_rare_values_are_smoothed_and_frequent_ones_left_alone() -> None:
    true = np.concatenate([np.full(600, 0.3), np.full(20, 500.0)])
    counts = RNG.poisson(true).astype(float)
    smoothed = good_turing(counts)
    assert smoothed.sum() == pytest.approx(counts.sum())
    assert (smoothed[600:] == counts[600:]).all()
    assert np.abs(smoothed - true)[:600].mean() < 0.5 * np.abs(counts - true)[:600].mean()


def test_plans_that_only_chance_recommends_are_not_taken() -> None:
    """Uniform values: every sample looks as if some values were hot in some streams."""
    streams = [stream(f"s{i}", site, seconds(0.2)) for i, site in enumerate(("eu", "eu", "us", "us", "ap"))]
    asked = query(streams, [("s0.x", f"s{i}.x") for i in range(1, 5)])
    statistics = [StreamStatistics(3600.0) for _ in streams]
    for known in statistics:
        known.add({0: RNG.integers(0, 500, 3000)}, {}, 3000, 10.0)
    model = rate_model(asked, statistics, lambda streams: 8.0 * streams.bit_count())
    assert model.folds is not None
    plain, fooled = best_unpartitioned(model), partition_plan(model.folds[0], "rate", 100)
    assert isinstance(fooled, PMJoin)
    assert cost(fooled, model.folds[0]) < 0.9 * cost(plain, model.folds[0])
    assert cost(fooled, model.folds[1]) > cost(plain, model.folds[1])
    assert partition_plan(model, "rate", 100, shipment_bytes_per_s=1.0) == plain
