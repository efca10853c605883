"""The stack in the background: `up_detached` starts it, `down` ends it, also after crashes.

    up_detached ── python -m etl.stack.daemon ── fork ── supervisor, in a session of its own
         │                                                      │
         └──── a pipe: progress ... ready | failed <────────────┘

The supervisor logs to var/logs/supervisor.log. It reports over the pipe, and closes it once it is ready.
When it cannot start, it stops everything before it reports the failure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib import import_module
from typing import IO, Any

import psutil
import structlog

from etl.errors import FrontstageError, TerminalError
from etl.logs import structured
from etl.settings import PROJECT, Settings, load
from etl.stack import cluster, preflight, state
from etl.stack.environment import project_environment
from etl.stack.stack import PARTS, Extra, Part, Progress, Stack, silent
from etl.stack.supervision.processes import (
    MARK,
    ServiceFailed,
    StackRunning,
    last_line,
    locked,
    marked,
    open_log,
    wait_until,
)

STOP_S = 20.0

log = structlog.get_logger("stack")


class StackFailed(TerminalError):
    """The background stack did not start; the message is its supervisor's."""

    def __init__(self, sentence: str, exit_code: int) -> None:
        super().__init__(sentence, exit_code)
        self.sentence, self.exit_code = sentence, exit_code

    def __str__(self) -> str:
        return self.sentence


def up_detached(
    settings: Settings,
    services: Collection[Part] = PARTS,
    extras: Sequence[Extra] = (),
    on_postgres: str | None = None,
    progress: Progress = silent,
) -> state.State:
    """Start the stack in the background; return when all is healthy. `on_postgres` is `module:function`."""
    if locked(settings):
        raise StackRunning(settings.var)
    preflight.require(settings, services)
    order = {
        "services": list(services),
        "extras": [asdict(extra) for extra in extras],
        "on_postgres": on_postgres,
    }
    try:
        with _supervisor(settings, json.dumps(order)) as reports:
            _follow(settings, reports, progress)
    except BaseException:
        down(settings)
        raise
    return state.state(settings)


def down(settings: Settings) -> bool:
    """End the stack and wait until nothing of it is left. False when there was nothing to end."""
    record = state.Record.read(settings)
    supervisor = record.process() if record is not None else None
    found = locked(settings) or bool(marked(settings.var))
    if supervisor is not None and locked(settings):
        if supervisor.pid == os.getpid():
            raise StackRunning(settings.var)  # it is ended by its own block in this process
        for end in (supervisor.terminate, supervisor.kill):
            with suppress(psutil.NoSuchProcess):
                end()
            if wait_until(lambda: not locked(settings), STOP_S):
                break
    cluster.sweep(settings)
    if not wait_until(lambda: not locked(settings), STOP_S):
        raise StackRunning(settings.var)
    state.forget(settings)
    return found


@contextmanager
def _supervisor(settings: Settings, order: str) -> Iterator[IO[str]]:
    """Start the supervisor; yields what it reports."""
    env = {**project_environment(settings), MARK: str(settings.var.resolve())}
    read, write = os.pipe()
    with os.fdopen(read) as reports:
        try:
            with open_log(settings.var / "logs" / "supervisor.log") as output:
                subprocess.run(
                    [sys.executable, "-m", "etl.stack.daemon", str(write)],
                    input=order, text=True, stdout=output, stderr=output, env=env, cwd=PROJECT,
                    pass_fds=(write,), start_new_session=True, check=True,
                )  # fmt: skip
        finally:
            os.close(write)
        yield reports


def _follow(settings: Settings, reports: IO[str], progress: Progress) -> None:
    for line in reports:
        report = json.loads(line)
        if "progress" in report:
            progress(report["progress"])
        elif "failed" in report:
            raise StackFailed(report["failed"], report["exit_code"])
        else:
            return
    path = settings.var / "logs" / "supervisor.log"
    raise ServiceFailed("the supervisor", f"ended while starting ({last_line(path)})", path)


def _ordered(order: dict[str, Any], progress: Progress) -> Stack:
    """The stack as requested over standard input."""
    hook = None
    if order["on_postgres"] is not None:
        module, _, function = order["on_postgres"].partition(":")
        hook = getattr(import_module(module), function)
    extras = [Extra(extra["name"], tuple(extra["argv"])) for extra in order["extras"]]
    return Stack(load(), order["services"], extras, hook, progress)


def main(write: int) -> None:
    """The supervisor. It forks, so that its parent need not wait for it."""
    order = json.load(sys.stdin)
    if os.fork():
        os._exit(0)
    with os.fdopen(write, "w") as reports:

        def report(**parts: Any) -> None:
            with suppress(OSError, ValueError):  # the pipe has no reader any more, or is closed
                print(json.dumps(parts), file=reports, flush=True)

        try:
            with _ordered(order, lambda sentence: report(progress=sentence)) as stack:
                report(ready=True)
                reports.close()
                log.info("stack ready", services=stack.statuses())
                stack.wait()
        except FrontstageError as error:
            log.error("stack failed", why=str(error))
            report(failed=str(error), exit_code=error.exit_code)
            sys.exit(error.exit_code)


if __name__ == "__main__":
    structured()
    main(int(sys.argv[1]))
