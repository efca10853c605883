"""Monitors the JVM of a driver: a driver without its JVM must exit, so that the supervisor restarts it.

    the JVM's process is gone            ─▶ end at once
    it does not answer for a minute      ─▶ it is killed, end
    this thread fails in any other way   ─▶ end: the JVM would be unmonitored

A running step ends with the process; its locks are released with its connections, and the next run continues it. The
JVM is probed in a separate thread, as a call to a JVM that hangs never returns.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Protocol

import structlog

LOOK_S = 1.0
ASK_S = 10.0
SILENT_S = 60.0
GONE = 70  # EX_SOFTWARE

log = structlog.get_logger("runner")


class Jvm(Protocol):
    """The monitored JVM."""

    def is_running(self) -> bool:
        """Whether its process is there."""
        ...

    def answer(self) -> None:
        """Returns when it answers; raises when it cannot."""
        ...

    def kill(self) -> None:
        """End its process."""
        ...


def end_process(why: str) -> None:
    """Exit immediately, without cleanup, as threads may hang."""
    try:
        log.error("the driver ends", why=why)
    finally:  # even if logging fails
        os._exit(GONE)


class Watchdog:
    """Monitors one JVM until `stop`."""

    def __init__(
        self, jvm: Jvm, end: Callable[[str], None] = end_process, *, look_s: float = LOOK_S, silent_s: float = SILENT_S
    ) -> None:
        self._jvm, self._end, self._look_s, self._silent_s = jvm, end, look_s, silent_s
        self._stopping, self._answered = threading.Event(), time.monotonic()
        self._asking: threading.Thread | None = None
        self._asked = 0.0
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(5 * self._look_s)

    def health(self) -> str | None:
        """The JVM's problem; None when it is alive and has answered recently."""
        if not self._jvm.is_running():
            return "the JVM is gone"
        silent_s = time.monotonic() - self._answered
        return f"the JVM has not answered for {silent_s:.0f} s" if silent_s > self._silent_s / 2 else None

    def _run(self) -> None:
        why = "its watchdog has ended"
        try:
            while not self._stopping.wait(self._look_s):
                if not self._jvm.is_running():
                    why = "its JVM is gone"
                    break
                self._ask()
                if time.monotonic() - self._answered > self._silent_s:
                    why = f"its JVM has not answered for {self._silent_s:.0f} s"
                    self._jvm.kill()
                    break
        except BaseException:
            log.exception("the watchdog failed")
        finally:
            if not self._stopping.is_set():
                self._end(why)

    def _ask(self) -> None:
        now = time.monotonic()
        if (self._asking is not None and self._asking.is_alive()) or now - self._asked < min(ASK_S, self._silent_s / 4):
            return
        self._asked = now
        self._asking = threading.Thread(target=self._wait_for_answer, name="ask-jvm", daemon=True)
        self._asking.start()

    def _wait_for_answer(self) -> None:
        try:
            self._jvm.answer()
        except Exception as error:
            log.warning("the JVM cannot be asked", error=type(error).__name__)
            return
        self._answered = time.monotonic()
