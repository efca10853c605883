"""How our programs log: one line of JSON per event on standard error, which the supervisor keeps in a file."""

from __future__ import annotations

import sys

import structlog


def structured() -> None:
    """Configure logging for this process."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.dict_tracebacks,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
