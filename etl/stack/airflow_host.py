"""Airflow's processes out of one: Airflow is imported once, then each part is forked from it.

    host ── import airflow (3 s) ──┬─ fork: db migrate, when asked, and wait for it
                                   ├─ fork: api-server        its own session and log file,
                                   ├─ fork: scheduler         exactly what `airflow <part>` runs
                                   ├─ fork: dag-processor
                                   └─ fork: triggerer

Four programs would import the same code four times, which is most of Airflow's start on a small machine, and
keep four copies in memory. The host itself opens no connection and starts no thread, so a fork of it is
always clean.

A part that ends soon after the start takes the host down, so that a start fails at once and with a reason.
Later it is forked again, after a pause that doubles; one that keeps ending takes the host down too, and its
guard with it.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Sequence
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
FORGIVEN = 5
FORGET_S = 600.0
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
    "etl.airflow.pipeline_dag",
    "etl.contract.load",
    "etl.settings",
    "etl.spark.runner.client",
    "etl.stack.postgres",
)


@dataclass(slots=True)
class Part:
    """One of Airflow's processes and how often it ended lately."""

    name: str
    ends: list[float] = field(default_factory=list)

    def pause_s(self, now: float) -> float | None:
        """How long to wait before it is forked again; None when it ended too often."""
        self.ends = [end for end in self.ends if now - end < FORGET_S] + [now]
        return None if len(self.ends) > FORGIVEN else float(2 ** (len(self.ends) - 1))


class Stopped(Exception):
    """We were told to stop."""


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise Stopped


def fork(name: str, arguments: Sequence[str], log: Path) -> int:
    """Run `airflow <name>` in a fork with a session and a log of its own."""
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
    """Fork every part and fork it again when it ends, until told to stop or one ends too often."""
    born = time.monotonic()
    for name, arguments in PARTS.items():
        running[fork(name, arguments, logs / f"{name}.log")] = Part(name)
    while True:
        pid, status = os.wait()
        part = running.pop(pid, None)
        if part is None:
            continue
        print(f"{part.name} ended with code {os.waitstatus_to_exitcode(status)}", flush=True)
        now = time.monotonic()
        pause = None if now - born < SETTLED_S else part.pause_s(now)
        if pause is None:
            sys.exit(f"{part.name} does not stay up; see {logs / part.name}.log")
        time.sleep(pause)
        running[fork(part.name, PARTS[part.name], logs / f"{part.name}.log")] = part


def end(running: dict[int, Part]) -> None:
    """Ask every part to end and wait for it. Our guard sets the bound, and ends whoever does not listen."""
    for pid in running:
        os.kill(pid, signal.SIGTERM)
    for pid in running:
        os.waitpid(pid, 0)


def main(arguments: Sequence[str]) -> None:
    """`airflow_host LOGS [--migrate]`"""
    logs = Path(arguments[0])
    for module in SHARED:
        import_module(module)
    gc.freeze()  # the forks share these pages for as long as nobody's collector touches them
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
