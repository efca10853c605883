"""How our programs log: one line of JSON per event on standard error, which the supervisor keeps in a file."""

from __future__ import annotations

import sys

import structlog
import structlog.tracebacks

# Local variables stay out of traces: they may hold a DSN.
_TRACES = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)


def structured() -> None:
    """Configure logging for this process."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.ExceptionRenderer(_TRACES),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
