"""Event times as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(microseconds: int) -> str:
    """Microseconds since 1970, as ISO 8601."""
    return (_EPOCH + timedelta(microseconds=microseconds)).isoformat()


def microseconds_of(at: datetime) -> int:
    """Microseconds since 1970, exactly."""
    return (at - _EPOCH) // timedelta(microseconds=1)
