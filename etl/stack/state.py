"""The record of a running stack, by which other commands find it: var/run/stack.json.

The record names the supervisor by pid *and* start time, since pids are reused. Whether a stack really runs is
told by the lock, never by the record alone.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from etl.settings import Settings
from etl.stack.supervision.processes import locked


@dataclass(frozen=True, slots=True)
class Record:
    """The record of one stack, written by its supervisor."""

    pid: int
    created: float
    since: float
    airflow_url: str | None
    services: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_this_process(cls, airflow_url: str | None) -> Record:
        return cls(os.getpid(), psutil.Process().create_time(), time.time(), airflow_url)

    @classmethod
    def read(cls, settings: Settings) -> Record | None:
        try:
            return cls(**json.loads(_path(settings).read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, settings: Settings) -> None:
        """Replace the record atomically."""
        path = _path(settings)
        side = path.with_suffix(".new")
        side.write_text(json.dumps(asdict(self)))
        side.replace(path)

    def process(self) -> psutil.Process | None:
        """The supervisor, if its pid still belongs to the same process."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.created) < 1 and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return None
        return process if same else None


@dataclass(frozen=True, slots=True)
class State:
    """The state: nothing, a stack, or leftovers that a dead supervisor's guards are ending."""

    running: bool
    ending: bool = False
    pid: int | None = None
    since: float | None = None
    airflow_url: str | None = None
    services: dict[str, str] = field(default_factory=dict)


def state(settings: Settings) -> State:
    """The state of this `var`, from any process."""
    if not locked(settings):
        return State(running=False)
    record = Record.read(settings)
    if record is None or record.process() is None:
        return State(running=False, ending=True)
    return State(True, False, record.pid, record.since, record.airflow_url, record.services)


def forget(settings: Settings) -> None:
    """Remove the record after an orderly end."""
    _path(settings).unlink(missing_ok=True)


def _path(settings: Settings) -> Path:
    return settings.var / "run" / "stack.json"
