"""Windows, joiners and profiles: options, budgets, bounds and what is reported about them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from etl.correlate.documents.errors import InvalidOption, JoinerBudgetExceeded
from etl.correlate.documents.joining.fp_join import FPTreeJoin, join
from etl.correlate.documents.joining.joiner import Joiner
from etl.correlate.documents.model import Documents, documents_of
from etl.correlate.documents.profile import CommonCounts, attributes, common_pairs, without
from etl.correlate.documents.topology import Topology, TopologyOptions
from etl.correlate.documents.windows import Window, WindowJoin


def many(count: int, users: int = 50) -> Documents:
    return documents_of([{"user": str(number % users), "n": str(number)} for number in range(count)])


def test_tumbling_windows_by_count_join_inside_each_window_only() -> None:
    found = documents_of([{"a": "1"}] * 6)
    made = WindowJoin(Window.tumbling(3)).insert(found, np.arange(6)).made.pairs.sorted()
    assert list(zip(made.left.tolist(), made.right.tolist(), strict=True)) == [
        (0, 1),
        (0, 2),
        (1, 2),
        (3, 4),
        (3, 5),
        (4, 5),
    ]


def test_a_document_whose_slot_has_gone_is_late_and_joins_nothing() -> None:
    found, joined = documents_of([{"a": "1"}] * 4), WindowJoin(Window(4, 2))
    joined.insert(found.take(np.array([0, 1])), np.array([0, 9]))
    assert joined.expire(9) == 1
    result = joined.insert(found.take(np.array([2, 3])), np.array([1, 8]))
    assert result.late.tolist() == [True, False]
    assert list(zip(result.made.pairs.left.tolist(), result.made.pairs.right.tolist(), strict=True)) == [(1, 3)]


def test_the_watermark_never_goes_back() -> None:
    joined = WindowJoin(Window(4, 2))
    joined.expire(100)
    joined.expire(0)
    assert joined.insert(documents_of([{"a": "1"}]), np.array([10])).late.all()


@pytest.mark.parametrize(("size", "slide"), [(0, 1), (10, 3), (10, 0), (10, 20)])
def test_a_window_that_is_not_made_of_whole_slots_is_refused(size: int, slide: int) -> None:
    with pytest.raises(InvalidOption, match="must be"):
        Window(size, slide)


def test_a_joiner_refuses_what_does_not_fit_and_says_what_to_do() -> None:
    joiner = Joiner(0, budget_bytes=20_000)
    joiner.insert(many(50), np.ones((50, 1), np.uint64))
    with pytest.raises(JoinerBudgetExceeded, match="raise the budget") as refused:
        joiner.insert(many(500), np.ones((500, 1), np.uint64))
    assert refused.value.documents == 550
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


def test_a_window_that_does_not_fit_is_split_over_more_partitions() -> None:
    topology = Topology(TopologyOptions(partitions=2, budget_bytes=40_000))
    found = many(1000)
    made = topology.insert(found)
    assert topology.in_force[-1].count > 2
    assert made.found == len(join(found)) == 0
    assert len({tuple(joiner.join.stored[0].tree.documents.ids) for joiner in topology.joiners}) > 2


def test_a_window_that_no_number_of_partitions_makes_fit_is_refused() -> None:
    everyone_alike = documents_of([{"a": "1", "b": str(number % 2)} for number in range(2000)])
    with pytest.raises(JoinerBudgetExceeded):
        Topology(TopologyOptions(partitions=2, budget_bytes=30_000)).insert(everyone_alike)


def test_results_beyond_the_bound_are_cut_and_counted_over_all_joiners_and_batches() -> None:
    topology = Topology(TopologyOptions(partitions=3, max_pairs=10))
    found = documents_of([{"user": str(number % 3)} for number in range(30)])
    kept = [topology.insert(found.take(np.arange(low, low + 15))).pairs for low in (0, 15)]
    report = topology.end_window()
    assert (report.found, report.kept) == (3 * 45, 10)
    assert sum(map(len, kept)) == 10


def test_constants_are_reported_with_their_value_and_can_be_left_out() -> None:
    found = documents_of([{"app": "shop", "user": str(number), "env": "p" if number else "q"} for number in range(10)])
    assert [(pair.path, pair.value, pair.presence) for pair in CommonCounts.of(found).constants()] == [
        ("app", '"shop"', 1.0)
    ]
    assert [pair.path for pair in CommonCounts.of(found).constants(0.9)] == ["app", "env"]
    noisy = documents_of([{"app": "x", "user": "A"}, {"app": "x", "ip": "1"}, {"app": "x", "user": "A", "ip": "1"}])
    assert len(join(noisy)) == 3
    assert len(join(without(noisy, [pair.path for pair in CommonCounts.of(noisy).constants()]))) == 2, (
        "a user and an address share nothing but the constant"
    )
    assert CommonCounts.of(documents_of([{"a": "1"}])).constants() == [], "one document says nothing"


def test_common_pairs_are_counted_part_by_part() -> None:
    parts = [[{"a": "1", "b": "1"}, {"a": "1"}, {"a": "1", "c": str(number)}] for number in range(30)]
    seen = CommonCounts()
    for part in parts:
        seen = seen.plus(CommonCounts.of(documents_of(part)))
    assert (seen.documents, dict(seen.counts)) == (90, {("a", '"1"'): 90})
    other = seen.plus(CommonCounts.of(documents_of([{"b": "2"}] * 4)))
    assert ([pair.path for pair in other.constants()], [pair.path for pair in other.constants(0.95)]) == ([], ["a"])


def test_a_profile_lists_attributes_in_the_order_of_the_tree() -> None:
    found = documents_of(
        [{"a": "3", "b": "7", "c": "1"}, {"a": "3", "b": "8"}, {"a": "3", "b": "7"}, {"b": "8", "c": "2"}]
    )
    assert [(one.path, one.presence, one.values) for one in attributes(found)] == [
        ("b", 1.0, 2),
        ("a", 0.75, 1),
        ("c", 0.5, 2),
    ]
    assert [(pair.path, pair.value) for pair in common_pairs(found, 1)] == [("a", '"3"')]
    assert attributes(documents_of([])) == []


def test_stored_trees_stay_few_however_small_the_batches_are() -> None:
    joined, found = FPTreeJoin(), many(300)
    for position in range(300):
        joined.insert(found.take(np.array([position])))
    assert len(joined) == 300
    assert len(joined.stored) <= 8
    assert joined.nbytes > 0


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("partitions", 0),
        ("partitions", 5000),
        ("creators", 0),
        ("assigners", 0),
        ("delta", 0),
        ("theta", -0.1),
        ("max_pairs", -1),
        ("budget_bytes", 0),
    ],
)
def test_an_option_of_the_topology_that_is_not_allowed_is_refused(option: str, value: float) -> None:
    with pytest.raises(InvalidOption, match=f"{option}="):
        TopologyOptions(**{option: value})
