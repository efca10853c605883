"""State of pipelines that one process keeps between batches: its only owner.

    in the driver   prepared pipelines, open Delta tables, the thread that learns beside a batch
    in a worker     the claims that are mapped, by the runs they consist of

It is a cache: losing it costs time, never events. State of masters is in `etl.masters.driver_state` and
`etl.masters.worker_cache`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etl.adapters.claims import ClaimIndex, ClaimRun
from etl.adapters.delta.append import DeltaAppender
from etl.adapters.delta.log import DeltaLog


def _one_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="learn")


@dataclass(frozen=True, slots=True)
class Learning:
    """A round of background learning, and the event that asks it to hurry."""

    done: Future[None]
    awaited: threading.Event


@dataclass(slots=True)
class ProcessState:
    """One per process."""

    prepared: dict[tuple[Path, str, str], tuple[Any, Any]] = field(default_factory=dict)
    """By site and pipeline: the declaration, and the prepared pipeline (`etl.pipeline.prepare`)."""
    decided: dict[Path, Any] = field(default_factory=dict)
    """By the folder of a pipeline's tables: the masters of its last decision (`etl.pipeline.input.waiting`)."""
    _logs: dict[tuple[Path, str], DeltaLog] = field(default_factory=dict)
    _appenders: dict[tuple[Path, str], DeltaAppender] = field(default_factory=dict)
    _claims: dict[Path, tuple[tuple[ClaimRun, ...], ClaimIndex]] = field(default_factory=dict)
    _learning: dict[str, Learning] = field(default_factory=dict)
    _pool: ThreadPoolExecutor = field(default_factory=_one_thread)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def delta_log(self, root: Path, application: str) -> DeltaLog:
        """The open tables under a root."""
        with self._lock:
            return self._logs.setdefault((root, application), DeltaLog(root, application))

    def delta_appender(self, folder: Path, application: str) -> DeltaAppender:
        """An append-only table."""
        with self._lock:
            return self._appenders.setdefault((folder, application), DeltaAppender(folder, application))

    def claims(self, folder: Path, runs: tuple[ClaimRun, ...]) -> ClaimIndex:
        """The claims in these runs; runs that are already open stay open."""
        known = self._claims.get(folder)
        if known is None or known[0] != runs:
            known = self._claims[folder] = (runs, ClaimIndex(folder, runs, None if known is None else known[1]))
        return known[1]

    def learn(self, pipeline: str, work: Callable[[Callable[[], bool]], None]) -> None:
        """Run learning in the background. `work` gets a function that says whether it may go on."""
        awaited = threading.Event()
        self._learning[pipeline] = Learning(self._pool.submit(work, lambda: not awaited.is_set()), awaited)

    def finish_learning(self, pipeline: str, *, hurry: bool = False) -> BaseException | None:
        """Wait for the learning from the previous batch; with `hurry`, it stops with what it has read so far.

        Returns its error, if any.
        """
        pending = self._learning.pop(pipeline, None)
        if pending is None:
            return None
        if hurry:  # one thread learns for all pipelines: earlier ones in its queue are waited for, too
            for one in (pending, *list(self._learning.values())):
                one.awaited.set()
        return pending.done.exception()


_STATE = ProcessState()


def process_state() -> ProcessState:
    """The state of this process."""
    return _STATE
