"""Processes that run a step and are killed in the middle of it: real ones, quickly made.

    test ── one line of JSON ──▶ nursery (all imported, nothing opened) ── fork ──▶ driver ── reaches its point: SIGKILL
         ◀── its pid, its end ──

Importing the engine takes seconds, so a nursery does it once. It opens no connection and starts no thread before it
forks: a driver is as good as a program of its own.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from etl.settings import PROJECT

SUCCEEDED, FAILED = 0, 3
Act = Literal["kill", "stop", "fill", "wait"]


@dataclass
class Nursery:
    """Makes drivers."""

    process: subprocess.Popen[str]

    def begin(self, home: Path, dsn: str, point: str | None, act: Act = "kill", limit: int | None = None) -> int:
        """Start a driver that runs one micro-batch; gives its pid. `act` is what it does at `point`."""
        order = {"home": str(home), "dsn": dsn, "point": point, "act": act, "limit": limit}
        return int(self._ask(order))

    def end_of(self, pid: int) -> int:
        """Wait for a driver; gives its exit code, negative when a signal ended it."""
        return int(self._ask({"wait": pid}))

    def stopped(self, pid: int) -> None:
        """Wait until a driver has stopped itself."""
        self._ask({"wait_stopped": pid})

    def run(self, home: Path, dsn: str, point: str | None, act: Act = "kill", limit: int | None = None) -> int:
        return self.end_of(self.begin(home, dsn, point, act, limit))

    def _ask(self, order: dict[str, Any]) -> str:
        assert self.process.stdin is not None, "it is a pipe"
        assert self.process.stdout is not None, "it is a pipe"
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()


@contextmanager
def nursery() -> Iterator[Nursery]:
    """A nursery, for as long as the block lasts."""
    command = [sys.executable, "-m", "tests.faults.drivers"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT) as process:
        yield Nursery(process)
        assert process.stdin is not None, "it is a pipe"
        process.stdin.close()


def _answer(order: dict[str, Any]) -> int:
    if "wait_stopped" in order:
        os.waitpid(order["wait_stopped"], os.WUNTRACED)
        return 0
    if "wait" in order:
        return os.waitstatus_to_exitcode(os.waitpid(order["wait"], 0)[1])
    pid = os.fork()
    if pid == 0:
        code = FAILED
        try:
            os.dup2(2, 1)
            code = _drive(order)
        except Exception as error:
            print(f"driver: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    return pid


def _drive(order: dict[str, Any]) -> int:
    from dataclasses import replace

    from tests.faults.world import site_under, steady

    def reached(name: str) -> None:
        if name == order["point"]:
            _act(order)

    if order["limit"] is not None:
        _fill_disk(order["limit"])
    steady()
    site = site_under(Path(order["home"]), order["dsn"])
    site = replace(site, steps=replace(site.steps, checkpoint=reached))
    batch = site.run()
    if batch is not None:
        site.step("report", batch)
    site.close()
    return SUCCEEDED


def _act(order: dict[str, Any]) -> None:
    match order["act"]:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "fill":
            _fill_disk(0)
        case "wait":
            Path(order["home"], "reached").touch()
            signal.pause()


def _fill_disk(size: int) -> None:
    """From now on no file can grow beyond a size: a write there fails, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def main() -> None:
    """Import everything, then serve; or drive once, as the environment says."""
    from importlib import import_module

    if sys.argv[1:] == ["once"]:
        order = json.loads(os.environ["_FAULT"])
        try:
            _drive(order)
        finally:
            Path(order["home"], "over").touch()
        return
    for module in ("tests.faults.world", "etl.report.page"):
        import_module(module)
    for line in sys.stdin:
        print(_answer(json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
