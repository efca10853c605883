"""A span of days to reprocess, in UTC, both ends included."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from etl.errors import TerminalError


class NotDays(TerminalError):
    """The given text or dates are no span of days."""

    exit_code = 64

    def __init__(self, first: str, last: str) -> None:
        super().__init__(first, last)
        self.first, self.last = first, last

    def __str__(self) -> str:
        return (
            f"{self.first!r} to {self.last!r} are no days that follow each other; "
            "write the first and the last one, such as 2026-11-01 and 2026-11-03"
        )


@dataclass(frozen=True, slots=True)
class Days:
    """From the beginning of the first day to the end of the last."""

    first: date
    last: date

    def __post_init__(self) -> None:
        if self.last < self.first:
            raise NotDays(self.first.isoformat(), self.last.isoformat())

    @classmethod
    def parse(cls, first: str | None, last: str | None) -> Days | None:
        """Parse a span; one date alone means that day, none at all gives None."""
        if not first and not last:
            return None
        begin, end = first or last or "", last or first or ""
        try:
            return cls(date.fromisoformat(begin), date.fromisoformat(end))
        except ValueError:
            raise NotDays(begin, end) from None

    @property
    def begin(self) -> datetime:
        return datetime.combine(self.first, time(), UTC)

    @property
    def end(self) -> datetime:
        """The end, exclusive."""
        return datetime.combine(self.last + timedelta(days=1), time(), UTC)

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first} to {self.last}"
