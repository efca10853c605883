"""Groups and join orders: against figure 6, against exhaustive search, and as explained."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.correlate.adhoc.optimize.cost import CostModel, crd
from etl.correlate.adhoc.optimize.grouping import Grouping
from etl.correlate.adhoc.optimize.optimizer import Optimizer, OptimizerConfig
from etl.correlate.adhoc.optimize.ordering import Ordering, all_trees
from etl.correlate.adhoc.optimize.statistics import Statistics, StreamSample, sample_streams
from etl.correlate.adhoc.plan import Choice, Join, Plan
from etl.correlate.adhoc.query.model import Query
from etl.correlate.adhoc.query.parse import parse_query
from tests.support.adhoc_histories import random_query, random_slot
from tests.support.adhoc_oracle import STREAMS, tables


def query(name: str, sql: str, window: int = 1) -> Query:
    return parse_query(name, sql, window, STREAMS)


def vw(name: str, select: str = "V.vid") -> Query:
    return query(name, f"select {select} from V, W where V.vid = W.vid")


def figure_six(overlap: int) -> Statistics:
    """Two queries that want three tuples each of V and W, of which `overlap` are wanted by both; one key."""
    rows = 6 - overlap
    bits = np.zeros((rows, 2), bool)
    bits[:3, 0] = True
    bits[rows - 3 :, 1] = True
    sample = StreamSample(float(rows), bits, {"q4": 0, "q5": 1}, {("vid",): np.zeros(rows, np.int32)})
    return Statistics({"V": sample, "W": sample})


def grouping_of(statistics: Statistics, *queries: Query) -> Grouping:
    named = {each.name: each for each in queries}
    return Grouping(CostModel(statistics, named), queries[0].edges[0], named)


def test_sharing_that_does_not_pay_is_not_done() -> None:
    grouping = grouping_of(figure_six(0), vw("q4"), vw("q5"))
    assert grouping.cost(frozenset(("q4", "q5"))) == 6 + 6 + 1 + 36
    assert grouping.cost(frozenset(("q4",))) == 3 + 3 + 1 + 9
    assert grouping.from_scratch(["q4", "q5"]) == [frozenset(("q4",)), frozenset(("q5",))]


def test_queries_that_want_the_same_tuples_share() -> None:
    grouping = grouping_of(figure_six(3), vw("q4"), vw("q5"))
    assert grouping.from_scratch(["q4", "q5"]) == [frozenset(("q4", "q5"))]


def test_queries_that_only_count_always_share_because_nothing_is_multiplied_out() -> None:
    grouping = grouping_of(figure_six(0), vw("q4", "count(*)"), vw("q5", "count(*)"))
    assert grouping.from_scratch(["q4", "q5"]) == [frozenset(("q4", "q5"))]


@given(st.lists(st.frozensets(st.integers(0, 9)), min_size=1, max_size=5))
def test_equation_one_is_the_size_of_the_union(sets: list[frozenset[object]]) -> None:
    assert crd(sets) == len(frozenset().union(*sets))


@given(st.integers(0, 2**32))
def test_cardinalities_of_a_whole_sample_are_exact(seed: int) -> None:
    random = Random(seed)
    queries = {f"q{n}": random_query(random, f"q{n}") for n in range(3)}
    slot = tables(random_slot(random, 9))
    statistics = sample_streams(STREAMS, queries, slot, seed)
    for name, sample in statistics.samples.items():
        readers = [q for q in queries if name in queries[q].streams]
        sets = [frozenset(np.flatnonzero(sample.bits[:, sample.columns[q]]).tolist()) for q in readers]
        assert statistics.cardinality(name, readers) == crd(sets)


def exhaustive(ordering: Ordering, queries: dict[str, Query], groups: dict[str, dict[object, int]]) -> float:
    trees = {n: all_trees(frozenset(q.streams), frozenset(q.edges)) for n, q in queries.items()}
    best = float("inf")
    for combination in product(*trees.values()):
        choices = {n: Choice(t, groups[n]) for n, t in zip(queries, combination, strict=True) if isinstance(t, Join)}
        best = min(best, ordering.total(Plan(choices)))
    return best


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_join_orders_are_close_to_the_exhaustive_optimum(seed: int) -> None:
    random = Random(seed)
    queries = {f"q{n}": random_query(random, f"q{n}") for n in range(3)}
    statistics = sample_streams(STREAMS, queries, tables(random_slot(random, 30)), seed)
    optimizer = Optimizer()
    optimizer.change(0, queries.values(), [])
    plan, decisions = optimizer.reoptimize(0, statistics)
    groups = {name: dict(choice.groups) for name, choice in plan.choices.items()}
    ordering = Ordering(CostModel(statistics, queries), queries, groups)
    optimum = exhaustive(ordering, queries, groups)
    assert optimum <= ordering.total(plan) * (1 + 1e-9)
    assert ordering.total(plan) <= optimum * 1.1 + 1e-9
    assert decisions[-1].numbers["cost"] == pytest.approx(ordering.total(plan))
    assert decisions[-1].numbers["cost"] <= decisions[-1].numbers["before"] + 1e-9


def test_the_order_of_one_query_is_the_cheapest() -> None:
    three = query("q", "select count(*) from V, W, C where V.vid = W.vid and W.usr = C.usr and C.length > 8")
    slot = {"V": [], "W": [], "C": []}
    slot["V"] = [{"vid": n % 3, "length": 1, "geo": "US", "price": None} for n in range(60)]
    slot["W"] = [{"usr": n, "vid": n % 3, "duration": 1.0, "geo": "US"} for n in range(60)]
    slot["C"] = [{"usr": n, "length": 9 * (n == 0), "emojis": 0, "vid": 0} for n in range(60)]
    optimizer = Optimizer()
    optimizer.change(0, [three], [])
    plan, _ = optimizer.reoptimize(0, sample_streams(STREAMS, {"q": three}, tables(slot), 0))
    assert str(plan.choices["q"].tree) == "(V ⋈ (C ⋈ W))", "the selective join comes first"


def test_a_new_query_reuses_the_largest_subquery_that_runs() -> None:
    optimizer = Optimizer()
    first = query("a", "select count(*) from V, W, C where V.vid = W.vid and W.usr = C.usr")
    optimizer.change(0, [first], [])
    more = query("b", "select count(*) from R, C, W, V where R.usr = C.usr and C.usr = W.usr and V.vid = W.vid")
    plan, (decision,) = optimizer.change(1, [more], [])
    shared = set(plan.choices["a"].nodes()) & set(plan.choices["b"].nodes())
    assert max(len(node.tree.streams) for node in shared) == 3
    assert "reuses" in decision.words
    assert decision.numbers["streams_shared"] == 3


def test_a_query_that_meets_nobody_shares_only_scans() -> None:
    optimizer = Optimizer()
    _, (decision,) = optimizer.change(0, [vw("a")], [])
    assert decision.words == "shares scans and indexes of V, W; none of its joins runs yet"


def test_few_changes_are_planned_incrementally_and_many_from_scratch() -> None:
    optimizer = Optimizer()
    everybody = {f"q{n}": vw(f"q{n}", "count(*)") for n in range(6)}
    optimizer.change(0, everybody.values(), [])
    slot = tables(random_slot(Random(1), 40))
    before, decisions = optimizer.reoptimize(0, sample_streams(STREAMS, everybody, slot, 0))
    assert "planned all" in decisions[-1].words
    everybody["new"] = vw("new", "count(*)")
    optimizer.change(1, [everybody["new"]], [])
    after, decisions = optimizer.reoptimize(1, sample_streams(STREAMS, everybody, slot, 0))
    assert "only the changed" in decisions[-1].words
    assert {n: after.choices[n] for n in before.choices} == before.choices, "the others keep their groups"
    assert after.choices["new"].groups == after.choices["q0"].groups


def test_a_group_that_does_not_pay_is_explained() -> None:
    optimizer = Optimizer()
    optimizer.change(0, [vw("q4"), vw("q5")], [])
    plan, decisions = optimizer.reoptimize(0, figure_six(0))
    assert plan.choices["q4"].groups != plan.choices["q5"].groups
    assert "q4 joins V.vid = W.vid by itself: sharing would not pay" in [each.words for each in decisions]
    assert len(plan.components()) == 2


def test_without_grouping_everybody_shares() -> None:
    optimizer = Optimizer(OptimizerConfig(grouping=False))
    optimizer.change(0, [vw("q4"), vw("q5")], [])
    plan, _ = optimizer.reoptimize(0, figure_six(0))
    assert len(plan.components()) == 1


def test_without_reordering_streams_are_joined_as_they_are_named() -> None:
    optimizer = Optimizer(OptimizerConfig(reordering=False))
    three = query("q", "select count(*) from V, W, C where V.vid = W.vid and W.usr = C.usr and C.length > 8")
    optimizer.change(0, [three], [])
    plan, _ = optimizer.reoptimize(0, sample_streams(STREAMS, {"q": three}, tables(random_slot(Random(2))), 0))
    assert str(plan.choices["q"].tree) == "(C ⋈ (V ⋈ W))"


def test_decisions_are_plain_data() -> None:
    optimizer = Optimizer()
    _, (decision,) = optimizer.change(3, [vw("a")], [])
    assert decision.as_data() == {
        "slot": 3, "kind": "share", "subject": "a", "words": decision.words, "numbers": {"streams_shared": 0},
    }  # fmt: skip
