"""The history of loads over a day or a month, in steps of equal length; 100,000 batches cost one index scan."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from etl.adapters import postgres
from etl.page.queries.reading import rows

SpanName = Literal["24h", "30d"]
SPANS: dict[SpanName, tuple[timedelta, timedelta]] = {
    "24h": (timedelta(hours=24), timedelta(minutes=15)),
    "30d": (timedelta(days=30), timedelta(hours=8)),
}
"""By name: the length, and the length of one step."""


@dataclass(frozen=True, slots=True)
class Point:
    """One step of the history. Ages and ratios are None where nothing was loaded."""

    at: datetime
    batches: int = 0
    lines: int = 0
    accepted: int = 0
    quarantined: int = 0
    duplicates: int = 0
    backlog_added: int = 0
    backlog_resolved: int = 0
    shed: int = 0
    pairs: int = 0
    late: int = 0
    took_s: float = 0.0
    hit_ratio: float | None = None
    fresh_p50_s: float | None = None
    fresh_p95_s: float | None = None
    backlog_open: int | None = None


@dataclass(frozen=True, slots=True)
class History:
    """Steps of equal length, oldest first."""

    span: SpanName
    step: timedelta
    points: tuple[Point, ...]

    @property
    def batches(self) -> int:
        return sum(point.batches for point in self.points)


_COUNTS = (
    "batches", "lines", "accepted", "quarantined", "duplicates", "backlog_added", "backlog_resolved", "shed", "pairs",
    "late",
)  # fmt: skip


def history(
    connection: postgres.Connection, pipeline: str, span: SpanName, now: datetime, backlog_open: int = 0
) -> History:
    """The history of one pipeline up to now; earlier backlog levels are computed backwards from `backlog_open`."""
    whole, step = SPANS[span]
    last = datetime.fromtimestamp((now.timestamp() // step.total_seconds() + 1) * step.total_seconds(), UTC)
    first, count = last - whole, whole // step
    values = {"pipeline": pipeline, "first": first, "last": last, "width_s": step.total_seconds()}
    found = {int(row["span"]): row for row in rows(connection, "page_history", **values)}
    points: list[Point] = []
    level = backlog_open
    for number in reversed(range(count)):  # backwards from now: level before = level after - change
        row = found.get(number)
        at = first + number * step
        if row is None:
            points.append(Point(at, backlog_open=level))
            continue
        counts = {name: int(row[name] or 0) for name in _COUNTS}
        probes = int(row["probes"] or 0)
        points.append(
            Point(
                at,
                **counts,
                took_s=float(row["took_s"] or 0.0),
                hit_ratio=min(1.0, int(row["hits"] or 0) / probes) if probes else None,
                fresh_p50_s=row["fresh_p50_s"],
                fresh_p95_s=row["fresh_p95_s"],
                backlog_open=level,
            )
        )
        level = max(0, level - counts["backlog_added"] + counts["backlog_resolved"])
    return History(span, step, tuple(reversed(points)))
