"""Every pair of tuples meets at exactly one task, before, while and after the partitioning changes."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.correlate.adhoc.run.changes.partitioning import KEY_GROUPS, PartitionHistory, Partitioning, even

KEYS = np.arange(-50, 200, dtype=np.int64)


def random_history(random: Random, slots: int) -> PartitionHistory:
    history = PartitionHistory(((0, even(random.randint(1, 4))),))
    for slot in range(1, slots):
        if random.random() < 0.3:
            history = history.changed(slot, even(random.randint(1, 6)))
    return history


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32))
def test_a_pair_meets_where_both_of_its_tuples_were_sent(seed: int) -> None:
    random = Random(seed)
    slots, window = 10, random.randint(1, 4)
    history = random_history(random, slots)
    sent = {
        (slot, each.bounds): each.assign(KEYS, None) for slot in range(slots) for each in history.needed(slot, window)
    }
    for one in range(slots):
        for other in range(max(0, one - window + 1), one + 1):
            chosen = history.at(min(one, other)).bounds
            assert (one, chosen) in sent, "the younger bucket was not partitioned by the older one's function"
            assert np.array_equal(sent[one, chosen], sent[other, chosen])


def test_buckets_are_partitioned_twice_for_the_longest_window_only() -> None:
    history = PartitionHistory(((0, even(2)),)).changed(5, even(3))
    assert [len(history.needed(slot, 3)) for slot in range(3, 10)] == [1, 1, 2, 2, 1, 1, 1]
    assert history.needed(5, 3) == [even(2), even(3)]


def test_pruning_forgets_functions_that_no_slot_needs() -> None:
    history = PartitionHistory(((0, even(2)),)).changed(5, even(3)).changed(9, even(4))
    assert history.pruned(6).versions == ((5, even(3)), (9, even(4)))
    assert history.pruned(3) == history


@given(st.integers(1, 8), st.integers(0, 7))
def test_a_split_moves_keys_of_the_split_task_only(tasks: int, task: int) -> None:
    before = even(tasks)
    task %= tasks
    after = before.split(task)
    old, new = before.assign(KEYS, None), after.assign(KEYS, None)
    assert after.tasks == tasks + 1
    assert np.array_equal(np.where(new > task, new - 1, new), old)
    assert after.merge(task) == before


def test_a_range_of_one_group_cannot_be_split() -> None:
    narrow = Partitioning((0, 1, KEY_GROUPS))
    assert narrow.split(0) == narrow


def test_keys_spread_evenly() -> None:
    tasks = even(4).assign(np.arange(100_000, dtype=np.int64), None)
    assert np.bincount(tasks).min() > 23_000
