"""Services under guards, the lock that lets one stack live per `var`, and the sweep after a double crash.

Three lines of defence, so that no process outlives its stack:

    guard       ends its service's whole family when asked, or when the supervisor is gone    (guard.py)
    supervisor  adopts and ends the family of a guard that was killed                         (`Guarded.reap`)
    sweep       both were killed: all processes with this stack's mark in their environment are ended (`sweep`)

The lock's descriptor is shared with the guards, so the lock is free only when the last of them is done.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from etl.errors import TerminalError
from etl.private_paths import private_folder
from etl.settings import Settings
from etl.stack.os_account import Account
from etl.stack.supervision import guard

MARK = "_FRONTSTAGE_STACK"
SERVICE_MARK = "_FRONTSTAGE_SERVICE"
LOG_BYTES = 20 * 2**20
"""A log larger than this is rotated (one generation) when its service starts."""


class StackRunning(TerminalError):
    """A stack is already running on the same `var`."""

    exit_code = 69

    def __init__(self, var: Path) -> None:
        super().__init__(var)
        self.var = var

    def __str__(self) -> str:
        return f"a stack already runs on {self.var}; end it with `frontstage down`, or set FRONTSTAGE_VAR"


class ServiceFailed(TerminalError):
    """A service of the stack did not start, or ended when it should not have."""

    def __init__(self, name: str, what: str, log: Path) -> None:
        super().__init__(name, what, log)
        self.name, self.what, self.log = name, what, log

    def __str__(self) -> str:
        return f"{self.name} {self.what}; its log is {self.log}"


@dataclass(frozen=True, slots=True)
class Service:
    """A program to keep under a guard. Secrets belong in `env`, never in `argv`."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    log: Path
    stop_signal: int = signal.SIGTERM
    grace_s: float = 3.0
    account: Account | None = None
    cwd: Path | None = None


@dataclass(slots=True)
class Guarded:
    """A running service: its guard's process, the pipe that keeps it alive, the service's own pid."""

    service: Service
    process: subprocess.Popen[bytes]
    control: int
    pid: int
    _buried: bool = field(default=False)

    def poll(self) -> int | None:
        """The exit code, once the service and everything it started are gone."""
        code = self.process.poll()
        if code is not None and not self._buried:
            self._buried = True
            self._close()
            if code < 0:  # the guard itself was killed
                self.reap()
        return code

    def ask_to_stop(self) -> None:
        """Close the pipe; the guard does the rest. Returns at once, so that several can be stopped concurrently."""
        self._close()

    def stop(self) -> int:
        """Stop and wait until nothing of the service is left."""
        self._close()
        bound = self.service.grace_s + guard.LEFTOVER_GRACE_S + guard.KILL_BOUND_S + 1
        if not wait_until(lambda: self.poll() is not None, bound):
            self.process.kill()
            self.process.wait(bound)
        return self.poll() or 0

    def reap(self) -> None:
        """The guard was killed, so its service became our child (we are a subreaper): end the family ourselves."""
        orphans = [process for process in psutil.Process().children() if self._is_mine(process)]
        for process in orphans:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(self.service.stop_signal)
        wait_until(lambda: all(map(gone, orphans)), self.service.grace_s)
        end_families([process for process in psutil.Process().children() if self._is_mine(process)])

    def _is_mine(self, process: psutil.Process) -> bool:
        return process.pid == self.pid or _marks(process).get(SERVICE_MARK) == self.service.env[SERVICE_MARK]

    def _close(self) -> None:
        if self.control >= 0:
            os.close(self.control)
            self.control = -1


