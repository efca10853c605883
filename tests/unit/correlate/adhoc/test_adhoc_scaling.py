"""When threads and tasks are added and taken away."""

from __future__ import annotations

from dataclasses import replace

from etl.correlate.adhoc.optimize.scaling import ScalingConfig, TaskLoad, scale
from etl.correlate.adhoc.run.changes.partitioning import even

CONFIG = ScalingConfig()
CALM = TaskLoad((1.0, 1.0, 1.0), 0.5, threads=1, free_threads=2)
LATE = TaskLoad((6.0, 7.0, 8.0), 0.9, threads=1, free_threads=2)


def test_calm_tasks_are_left_alone() -> None:
    found = scale(1, [CALM, CALM], even(2), CONFIG)
    assert not found.threads
    assert found.partitioning is None
    assert not found.decisions


def test_a_late_task_gets_a_thread_while_its_node_has_one() -> None:
    found = scale(1, [CALM, LATE], even(2), CONFIG)
    assert found.threads == {1: 2}
    assert found.partitioning is None
    assert found.decisions[0].words == "scale up: task 1 is 8.0 s late at 90% load on 1 threads; its node has 2 free"


def test_one_slow_slot_changes_nothing() -> None:
    assert not scale(1, [replace(LATE, latencies_s=(1.0, 6.0, 8.0))], even(1), CONFIG).decisions


def test_a_late_task_on_a_full_node_is_split() -> None:
    found = scale(1, [CALM, replace(LATE, free_threads=0)], even(2), CONFIG)
    assert found.partitioning == even(2).split(1)


def test_full_memory_calls_for_another_task_not_for_a_thread() -> None:
    assert scale(1, [replace(LATE, memory=0.9)], even(1), CONFIG).partitioning == even(2)


def test_queries_that_share_nothing_scale_out_busy_tasks_only() -> None:
    busy = replace(CALM, load=0.85)
    assert scale(1, [busy], even(1), CONFIG, unshared_queries=2).partitioning == even(2)
    assert scale(1, [CALM], even(1), CONFIG, unshared_queries=2).partitioning is None


def test_idle_threads_then_idle_tasks_are_given_back() -> None:
    idle = replace(CALM, load=0.1)
    assert scale(1, [replace(idle, threads=2), CALM], even(2), CONFIG).threads == {0: 1}
    assert scale(1, [idle, idle, CALM], even(3), CONFIG).partitioning == even(3).merge(0)


def test_there_are_never_more_tasks_than_allowed() -> None:
    full = replace(LATE, free_threads=0)
    assert scale(1, [full] * 2, even(2), replace(CONFIG, max_tasks=2)).partitioning is None
