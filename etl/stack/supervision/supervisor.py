"""Keeps services running: a thread that restarts services that end, while the stack runs.

    running ── it ends ──> restarting ── 1, 2, 4, 8, 15 s ──> running
       └─ it hangs: it is ended    └── more than five ends of one cause in ten minutes ──> failed: tried every 30 s

Restarts never stop: a disk may be freed, a server may come back. An end while a dependency of the service was down does
not count; the service waits until the dependency runs again. No error ends the thread.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import structlog

from etl.stack.supervision.probe import Probe
from etl.stack.supervision.processes import Guarded

Status = Literal["starting", "running", "restarting", "failed"]
Begin = Callable[[], Guarded]
FORGIVEN = 5
FORGET_S = 600.0
LONGEST_PAUSE_S = 15.0
FAILED_PAUSE_S = 30.0
EXCUSED_S = 20.0
"""How long after a dependency came back an end of a service is still attributed to it."""

log = structlog.get_logger("stack")


@dataclass(slots=True)
class SupervisedService:
    """A service: its start function, dependencies and recent history."""

    name: str
    begin: Begin
    guarded: Guarded
    status: Status = "starting"
    needs: tuple[SupervisedService, ...] = ()
    ends: list[tuple[float, str]] = field(default_factory=list)  # when and why, without excused ones
    due: float = 0.0
    since: float = 0.0  # when it last began to run
    probe: Probe | None = None  # of a service that may hang
    hung: bool = False

    def ended(self, now: float, why: str) -> None:
        """Record an end and schedule the restart."""
        self.ends = [(end, cause) for end, cause in self.ends if now - end < FORGET_S]
        if self._excused(now):
            pause_s, self.status = 1.0, "restarting"
        else:
            self.ends.append((now, why))
            tries = Counter(cause for _, cause in self.ends)[why]
            self.status = "restarting" if tries <= FORGIVEN else "failed"
            pause_s = min(2.0 ** (tries - 1), LONGEST_PAUSE_S) if tries <= FORGIVEN else FAILED_PAUSE_S
        self.due = now + pause_s
        log.warning("service ended", service=self.name, why=why, status=self.status, again_in_s=pause_s)

    def _excused(self, now: float) -> bool:
        return any(one.status != "running" or now - one.since < EXCUSED_S for one in self.needs)

    def look(self, now: float) -> bool:
        """Perform due actions; True when the status changed."""
        before = self.status
        if self.status in ("starting", "running"):
            code = self.guarded.poll()
            if code is not None:
                self.ended(now, "it did not answer" if self.hung else f"exit code {code}")
            elif not self.hung and self.probe is not None and self.probe.is_silent():
                self.hung = True
                log.warning("service hangs and is ended", service=self.name)
                self.guarded.ask_to_stop()
        elif now >= self.due and all(one.status == "running" for one in self.needs):
            self._begin(now)
        return self.status != before

    def _begin(self, now: float) -> None:
        try:
            self.guarded = self.begin()
        except Exception as error:  # any error: the next try may succeed
            self.ended(now, f"{type(error).__name__}: {error}")
        else:
            self.status, self.since, self.hung = "running", now, False
            if self.probe is not None:
                self.probe.begin()
            log.info("service started again", service=self.name)


class Watch:
    """The services of one stack, in the order in which they were started."""

    def __init__(self, changed: Callable[[dict[str, Status]], None], every_s: float = 0.25) -> None:
        self.kept: list[SupervisedService] = []
        self._changed, self._every_s = changed, every_s
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, name: str, begin: Begin, needs: Sequence[str] = (), probe: Probe | None = None) -> Guarded:
        """Begin a service, which is supervised from `start` on. `needs`: its dependencies."""
        needed = tuple(kept for kept in self.kept if kept.name in needs)
        kept = SupervisedService(name, begin, begin(), needs=needed, probe=probe)
        self.kept.append(kept)
        self._changed(self.statuses())
        return kept.guarded

    def statuses(self) -> dict[str, Status]:
        return {kept.name: kept.status for kept in self.kept}

    def start(self) -> None:
        """Start supervising, once all services are healthy."""
        for kept in self.kept:
            kept.status = "running"
        self._changed(self.statuses())
        self._thread = threading.Thread(target=self._run, name="stack-watch", daemon=True)
        self._thread.start()

    def stop(self, last: str) -> None:
        """Stop all services: all at once, but `last` only when the others are gone."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        for kept in self.kept:
            if kept.name != last:
                kept.guarded.ask_to_stop()
        for kept in sorted(self.kept, key=lambda kept: kept.name == last):
            kept.guarded.stop()

    def _run(self) -> None:
        untold = False
        while not self._stopping.is_set():
            try:
                while not self._stopping.wait(self._every_s):
                    changes = [kept.look(time.monotonic()) for kept in self.kept]
                    untold = untold or any(changes)
                    if untold:
                        self._changed(self.statuses())
                        untold = False
            except BaseException:  # a full disk, a bug: services must be kept running anyway
                with suppress(Exception):
                    log.exception("a look at the services failed and is repeated")
                self._stopping.wait(self._every_s)
