"""The heuristic, the optimum, and operators that become PMJoins."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from etl.correlate.multiway.errors import TooManyStreams
from etl.correlate.multiway.explain import expected_bytes, explain
from etl.correlate.multiway.planning.baselines import centralised, local_first, simple
from etl.correlate.multiway.planning.heuristic import algorithm1
from etl.correlate.multiway.planning.optimal import optimal
from etl.correlate.multiway.planning.planner import PlanOptions, make_plan, replan
from etl.correlate.multiway.planning.pmjoin import best_unpartitioned, plan_pmjoin
from etl.correlate.multiway.planning.several import find_partition, partition_plan
from etl.correlate.multiway.planning.tree import MJoin, Node, PMJoin, Shipment, Source, cost, mjoin
from etl.correlate.multiway.rates import EdgeSelectivity, Histogram, HistogramSelectivity, RateModel, StreamRate
from tests.support.multiway_examples import example_1, example_2


def random_model(seed: int, streams: int, sites: int = 3) -> RateModel:
    """A random connected join graph with random selectivities."""
    rng = np.random.default_rng(seed)
    known = [
        StreamRate.over_time(f"s{i}", f"n{rng.integers(sites)}", float(rng.uniform(10, 100)), float(rng.uniform(1, 10)))
        for i in range(streams)
    ]
    edges = {(int(rng.integers(i)), i): float(10 ** rng.uniform(-4, -1)) for i in range(1, streams)}
    return RateModel(known, EdgeSelectivity(streams, edges))


def all_plans(model: RateModel, streams: int) -> list[Node]:
    """Every tree of binary joins at every site, for a set of streams: the enumeration in its plainest form."""
    if streams & (streams - 1) == 0:
        return [Source(streams, model.streams[streams.bit_length() - 1].site)]
    plans: list[Node] = []
    part = (streams - 1) & streams
    while part:
        rest = streams ^ part
        near = any(model.neighbours[i] & rest for i in range(len(model.streams)) if part >> i & 1)
        if part > rest and near and connected(model, part) and connected(model, rest):
            for left, right in itertools.product(all_plans(model, part), all_plans(model, rest)):
                plans += [mjoin(site, (left, right)) for site in {one.site for one in model.streams}]
        part = (part - 1) & streams
    return plans


def connected(model: RateModel, streams: int) -> bool:
    reached = streams & -streams
    for _ in range(len(model.streams)):
        for i, near in enumerate(model.neighbours):
            reached |= near & streams if reached >> i & 1 else 0
    return reached == streams


@pytest.mark.parametrize("seed", range(8))
def test_the_optimum_is_the_cheapest_of_all_trees(seed: int) -> None:
    model = random_model(seed, 4)
    cheapest = min(cost(plan, model) for plan in all_plans(model, model.everything))
    assert cost(optimal(model), model) == pytest.approx(cheapest)


@pytest.mark.parametrize("seed", range(30))
def test_no_planner_beats_the_optimum_and_none_is_worse_than_simple(seed: int) -> None:
    model = random_model(seed, 7)
    least = cost(optimal(model), model) * (1 - 1e-9)
    for plan in (algorithm1(model), local_first(model), centralised(model), simple(model)):
        assert cost(plan, model) >= least
    assert cost(best_unpartitioned(model), model) <= cost(simple(model), model)


@pytest.mark.parametrize("seed", range(5))
def test_the_optimum_reckons_with_the_way_of_the_result(seed: int) -> None:
    model = random_model(seed, 5)
    here, anywhere = optimal(model, destination="n1"), optimal(model)
    assert cost(here, model, "n1") <= cost(anywhere, model, "n1") * (1 + 1e-9)


def test_the_optimum_refuses_more_streams_than_it_can_enumerate() -> None:
    with pytest.raises(TooManyStreams, match="17 streams would take too long; at most 16"):
        optimal(random_model(0, 17))


def test_local_joins_happen_only_where_they_shrink() -> None:
    plan = algorithm1(example_2())
    operators = [node for node in walk(plan) if isinstance(node, MJoin)]
    assert MJoin("n1", (Source(4, "n1"), Source(8, "n1"))) in operators
    assert not any(node.streams == 0b11 for node in operators)


def walk(node: Node) -> list[Node]:
    children = node.children if isinstance(node, MJoin) else ()
    return [node, *(below for child in children for below in walk(child))]


def several_attributes(seed: int, streams: int = 6, attributes: int = 3, values: int = 40) -> RateModel:
    """A chain over several attributes: neighbouring attributes share a stream."""
    rng = np.random.default_rng(seed)
    known = [
        StreamRate.over_time(
            f"s{i}", f"n{rng.integers(4)}", float(rng.uniform(100, 1000)), float(rng.uniform(0.05, 0.3))
        )
        for i in range(streams)
    ]
    histograms = []
    step = (streams - 1) // attributes
    for number in range(attributes):
        members = sum(1 << i for i in range(number * step, min(streams, (number + 1) * step + 1)))
        if number == attributes - 1:
            members |= sum(1 << i for i in range(number * step, streams))
        shares = rng.pareto(0.7, (streams, values)) + 1e-3
        histograms.append(Histogram.exact(shares / shares.sum(axis=1, keepdims=True), members=members))
    return RateModel(known, HistogramSelectivity(streams, tuple(histograms)))


@pytest.mark.parametrize("seed", range(20))
def test_partitioned_operators_obey_the_two_constraints_and_pay(seed: int) -> None:
    model = several_attributes(seed)
    plan = partition_plan(model, "rate", 20)
    check_constraints(plan, right=False)
    assert cost(plan, model) <= cost(best_unpartitioned(model), model) * (1 + 1e-9)


def check_constraints(node: Node, right: bool) -> None:
    if isinstance(node, PMJoin):
        assert not right
        assert not any(isinstance(one, PMJoin) for one in node.inputs)
        for one in node.inputs:
            check_constraints(one, False)
    elif isinstance(node, MJoin):
        for number, child in enumerate(node.children):
            check_constraints(child, number == len(node.children) - 1)


def test_some_queries_over_several_attributes_gain_by_partitioning() -> None:
    gains = []
    for seed in range(20):
        model = several_attributes(seed)
        gains.append(cost(best_unpartitioned(model), model) / cost(partition_plan(model, "rate", 20), model))
    assert max(gains) > 1.05


def test_operators_on_one_attribute_merge_into_one_pmjoin() -> None:
    model = example_1()
    (mark,) = find_partition(algorithm1(model), model)
    assert len(mark.merged) == 1
    assert sorted(one.streams for one in mark.inputs) == [1, 2, 4]


def test_an_operator_on_two_attributes_is_not_partitioned() -> None:
    known = [StreamRate.over_time(f"s{i}", f"n{i}", 100.0, 1.0) for i in range(2)]
    shares = np.full((2, 4), 0.25)
    model = RateModel(known, HistogramSelectivity(2, (Histogram.exact(shares), Histogram.exact(shares))))
    assert find_partition(algorithm1(model), model) == []


def test_a_plan_is_kept_while_it_is_good_and_left_when_rates_have_moved() -> None:
    options = PlanOptions(by="range", partitions=3)
    model = example_1()
    present = make_plan(model, options)
    assert replan(present, model, options) is None
    shares = np.array([[0.98, 0.01, 0.01], [0.01, 0.01, 0.98], [0.01, 0.98, 0.01]])
    known = [StreamRate.over_time(one.name, one.site, 100.0, 0.5) for one in model.streams]
    moved = RateModel(known, HistogramSelectivity(3, (Histogram.exact(shares),)))
    better = replan(present, moved, options)
    assert better is not None
    assert better.new_bytes_per_s < better.present_bytes_per_s / 5
    assert "ships" in better.reason
    assert replan(present, moved, options, horizon_s=0.001) is None


def test_an_explanation_shows_the_tree_the_edges_and_the_alternatives() -> None:
    model = example_1()
    plan = plan_pmjoin(model, 0, "range", 3)
    text = explain(plan, model, {Shipment(2, "n2", "n1"): 0.031}, ["S1.dest"])
    assert "PMJoin on S1.dest: 3 partitions, 3 plans" in text
    assert "├─ 1 partition" in text
    assert "S2 at n2 ──► n1" in text
    assert "expected 0.0300 B/s   measured 0.0310 B/s" in text
    assert "centralised 100 B/s" in text
    assert "optimum without partitions 54.0 B/s" in text


def test_expected_bytes_add_up_to_the_cost() -> None:
    for model in (example_1(),):
        for plan in (algorithm1(model), partition_plan(model, "range", 3)):
            assert sum(expected_bytes(plan, model).values()) == pytest.approx(cost(plan, model))
