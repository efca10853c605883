"""When to use more or fewer threads and tasks: by latency and load (section 4, vertical and horizontal scaling).

    a task is late, its node has free cores      ─► up: one more thread for its partition   (cheaper, so tried first)
    a task is late, its node is full             ─► out: its key range is split, a new task takes half
    several threads are idle                     ─► down
    two neighbouring tasks are idle              ─► in: one takes the other's range
    new queries that share no join               ─► out, if the tasks are busy already

Late means that the median latency exceeded the threshold in `confirm` consecutive slots: one slow slot has no effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from etl.correlate.adhoc.optimize.decisions import Decision
from etl.correlate.adhoc.run.changes.partitioning import Partitioning

Action = Literal["up", "down", "out", "in"]


@dataclass(frozen=True, slots=True)
class ScalingConfig:
    latency_s: float = 5.0
    busy: float = 0.8  # share of a thread's time, or of memory
    idle: float = 0.3
    confirm: int = 3
    max_tasks: int = 64


@dataclass(frozen=True, slots=True)
class TaskLoad:
    """A task's report: latencies of its last slots, newest last, and its utilization."""

    latencies_s: tuple[float, ...]
    load: float
    threads: int
    free_threads: int  # that its node could give it
    memory: float = 0.0  # share of what it may use


@dataclass(frozen=True, slots=True)
class Scaling:
    """The result: threads per task, and a partitioning if the number of tasks changes."""

    threads: Mapping[int, int]
    partitioning: Partitioning | None
    decisions: tuple[Decision, ...]


def scale(
    slot: int, tasks: Sequence[TaskLoad], partitioning: Partitioning, config: ScalingConfig, unshared_queries: int = 0
) -> Scaling:
    """Adjust threads where that suffices; at most one split or merge of key ranges at a time."""
    threads: dict[int, int] = {}
    decisions: list[Decision] = []
    changed: Partitioning | None = None
    for at, task in enumerate(tasks):
        if _late(task, config) and task.free_threads and task.memory < config.busy:
            threads[at] = task.threads + 1
            decisions.append(_decision(slot, "up", at, task, f"its node has {task.free_threads} free"))
        elif task.load < config.idle and task.threads > 1 and not _late(task, config):
            threads[at] = task.threads - 1
            decisions.append(_decision(slot, "down", at, task, "it is idle"))
    full = [at for at, task in enumerate(tasks) if at not in threads and _needs_out(task, config, unshared_queries)]
    if full and len(tasks) < config.max_tasks:
        worst = max(full, key=lambda at: (tasks[at].latencies_s[-1:], tasks[at].load))
        changed = partitioning.split(worst)
        why = f"{unshared_queries} new queries share no join" if not _late(tasks[worst], config) else "its node is full"
        decisions.append(_decision(slot, "out", worst, tasks[worst], why))
    elif not threads:
        idle = [a for a in range(len(tasks) - 1) if _idle(tasks[a], config) and _idle(tasks[a + 1], config)]
        if idle:
            changed = partitioning.merge(idle[0])
            decisions.append(_decision(slot, "in", idle[0], tasks[idle[0]], f"task {idle[0] + 1} is idle too"))
    return Scaling(threads, None if changed == partitioning else changed, tuple(decisions))


def _late(task: TaskLoad, config: ScalingConfig) -> bool:
    last = task.latencies_s[-config.confirm :]
    return len(last) == config.confirm and min(last) > config.latency_s


def _needs_out(task: TaskLoad, config: ScalingConfig, unshared_queries: int) -> bool:
    full = task.memory >= config.busy
    return (_late(task, config) and (full or not task.free_threads)) or (
        unshared_queries > 0 and task.load >= config.busy
    )


def _idle(task: TaskLoad, config: ScalingConfig) -> bool:
    return task.load < config.idle and task.memory < config.idle and not _late(task, config)


def _decision(slot: int, action: Action, at: int, task: TaskLoad, why: str) -> Decision:
    latency = task.latencies_s[-1] if task.latencies_s else 0.0
    words = (
        f"scale {action}: task {at} is {latency:.1f} s late at {task.load:.0%} load on {task.threads} threads; {why}"
    )
    return Decision(
        slot, "scale", f"task {at}", words, {"latency_s": latency, "load": task.load, "threads": task.threads}
    )
