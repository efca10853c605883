"""A guard runs one service and ends all of its processes.

    python guard.py --parent PID --status FD --stop-signal N --grace S [--user UID:GID] -- command ...

The guard is a child subreaper: a process that daemonises, calls setsid or loses its parent becomes the
guard's child, so the whole family stays within reach. The family is ended when

    1. standard input closes (the supervisor asks, or is gone),
    2. the supervisor's process ends, however it ends (watched through a pidfd: no signal can be missed),
    3. the guard is told to (TERM, INT, HUP), or
    4. the service ends by itself: then only what it left behind is ended.

Stop signal to the service, `grace` seconds, then TERM to the rest, then KILL until nobody is left. Standard
library only, and run as a plain file: a guard must start fast and depend on nothing that can break.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
LEFTOVER_GRACE_S = 1.0
KILL_BOUND_S = 5.0


def adopt_orphans(adopt: bool = True) -> None:
    """Make this process the parent of every orphan below it (or stop being that)."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def descendants(root: int) -> list[int]:
    """Every living process below `root`, parents before children. Zombies are not alive."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            # "pid (comm) state ppid ...": comm may hold anything, so split after its last bracket.
            state, parent = Path(entry.path, "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue  # it ended while we looked
        if state not in "ZX":
            children.setdefault(int(parent), []).append(int(entry.name))
    family: list[int] = []
    queue = [root]
    while queue:
        found = children.get(queue.pop(0), [])
        family += found
        queue += found
    return family


def send(pid: int, number: int) -> None:
    """Signal a process that may be gone already."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


class Guard:
    """One service, its family, and the reasons to end them."""

    def __init__(self, service: subprocess.Popen[bytes], parent: int, options: argparse.Namespace) -> None:
        self.service, self.parent, self.options = service, parent, options
        self.exit_code: int | None = None
        self.childless = False
        self._wake, wake_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        self._stop_requested = False
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._tell)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _tell(self, *_: object) -> None:
        self._stop_requested = True

    def watch(self) -> int:
        """Return the service's exit code once it and all it started are gone."""
        poll = select.poll()
        for descriptor in (0, self.parent, self._wake):
            poll.register(descriptor, select.POLLIN | select.POLLHUP)
        while not self._reap() and not self._stop_requested:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if 0 in ready or self.parent in ready:
                break
            self._drain()
        self._end()
        return 128 if self.exit_code is None else self.exit_code

    def _end(self) -> None:
        if self.exit_code is None:
            send(self.service.pid, self.options.stop_signal)
            self._wait(self.options.grace, self._reap)
        for pid in descendants(os.getpid()):
            send(pid, signal.SIGTERM)
        if self._wait(LEFTOVER_GRACE_S, self._childless):
            return
        self._wait(KILL_BOUND_S, self._kill)

    def _childless(self) -> bool:
        """Whether no descendant is left, including zombies: orphans become our children."""
        self._reap()
        return self.childless

    def _kill(self) -> bool:
        for pid in descendants(os.getpid()):
            send(pid, signal.SIGKILL)
        return self._childless()

    def _wait(self, seconds: float, done: Callable[[], bool]) -> bool:
        """Wait for `done()`, waking on every child's end, at most `seconds`."""
        deadline = time.monotonic() + seconds
        while not done():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            select.select([self._wake], [], [], min(left, 0.1))
            self._drain()
        return True

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wake, 512):
                pass

    def _reap(self) -> bool:
        """Reap ended children, including adopted ones. True once the service itself has ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.childless = True
                break
            if pid == 0:
                break
            if pid == self.service.pid:
                self.exit_code = self.service.returncode = os.waitstatus_to_exitcode(status)
        return self.exit_code is not None


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--status", type=int, required=True)
    parser.add_argument("--stop-signal", type=int, default=signal.SIGTERM)
    parser.add_argument("--grace", type=float, default=4.0)
    parser.add_argument("--user", default="")
    parser.add_argument("command", nargs="+")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    adopt_orphans()
    try:
        parent = os.pidfd_open(options.parent)
    except ProcessLookupError:
        return 0  # the supervisor is gone before anything was started
    account: dict[str, object] = {}
    if options.user:
        uid, gid = (int(part) for part in options.user.split(":"))
        account = {"user": uid, "group": gid, "extra_groups": []}
    try:
        service = subprocess.Popen(
            options.command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            **account,  # type: ignore[call-overload]
        )
    except OSError as error:
        os.write(options.status, f"failed {error}\n".encode())
        return 127
    os.write(options.status, f"started {service.pid}\n".encode())
    os.close(options.status)
    code = Guard(service, parent, options).watch()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
