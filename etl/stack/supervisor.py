"""Keeps services running: a thread that starts again what ended, and gives up on what keeps ending.

running ── it ends ──> restarting ── 1, 2, 4, 8, 16 s ──> running
                           └── more than five ends in ten minutes ──> failed
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import structlog

from etl.errors import FrontstageError
from etl.stack.processes import Guarded

Status = Literal["starting", "running", "restarting", "failed"]
Begin = Callable[[], Guarded]
FORGIVEN = 5
FORGET_S = 600.0

log = structlog.get_logger("stack")


@dataclass(slots=True)
class Kept:
    """A service, how to begin it, and its recent history."""

    name: str
    begin: Begin
    guarded: Guarded
    status: Status = "starting"
    ends: list[float] = field(default_factory=list)
    due: float = 0.0

    def ended(self, now: float, why: str) -> None:
        """Note an end and decide what follows."""
        self.ends = [end for end in self.ends if now - end < FORGET_S] + [now]
        if len(self.ends) > FORGIVEN:
            self.status = "failed"
            log.error("service given up", service=self.name, why=why, ends=len(self.ends))
            return
        pause_s = 2.0 ** (len(self.ends) - 1)
        self.status, self.due = "restarting", now + pause_s
        log.warning("service ended", service=self.name, why=why, again_in_s=pause_s)

    def look(self, now: float) -> bool:
        """Do what is due; True when the status changed."""
        before = self.status
        if self.status in ("starting", "running"):
            code = self.guarded.poll()
            if code is not None:
                self.ended(now, f"exit code {code}")
        elif self.status == "restarting" and now >= self.due:
            try:
                self.guarded = self.begin()
            except FrontstageError as error:
                self.ended(now, str(error))
            else:
                self.status = "running"
                log.info("service started again", service=self.name)
        return self.status != before


class Watch:
    """The services of one stack, in the order in which they were started."""

    def __init__(self, changed: Callable[[dict[str, Status]], None], every_s: float = 0.25) -> None:
        self.kept: list[Kept] = []
        self._changed, self._every_s = changed, every_s
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, name: str, begin: Begin) -> Guarded:
        """Begin a service. It is kept from `start` on."""
        kept = Kept(name, begin, begin())
        self.kept.append(kept)
        self._changed(self.statuses())
        return kept.guarded

    def statuses(self) -> dict[str, Status]:
        return {kept.name: kept.status for kept in self.kept}

    def start(self) -> None:
        """All is well: from now on, keep it so."""
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
        while not self._stopping.wait(self._every_s):
            changes = [kept.look(time.monotonic()) for kept in self.kept]
            if any(changes):
                self._changed(self.statuses())
