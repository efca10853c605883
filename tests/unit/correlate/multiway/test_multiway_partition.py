"""Partitions by hash, range and rate."""

from __future__ import annotations

import json

import numpy as np
import pytest

from etl.correlate.multiway.planning.codec import from_json, to_json
from etl.correlate.multiway.planning.partition import (
    By,
    HashPartitioner,
    by_range,
    by_rate,
    cluster,
    partitioner,
    rank_vectors,
)
from etl.correlate.multiway.planning.pmjoin import best_unpartitioned, plan_pmjoin
from etl.correlate.multiway.planning.tree import PMJoin, cost
from etl.correlate.multiway.rates import Histogram, HistogramSelectivity, RateModel, StreamRate
from tests.support.multiway_examples import example_1

RNG = np.random.default_rng


def skewed(seed: int, streams: int = 4, values: int = 60) -> RateModel:
    rng = RNG(seed)
    shares = rng.pareto(1.0, (streams, values)) + 1e-3
    shares /= shares.sum(axis=1, keepdims=True)
    known = [
        StreamRate.over_time(f"s{i}", f"n{i % 3}", float(rng.uniform(10, 1000)), float(rng.uniform(0.1, 2)), 8.0)
        for i in range(streams)
    ]
    return RateModel(known, HistogramSelectivity(streams, (Histogram.exact(shares),)))


def test_a_rank_vector_says_where_each_stream_stands_by_its_rate() -> None:
    """The paper's example: the order S3, S1, S2 is the vector 2, 3, 1."""
    assert rank_vectors(np.array([[5.0], [9.0], [1.0]])).tolist() == [[2, 3, 1]]


def test_ranges_divide_the_values_evenly() -> None:
    divided = by_range(np.arange(1, 101), 4)
    assert np.bincount(divided.assign(np.arange(1, 101))).tolist() == [25, 25, 25, 25]


def test_more_ranges_than_values_leave_one_value_each() -> None:
    divided = by_range(np.arange(3), 10)
    assert sorted(divided.assign(np.arange(3)).tolist()) == [0, 1, 2]


def test_hashing_spreads_values_over_all_partitions() -> None:
    counts = np.bincount(HashPartitioner(10).assign(np.arange(10_000)), minlength=10)
    assert counts.min() > 800


@pytest.mark.parametrize("partitions", [1, 2, 3, 7, 20])
def test_values_that_rank_alike_share_a_partition_when_there_are_few(partitions: int) -> None:
    vectors = np.array([[1, 2, 3]] * 10 + [[3, 2, 1]] * 10)
    numbers = cluster(vectors, np.arange(20, 0, -1.0), partitions, RNG(0))
    assert len(set(numbers.tolist())) == partitions
    if partitions >= 2:
        assert not set(numbers[:10].tolist()) & set(numbers[10:].tolist())


def test_when_all_vectors_are_equal_partitions_cut_along_the_rates() -> None:
    weight = np.array([1.0, 100.0, 2.0, 90.0])
    numbers = cluster(np.ones((4, 3), np.int64), weight, 2, RNG(0))
    assert numbers[1] != numbers[0] == numbers[2]
    assert len(set(cluster(np.ones((4, 3), np.int64), weight, 9, RNG(0)).tolist())) == 4


def test_k_means_finds_clusters_that_are_far_apart() -> None:
    rng = RNG(5)
    vectors = np.concatenate([rng.integers(0, 3, (30, 4)), rng.integers(100, 103, (30, 4))])
    numbers = cluster(vectors, np.ones(60), 2, RNG(1))
    assert len(set(numbers[:30].tolist())) == len(set(numbers[30:].tolist())) == 1
    assert numbers[0] != numbers[-1]


def test_an_unknown_value_goes_where_the_other_values_are_counted() -> None:
    rates = np.array([[9.0, 1.0, 1.0], [1.0, 9.0, 9.0]])
    divided = by_rate(np.array([10, 20]), rates, 2)
    known, other, unknown = divided.assign(np.array([10, 20, 77])).tolist()
    assert unknown == divided.rest() == other != known


@pytest.mark.parametrize("by", ["hash", "range", "rate"])
@pytest.mark.parametrize("seed", range(5))
def test_a_pmjoin_never_costs_more_than_the_best_plan_without_it(by: By, seed: int) -> None:
    model = skewed(seed)
    unpartitioned = cost(best_unpartitioned(model), model)
    for partitions in (1, 2, 10, 60):
        assert cost(plan_pmjoin(model, 0, by, partitions), model) <= unpartitioned * (1 + 1e-9)


@pytest.mark.parametrize("by", ["hash", "range", "rate"])
def test_the_cost_of_a_partitioned_plan_adds_up_over_its_values(by: By) -> None:
    """With the same plan in every partition the costs of the partitions are the cost of that plan."""
    model = skewed(3)
    plan = best_unpartitioned(model)
    made = plan_pmjoin(model, 0, by, 10)
    same = PMJoin(0, made.partitioner, made.inputs, (plan,) * made.partitioner.partitions)
    assert cost(same, model) == pytest.approx(cost(plan, model))


def test_a_shipment_that_saves_less_than_its_file_is_given_up() -> None:
    model = example_1()
    dear = plan_pmjoin(model, 0, "range", 3, shipment_bytes_per_s=1e6)
    assert len(set(dear.plans)) == 1


@pytest.mark.parametrize("by", ["hash", "range", "rate"])
def test_a_plan_survives_json(by: By) -> None:
    plan = plan_pmjoin(skewed(1), 0, by, 7)
    assert from_json(json.loads(json.dumps(to_json(plan)))) == plan


def test_an_attribute_nobody_has_seen_is_one_partition() -> None:
    nothing = Histogram.exact(np.zeros((2, 0)))
    for by in ("hash", "range", "rate"):
        made = partitioner(by, 5, nothing, np.zeros((2, 1)))
        assert 0 <= made.rest() < made.partitions
