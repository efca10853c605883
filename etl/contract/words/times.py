"""Durations, times relative to now, and schedules, as text.

"30s" "7d" "24h" "5 minutes" "1h 30m"   timedelta
"now + 24h" "now - 7d" "now"            RelativeTime
"on_arrival" "none" "@continuous" "@hourly" … "*/5 * * * *"   schedule
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from etl.contract.model import RelativeTime

SCHEDULES: Final = ("on_arrival", "none", "@continuous", "@hourly", "@daily", "@weekly", "@monthly", "@yearly")
_PART: Final = re.compile(r"(\d{1,12})\s*([a-z]+)\s*")
_NOW: Final = re.compile(r"now(?:\s*([+-])\s*(.+))?")
_SECONDS: Final = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86_400),
    **dict.fromkeys(("w", "week", "weeks"), 604_800),
}
_DIGITS: Final = 4  # of a number in a cron expression
_LONGEST: Final = timedelta(days=36_500)
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


def duration(text: str) -> timedelta | None:
    """Parse a duration; None if it is invalid (or more than a century)."""
    parts, end = [], 0
    text = text.strip().lower()
    for found in _PART.finditer(text):
        if found.start() != end or found[2] not in _SECONDS:
            return None
        parts.append(int(found[1]) * _SECONDS[found[2]])
        end = found.end()
    if not parts or end != len(text) or sum(parts) > _LONGEST.total_seconds():
        return None
    return timedelta(seconds=sum(parts))


def relative(text: str) -> RelativeTime | None:
    """Parse a time relative to now; None if it is invalid."""
    found = _NOW.fullmatch(text.strip().lower())
    if not found:
        return None
    if found[1] is None:
        return RelativeTime(timedelta(0))
    offset = duration(found[2])
    if offset is None:
        return None
    return RelativeTime(offset if found[1] == "+" else -offset)


def is_schedule(text: str) -> bool:
    """Whether a text is one of the schedules or a cron expression of five parts."""
    if text in SCHEDULES:
        return True
    parts = text.split()
    if len(parts) != 5:
        return False
    minute, hour, day, month, weekday = parts
    return (
        _is_cron(minute, 0, 59)
        and _is_cron(hour, 0, 23)
        and _is_cron(day, 1, 31)
        and _is_cron(month, 1, 12, _MONTHS)
        and _is_cron(weekday, 0, 7, _DAYS)
    )


def _is_cron(part: str, low: int, high: int, names: Sequence[str] = ()) -> bool:
    """One part of a cron expression: a list of `*`, numbers or ranges, with a step after `/`."""
    for item in part.split(","):
        span, slash, step = item.partition("/")
        every = _cron_number(step, 1, ()) if slash else 1
        if every is None or not 1 <= every <= high:
            return False
        if span == "*":
            continue
        ends = [_cron_number(end, low, names) for end in span.split("-")]
        if len(ends) > 2 or not all(end is not None and low <= end <= high for end in ends):
            return False
        if len(ends) == 2 and (ends[0] or 0) > (ends[1] or 0):
            return False
    return True


def _cron_number(text: str, low: int, names: Sequence[str]) -> int | None:
    if text.lower() in names:
        return names.index(text.lower()) + low
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= _DIGITS else None
