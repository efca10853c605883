"""Logging: one line of JSON per event on standard error, which the supervisor writes to a file.

If a line cannot be written (the disk is full), only the line is lost: the supervisor's threads log, too.
"""

from __future__ import annotations

import sys
from contextlib import suppress

import structlog
import structlog.tracebacks

# Local variables stay out of traces: they may hold a DSN.
_TRACES = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)


class Lines:
    """Writes lines to standard error; drops them on errors."""

    def __init__(self, *_: object) -> None:
        """Accepts structlog's arguments for loggers."""

    def msg(self, line: str) -> None:
        with suppress(OSError, ValueError):  # ValueError: the stream has been closed
            print(line, file=sys.stderr, flush=True)

    debug = info = warning = error = critical = exception = msg


def structured() -> None:
    """Configure logging for this process."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.ExceptionRenderer(_TRACES),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=Lines,
    )
