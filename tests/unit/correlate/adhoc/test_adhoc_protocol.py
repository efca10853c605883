"""The two protocols under random interleavings; messages between two parties keep their order."""

from __future__ import annotations

from collections import deque
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from etl.correlate.adhoc.run.changes.protocol import MANAGER, Manager, Message, Task

SEEDS = st.integers(0, 2**32)


class Network:
    """FIFO between each pair of parties, any order otherwise."""

    def __init__(self) -> None:
        self.queues: dict[tuple[int, int], deque[Message]] = {}

    def send(self, messages: list[Message]) -> None:
        for message in messages:
            self.queues.setdefault((message.source, message.target), deque()).append(message)

    def ready(self) -> list[tuple[int, int]]:
        return [pair for pair, queue in self.queues.items() if queue]


def simulate(random: Random, *, atomic: bool, timeouts: bool = False) -> tuple[list[Task], Manager]:
    tasks = [Task(n, bucket=random.randint(0, 3)) for n in range(random.randint(1, 5))]
    manager = Manager(change=1, tasks=len(tasks), atomic=atomic, slack=random.randint(0, 2))
    network = Network()
    network.send(manager.start())
    for _ in range(20_000):
        if manager.phase == "done":
            break
        if random.random() < 0.3:
            random.choice(tasks).advance()
        elif timeouts and random.random() < 0.02:
            network.send(manager.timeout())
        elif pairs := network.ready():
            message = network.queues[random.choice(pairs)].popleft()
            party = manager if message.target == MANAGER else tasks[message.target]
            network.send(party.receive(message))
    return tasks, manager


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_with_the_atomic_protocol_all_tasks_apply_at_one_boundary(seed: int) -> None:
    tasks, manager = simulate(Random(seed), atomic=True)
    assert manager.phase == "done"
    assert {tuple(task.applied) for task in tasks} == {((manager.boundary, 1),)}


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_attempts_that_time_out_leave_nothing_behind(seed: int) -> None:
    tasks, manager = simulate(Random(seed), atomic=True, timeouts=True)
    assert manager.phase == "done"
    assert {tuple(task.applied) for task in tasks} == {((manager.boundary, 1),)}
    assert not any(task.waits for task in tasks)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_no_task_passes_a_boundary_it_promised_before_it_knows(seed: int) -> None:
    random = Random(seed)
    task = Task(0)
    task.receive(Message("propose", MANAGER, 0, 1, 1, random.randint(0, 4)))
    boundary = task.promised[1][1]
    while task.advance():
        pass
    assert task.bucket == boundary
    task.receive(Message("commit", MANAGER, 0, 1, 1, boundary))
    assert task.advance()
    assert task.applied == [(boundary, 1)]


def test_a_task_that_is_past_the_boundary_says_no() -> None:
    task = Task(0, bucket=7)
    (answer,) = task.receive(Message("propose", MANAGER, 0, 1, 1, 6))
    assert answer.kind == "no"
    assert not task.promised


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_without_coordination_every_task_applies_once_at_its_own_next_boundary(seed: int) -> None:
    tasks, manager = simulate(Random(seed), atomic=False)
    assert manager.phase == "done"
    for task in tasks:
        task.advance()
        assert [change for _, change in task.applied] == [1]


def test_without_coordination_boundaries_may_differ() -> None:
    apart = 0
    for seed in range(20):
        tasks, _ = simulate(Random(seed), atomic=False)
        for task in tasks:
            task.advance()
        apart += len({task.applied[0][0] for task in tasks}) > 1
    assert apart > 0, "the three phases would be for nothing"
