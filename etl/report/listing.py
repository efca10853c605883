"""The page that lists all kept reports, newest first, with a few trends above the list.

The trends are sparklines: small lines without axes, drawn here as SVG points: the list needs no
drawing engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from etl.report import figures
from etl.report.model import HISTORY_BATCHES, Summary
from etl.report.templating import fill

SPARK_WIDTH, SPARK_HEIGHT = 240, 44
_MARGIN = 4.0


@dataclass(frozen=True, slots=True)
class Spark:
    """One key figure of the newest batch and the line that led to it."""

    label: str
    value: str
    note: str
    colour: str
    points: str
    last: tuple[float, float] | None


def render(summaries: Sequence[Summary], data_docs: str) -> str:
    """The page for these summaries, which are in order, newest first."""
    busy = [summary for summary in summaries if summary.outcome != "empty"]
    recent = list(reversed(busy[:HISTORY_BATCHES]))
    return fill(
        "index.html.j2",
        summaries=summaries,
        data_docs=data_docs,
        sparks=_sparks(recent) if recent else (),
        size=(SPARK_WIDTH, SPARK_HEIGHT),
        unbalanced=sum(not summary.balanced for summary in summaries),
    )


def _sparks(recent: Sequence[Summary]) -> tuple[Spark, ...]:
    def count(value: float | None) -> str:
        return figures.NOTHING if value is None else figures.number(round(value))

    return (
        spark("Accepted", "accepted", [float(s.accepted) for s in recent], count),
        spark("Hit ratio", "accepted", [s.hit_ratio for s in recent], figures.percent),
        spark("Freshness, 95th percentile", "backlog", [s.freshness_p95_s for s in recent], figures.duration),
        spark("Duration", "duplicates", [s.seconds for s in recent], figures.duration),
    )


def spark(label: str, colour: str, values: Sequence[float | None], write: Callable[[float | None], str]) -> Spark:
    """The newest of some values and the line that led to it; unknown ones are left out of the line."""
    known = [value for value in values if value is not None]
    spots = _spots(values) if len(known) > 1 else []
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    low, high = (write(min(known)), write(max(known))) if known else ("", "")
    note = f"{low} to {high}" if low != high else "steady" if len(known) > 1 else ""
    return Spark(label, write(known[-1] if known else None), note, colour, points, spots[-1] if spots else None)


def _spots(values: Sequence[float | None]) -> list[tuple[float, float]]:
    """Positions of the known values: from the left edge to the right, zero (or the lowest) at the bottom."""
    known = [value for value in values if value is not None]
    low, high = min(0.0, *known), max(known)
    span = (high - low) or 1.0
    step = (SPARK_WIDTH - 2 * _MARGIN) / (len(values) - 1)
    usable = SPARK_HEIGHT - 2 * _MARGIN
    return [
        (_MARGIN + step * x, _MARGIN + usable * (1 - (value - low) / span))
        for x, value in enumerate(values)
        if value is not None
    ]
