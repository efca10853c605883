"""Groups, partitions and metrics against their definitions, written out plainly."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from etl.correlate.documents.model import Documents
from etl.correlate.documents.partitioning.assigner import Sightings, assign
from etl.correlate.documents.partitioning.association import association_groups
from etl.correlate.documents.partitioning.disjoint_sets import disjoint_sets
from etl.correlate.documents.partitioning.groups import Groups, grouped
from etl.correlate.documents.partitioning.merger import consolidate, partition
from etl.correlate.documents.partitioning.partitions import holds
from etl.correlate.documents.partitioning.quality import Quality, gini
from etl.correlate.documents.partitioning.routing import Routing, route
from etl.correlate.documents.partitioning.set_cover import set_cover
from tests.support.documents_strategies import ANY_ROWS, documents

Rows = list[dict[str, str]]
SETS = st.lists(st.frozensets(st.integers(0, 9), min_size=1, max_size=5), max_size=12)


def by_pair(found: Documents) -> dict[int, frozenset[int]]:
    """The documents of every pair."""
    hashes = found.dictionary.hashes[found.pairs].tolist()
    owners = found.owners.tolist()
    return {pair: frozenset(o for o, h in zip(owners, hashes, strict=True) if h == pair) for pair in set(hashes)}


def as_groups(sets: list[frozenset[int]], loads: list[int]) -> Groups:
    owner = np.array([place for place, group in enumerate(sets) for _ in group], np.int64)
    hashes = np.array([item for group in sets for item in sorted(group)], np.uint64)
    return grouped(owner, hashes, np.array(loads, np.int64))


@given(ANY_ROWS)
def test_association_groups_follow_algorithm_1(rows: Rows) -> None:
    found = documents(rows)
    groups, holders = association_groups(route(found, Routing())), by_pair(found)
    equivalent: dict[frozenset[int], set[int]] = {}
    for pair, holding in holders.items():
        equivalent.setdefault(holding, set()).add(pair)
    sets = groups.sets()
    assert sorted(pair for one in sets for pair in one) == sorted(holders), "every pair is in one group"
    for group, load in zip(sets, groups.loads.tolist(), strict=True):
        members = sorted((holding for holding, pairs in equivalent.items() if pairs <= group), key=len)
        assert frozenset().union(*(equivalent[one] for one in members)) == group, "equivalence groups stay whole"
        assert all(members[0] <= other for other in members), "the rarest implies the others"
        assert load == len(frozenset().union(*members))
    firsts = [min((holders[pair] for pair in group), key=len) for group in sets]
    for one, other in combinations(firsts, 2):
        assert not one < other, "a group that a rarer one implies was left out"
        assert not other < one


@given(st.lists(st.tuples(SETS, st.integers(1, 9)), min_size=1, max_size=3))
def test_the_merger_leaves_no_subset_and_no_pair_twice(parts: list[tuple[list[frozenset[int]], int]]) -> None:
    everything = [group for sets, _ in parts for group in sets]
    merged = consolidate([as_groups(sets, [load] * len(sets)) for sets, load in parts])
    remaining = [pair for group in merged.sets() for pair in group]
    assert sorted(remaining) == sorted({pair for group in everything for pair in group})
    maximal = [group for group in set(everything) if not any(group < other for other in everything)]
    smallest = {pair: min(len(group) for group in maximal if pair in group) for pair in remaining}
    for group in merged.sets():
        origins = [other for other in maximal if group <= other]
        assert origins
        assert all(smallest[pair] == min(len(origin) for origin in origins) for pair in group)


def test_a_subset_brings_its_load_along_and_duplicates_leave_the_larger_group() -> None:
    merged = consolidate(
        [
            as_groups([frozenset({1, 2, 3}), frozenset({4, 5})], [5, 7]),
            as_groups([frozenset({1, 2}), frozenset({3, 4, 6, 7})], [2, 1]),
        ]
    )
    by_set = dict(zip(merged.sets(), merged.loads.tolist(), strict=True))
    assert by_set == {frozenset({1, 2, 3}): 7, frozenset({4, 5}): 7, frozenset({6, 7}): 1}


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 8))
def test_groups_are_spread_heaviest_first_to_the_lightest(loads: list[int], count: int) -> None:
    groups = as_groups([frozenset({place}) for place in range(len(loads))], loads)
    partitions = partition(groups, Routing(), count)
    totals = [0] * count
    for place, load in enumerate(sorted(loads, reverse=True)):
        totals[place if place < count else totals.index(min(totals))] += load
    assert partitions.loads.tolist() == totals


@given(ANY_ROWS)
def test_disjoint_sets_are_connected_and_apart(rows: Rows) -> None:
    found = documents(rows)
    groups = disjoint_sets(route(found, Routing()))
    sets = groups.sets()
    touched = [
        [
            place
            for place, group in enumerate(sets)
            if set(found.dictionary.hashes[found.pairs[low:high]].tolist()) & group
        ]
        for low, high in zip(found.offsets, found.offsets[1:], strict=False)
    ]
    assert all(len(places) <= 1 for places in touched), "a document is in one set"
    assert groups.loads.tolist() == [sum(places == [place] for places in touched) for place in range(len(sets))]


@given(ANY_ROWS, st.integers(1, 5))
def test_a_set_cover_covers_every_pair(rows: Rows, count: int) -> None:
    found = documents(rows)
    partitions = set_cover(route(found, Routing()), Routing(), count)
    assert set(partitions.hashes.tolist()) == set(found.dictionary.hashes.tolist())
    assert partitions.masks.any(axis=1).all()


@given(ANY_ROWS, st.integers(1, 5))
def test_a_set_cover_takes_the_document_with_most_uncovered_pairs_to_the_least_load(rows: Rows, count: int) -> None:
    found = documents(rows)
    hashes, offsets = found.dictionary.hashes[found.pairs].tolist(), found.offsets.tolist()
    pairs = [set(hashes[low:high]) for low, high in pairwise(offsets)]
    uncovered, loads = set(hashes), [0] * count
    held: list[set[int]] = [set() for _ in range(count)]
    for taken in range(len(pairs)):
        one = max(pairs, key=lambda each: (len(each & uncovered), -len(each)))  # of equal ones the first
        if not one & uncovered:
            break
        lightest = [place for place in range(count) if loads[place] == min(loads)]
        target = taken if taken < count else max(lightest, key=lambda place: len(one & held[place]))
        held[target] |= one
        loads[target] += 1
        uncovered -= one
    partitions = set_cover(route(found, Routing()), Routing(), count)
    assert partitions.loads.tolist() == loads
    for number in range(count):
        assert set(partitions.hashes[holds(partitions.masks, number)].tolist()) == held[number]


@given(ANY_ROWS, st.integers(1, 5))
def test_quality_is_what_its_definitions_say(rows: Rows, count: int) -> None:
    found = documents(rows)
    partitions = partition(association_groups(route(found, Routing())), Routing(), count)
    assignment = assign(found, [partitions])
    sent = [
        [number for number in range(count) if holds(assignment.masks, number)[place]] for place in range(len(found))
    ]
    quality = assignment.quality
    if not rows:
        assert (quality.replication, quality.maximal_load) == (0, 0)
        return
    loads = [sum(number in one for one in sent) for number in range(count)]
    assert quality.replication == pytest.approx(sum(map(len, sent)) / len(rows))
    assert quality.maximal_load == pytest.approx(max(loads) / len(rows))
    assert sum(quality.shares) == pytest.approx(1.0 if sum(loads) else 0.0)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=20))
def test_gini_is_the_mean_difference_over_twice_the_mean(loads: list[int]) -> None:
    total, count = sum(loads), len(loads)
    differences = sum(abs(one - other) for one in loads for other in loads)
    assert gini(np.array(loads)) == pytest.approx(differences / (2 * count * total) if total else 0.0)


def test_repartition_is_wanted_when_replication_or_load_have_grown_past_the_threshold() -> None:
    promised = Quality(100, np.array([50, 50]))
    assert not Quality(100, np.array([60, 60])).worse_than(promised, 0.2)
    assert Quality(100, np.array([61, 60])).worse_than(promised, 0.2), "replication"
    assert Quality(100, np.array([61, 10])).worse_than(promised, 0.2), "load"
    assert not Quality(100, np.array([75, 75])).worse_than(promised, 0.6)


@given(st.lists(st.lists(st.integers(0, 5), max_size=8), max_size=6), st.integers(1, 4))
def test_a_pair_is_ready_once_it_was_sighted_delta_times(batches: list[list[int]], delta: int) -> None:
    sightings, seen, ready = Sightings(delta), [], set()
    for batch in batches:
        found = set(sightings.add(np.array([item for item in batch if item not in ready], np.uint64)).tolist())
        seen += [item for item in batch if item not in ready]
        assert found == {item for item in set(seen) - ready if seen.count(item) >= delta}
        ready |= found
