"""What one process keeps of its pipelines between batches: the only place for such state.

    in the driver   prepared pipelines, open Delta tables, the thread that learns beside a batch
    in a worker     the claims that are mapped, by the runs they consist of

Losing it costs time, never events. What masters keep is in `etl.masters.driver_state` and `etl.masters.worker_cache`.
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
    """A round of learning beside a batch, and the word that somebody waits for it."""

    done: Future[None]
    awaited: threading.Event


@dataclass(slots=True)
class ProcessState:
    """One per process."""

    prepared: dict[tuple[Path, str, str], tuple[Any, Any]] = field(default_factory=dict)
    """By site and pipeline: the declaration, and what was made ready for it (`etl.pipeline.prepare`)."""
    decided: dict[Path, Any] = field(default_factory=dict)
    """By the folder of a pipeline's tables: what its decision saw of the masters (`etl.pipeline.input.waiting`)."""
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
        """A table that only gets files."""
        with self._lock:
            return self._appenders.setdefault((folder, application), DeltaAppender(folder, application))

    def claims(self, folder: Path, runs: tuple[ClaimRun, ...]) -> ClaimIndex:
        """The claims in these runs; runs that stayed are not opened again."""
        known = self._claims.get(folder)
        if known is None or known[0] != runs:
            known = self._claims[folder] = (runs, ClaimIndex(folder, runs, None if known is None else known[1]))
        return known[1]

    def learn(self, pipeline: str, work: Callable[[Callable[[], bool]], None]) -> None:
        """Let front stages learn beside the batch, not inside it. The work is told how to ask whether it may go on."""
        awaited = threading.Event()
        self._learning[pipeline] = Learning(self._pool.submit(work, lambda: not awaited.is_set()), awaited)

    def finish_learning(self, pipeline: str, *, hurry: bool = False) -> BaseException | None:
        """Wait until the batch before has been learned from, in a hurry from no more than was read by now.

        Gives what went wrong there.
        """
        pending = self._learning.pop(pipeline, None)
        if pending is None:
            return None
        if hurry:  # one thread learns for all pipelines: whoever is before this one is awaited, too
            for one in (pending, *list(self._learning.values())):
                one.awaited.set()
        return pending.done.exception()


_STATE = ProcessState()


def process_state() -> ProcessState:
    """The state of this process."""
    return _STATE