def start(service: Service, var: Path, keep: Sequence[int] = ()) -> Guarded:
    """Start a service under a guard. `keep` are descriptors the guard (not the service) holds open."""
    env = {**service.env, MARK: str(var.resolve()), SERVICE_MARK: f"{os.getpid()}:{service.name}"}
    service = replace(service, env=env)
    options = ["--stop-signal", str(int(service.stop_signal)), "--grace", str(service.grace_s)]
    if service.account is not None:
        options += ["--user", f"{service.account.uid}:{service.account.gid}"]
    control_read, control = os.pipe()
    status, status_write = os.pipe()
    with open_log(service.log) as log, os.fdopen(status, "rb") as answers:
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", guard.__file__, "--parent", str(os.getpid()),
                 "--status", str(status_write), *options, "--", *service.argv],
                stdin=control_read, stdout=log, stderr=log, env=env, cwd=service.cwd,
                pass_fds=(status_write, *keep), start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(control_read)
            os.close(status_write)
        try:
            verdict, _, detail = answers.readline().decode().strip().partition(" ")
        except BaseException:  # interrupted before the guard is registered: it ends with its pipe
            os.close(control)
            process.wait(timeout=service.grace_s + 10)
            raise
    guarded = Guarded(service, process, control, int(detail) if verdict == "started" else -1)
    if verdict != "started":
        guarded.stop()
        raise ServiceFailed(service.name, f"cannot be started ({detail or 'its guard ended'})", service.log)
    return guarded


def run_to_end(service: Service, var: Path, timeout_s: float, keep: Sequence[int] = ()) -> None:
    """Run a program that ends by itself, under a guard. Raises when it fails or takes too long."""
    guarded = start(service, var, keep)
    try:
        if not wait_until(lambda: guarded.poll() is not None, timeout_s):
            raise ServiceFailed(service.name, f"was not done after {timeout_s:.0f} s", service.log)
    finally:
        code = guarded.stop()
    if code != 0:
        raise ServiceFailed(service.name, f"failed with exit code {code} ({last_line(service.log)})", service.log)


@contextmanager
def stack_lock(settings: Settings) -> Iterator[int]:
    """Hold the lock of `var`, having swept what a crash left behind; yields the lock's descriptor."""
    folder = private_folder(settings.var / "run")
    descriptor = os.open(folder / "stack.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # `locked` holds the lock briefly while it checks, so retry for a moment.
        if not wait_until(lambda: _acquire(descriptor), 0.5):
            raise StackRunning(settings.var)
        sweep(settings.var)
        yield descriptor
    finally:
        os.close(descriptor)


def locked(settings: Settings) -> bool:
    """Whether a stack, or its leftovers, hold this `var`."""
    try:
        descriptor = os.open(settings.var / "run" / "stack.lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False  # never used, or not accessible: a start will report it
    try:
        return not _acquire(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def marked(var: Path) -> list[psutil.Process]:
    """Living processes that belong to a stack on `var`, ourselves and our ancestors excepted."""
    mark = str(var.resolve())
    us = {os.getpid(), *(process.pid for process in psutil.Process().parents())}
    return [process for process in psutil.process_iter() if process.pid not in us and _marks(process).get(MARK) == mark]


def sweep(var: Path) -> None:
    """End all processes that still have the mark of a stack on `var`."""
    end_families(marked(var))


def end_families(roots: Iterable[psutil.Process], grace_s: float = 2.0) -> None:
    """TERM, then KILL: the processes given and everything below them."""
    family: list[psutil.Process] = []
    for root in roots:
        with suppress(psutil.NoSuchProcess):
            family += [root, *root.children(recursive=True)]
    for end, bound in ((psutil.Process.terminate, grace_s), (psutil.Process.kill, 5.0)):
        for process in family:
            with suppress(psutil.NoSuchProcess):
                end(process)
        wait_until(lambda: all(map(gone, family)), bound)


def gone(process: psutil.Process) -> bool:
    """Whether a process has ended. A zombie counts as ended; if it is our child, it is reaped."""
    try:
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            return False
        process.wait(0)
    except (psutil.NoSuchProcess, psutil.TimeoutExpired):
        pass
    return True


def wait_until(condition: Callable[[], bool], timeout_s: float, every_s: float = 0.05) -> bool:
    """Poll until the condition holds; False after the timeout."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(every_s)
    return True


def last_line(log: Path) -> str:
    """The last line of a log, truncated for a message."""
    try:
        lines = log.read_text(errors="replace")[-4000:].split("\n")
    except OSError:
        return "no log"
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "an empty log")


def _marks(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except (psutil.Error, OSError):
        return {}  # another user's, or gone


@contextmanager
def open_log(path: Path) -> Iterator[int]:
    """Open a log for appending; a large one is rotated first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > LOG_BYTES:
        path.replace(path.with_suffix(path.suffix + ".1"))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
