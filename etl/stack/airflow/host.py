"""The host of Airflow's processes: imports Airflow once, then forks each part.

    host ── import airflow (3 s) ──┬─ fork: db migrate, when asked, and wait for it
                                   ├─ fork: api-server        its own session and log file,
                                   ├─ fork: scheduler         exactly what `airflow <part>` runs
                                   ├─ fork: dag-processor
                                   └─ fork: triggerer

Four programs would import the same code four times, which is most of Airflow's start on a small machine, and
keep four copies in memory. The host itself opens no connection and starts no thread, so a fork of it is
always clean.

A part that ends soon after the start takes the host down, so that a start fails at once and with a reason. Later it is
forked again, with a backoff of up to 15 s and without a limit of restarts, as its database may be down for long. Its
orphans are ended: idle workers of a killed scheduler would wait forever. A worker with a task finishes it first, and
the next scheduler gets its result.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import NoReturn

PARTS: dict[str, tuple[str, ...]] = {
    "api-server": (),
    "scheduler": ("--skip-serve-logs",),  # logs are read from the disk we share; no further port is opened
    "dag-processor": (),
    "triggerer": ("--skip-serve-logs",),
}
SETTLED_S = 30.0
LONGEST_PAUSE_S = 15.0
FORGET_S = 120.0
LOOK_S = 0.25
SHARED = (
    "airflow.__main__",
    "airflow.cli.cli_parser",
    "airflow.cli.commands.api_server_command",
    "airflow.cli.commands.dag_processor_command",
    "airflow.cli.commands.scheduler_command",
    "airflow.cli.commands.triggerer_command",
    "airflow.executors.local_executor",
    "airflow.jobs.dag_processor_job_runner",
    "airflow.jobs.scheduler_job_runner",
    "airflow.jobs.triggerer_job_runner",
    "airflow.sdk.execution_time.supervisor",
    "airflow.sdk.execution_time.task_runner",
    # What our DAG files and their tasks import, so that neither parsing nor a task's start has to wait for it.
    "etl.airflow.dags.pipeline",
    "etl.contract.load",
    "etl.settings",
    "etl.spark.runner.client",
    "etl.stack.postgres",
)


@dataclass(slots=True)
class Part:
    """One of Airflow's processes, its recent ends, and the time of its next fork."""

    name: str
    ends: list[float] = field(default_factory=list)
    due: float = 0.0

    def ended(self, now: float) -> None:
        self.ends = [end for end in self.ends if now - end < FORGET_S] + [now]
        self.due = now + min(2.0 ** (len(self.ends) - 1), LONGEST_PAUSE_S)


class Stopped(Exception):
    """Raised on a stop signal."""


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise Stopped


def fork(name: str, arguments: Sequence[str], log: Path) -> int:
    """Run `airflow <name>` in a fork with its own session and log."""
    pid = os.fork()
    if pid:
        return pid
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    return _become(name, arguments)


def _become(name: str, arguments: Sequence[str]) -> NoReturn:
    from airflow.__main__ import main as airflow
    from setproctitle import setproctitle

    setproctitle(f"airflow {name}")
    sys.argv = ["airflow", *name.split(), *arguments]
    code = 1
    try:
        airflow()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # the part's log is where this belongs
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def keep(running: dict[int, Part], logs: Path) -> NoReturn:
    """Fork every part, and again when it ends, until stopped."""
    born = time.monotonic()
    for name, arguments in PARTS.items():
        running[fork(name, arguments, logs / f"{name}.log")] = Part(name)
    waiting: list[Part] = []
    orphaned: set[int] = set()  # sessions whose leader has ended
    while True:
        time.sleep(LOOK_S)
        now = time.monotonic()
        for pid, code in reaped():
            part = running.pop(pid, None)
            if part is None:
                continue
            print(f"{part.name} ended with code {code}", flush=True)
            if now - born < SETTLED_S:
                sys.exit(f"{part.name} does not stay up; see {logs / part.name}.log")
            part.ended(now)
            waiting.append(part)
            orphaned.add(pid)
        orphaned = {session for session in orphaned if end_idle(session)}
        for part in [part for part in waiting if now >= part.due]:
            waiting.remove(part)
            running[fork(part.name, PARTS[part.name], logs / f"{part.name}.log")] = part


def reaped() -> Iterator[tuple[int, int]]:
    """Children that have ended, with their exit codes."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, os.waitstatus_to_exitcode(status)


def end_idle(session: int) -> bool:
    """End idle processes of a session whose leader has ended: those without child or parent in it. False: none left.

    A worker with a task is the parent of the task's process.
    """
    parents: dict[int, int] = {}
    members: set[int] = set()
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            # "pid (comm) state ppid pgrp session ...": comm may hold anything, so split after its last bracket.
            fields = Path(entry.path, "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # it ended while we looked
        if fields and fields[0] not in "ZX":
            parents[int(entry.name)] = int(fields[1])
            if int(fields[3]) == session:
                members.add(int(entry.name))
    busy = set(parents.values())
    for pid in members:
        if pid not in busy and parents[pid] not in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return bool(members)


def end(running: dict[int, Part]) -> None:
    """Ask every part to end and wait for it. Our guard bounds the wait and kills the rest."""
    for pid in running:
        os.kill(pid, signal.SIGTERM)
    for pid in running:
        os.waitpid(pid, 0)


def main(arguments: Sequence[str]) -> None:
    """`host LOGS [--migrate]`"""
    logs = Path(arguments[0])
    for module in SHARED:
        import_module(module)
    gc.freeze()  # the forks share these pages until a garbage collector touches them
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    running: dict[int, Part] = {}
    try:
        if "--migrate" in arguments:
            _, status = os.waitpid(fork("db migrate", (), logs / "airflow-migrate.log"), 0)
            if status != 0:
                sys.exit(f"the metadata database could not be migrated; see {logs / 'airflow-migrate.log'}")
        keep(running, logs)
    except Stopped:
        end(running)


if __name__ == "__main__":
    main(sys.argv[1:])
