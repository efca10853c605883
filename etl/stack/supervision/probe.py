"""Probes a service periodically, to detect one that hangs.

    every 10 s   a request, in a separate thread: a request to a stopped process never returns
    silent       it has answered before, and not for 90 s

A service that has not answered yet is starting, which may take as long as its database or a lock does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

ASK_S = 10.0
SILENT_S = 90.0


class Probe:
    """Probes one service."""

    def __init__(self, answers: Callable[[], bool], *, ask_s: float = ASK_S, silent_s: float = SILENT_S) -> None:
        self._answers, self._ask_s, self._silent_s = answers, ask_s, silent_s
        self._asked = 0.0
        self._answered: float | None = None
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Reset, for a new process of the service."""
        self._answered = None

    def is_silent(self) -> bool:
        """Probe when due; returns whether the service has been silent for too long. Never blocks."""
        now = time.monotonic()
        if now - self._asked >= self._ask_s and (self._thread is None or not self._thread.is_alive()):
            self._asked = now
            self._thread = threading.Thread(target=self._ask, name="probe", daemon=True)
            self._thread.start()
        return self._answered is not None and now - self._answered > self._silent_s

    def _ask(self) -> None:
        try:
            if self._answers():
                self._answered = time.monotonic()
        except Exception:
            return  # no answer
