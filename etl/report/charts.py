"""The charts of a run report, each with a description in words.

    RunReport ──► rows ──► drawing ──► Chart(title, about, label, svg | None, empty)

A chart with nothing to draw is a sentence that says why: the first batch has no trend, an
empty landing no reasons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from etl.report import drawing, figures
from etl.report.model import HistoryPoint, RunReport

_REASONS_SHOWN = 8
_UNITS = ((7200.0, 3600.0, "hours"), (300.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure of the page. `label` is the text alternative of the drawing."""

    title: str
    about: str
    label: str
    svg: str | None
    empty: str = ""


def of(report: RunReport) -> tuple[Chart, ...]:
    """Every chart of a report, in the order of the page."""
    points = report.trend()
    return (
        _routes(points),
        _hit_ratio(points),
        _freshness(points),
        _backlog(points),
        _steps(report.seconds),
        _reasons(report.reasons),
    )


def _routes(points: Sequence[HistoryPoint]) -> Chart:
    routes = ("accepted", "quarantined", "duplicates")
    rows = [
        {"x": x, "y": getattr(point, route), "series": route, "order": order}
        for x, point in enumerate(points)
        for order, route in enumerate(routes)
    ]
    highest = max(point.accepted + point.quarantined + point.duplicates for point in points)
    y = drawing.quantity("events", highest, whole=True)
    spec = drawing.columns(rows, _times(points), y, drawing.colours(dict(zip(routes, routes, strict=True)), "square"))
    latest = ", ".join(f"{figures.number(getattr(points[-1], route))} {route}" for route in routes)
    return _trend("Events by route", "What became of the events of each batch", points, spec, latest)


def _hit_ratio(points: Sequence[HistoryPoint]) -> Chart:
    rows = [{"x": x, "y": point.hit_ratio} for x, point in enumerate(points) if point.hit_ratio is not None]
    spec = drawing.line(rows, _times(points), drawing.ratio("hits per probe"), drawing.one_colour("accepted"))
    about = "Probes answered by the front stage"
    latest = figures.percent(points[-1].hit_ratio)
    return _trend("Hit ratio", about, points, spec if rows else None, latest)


def _freshness(points: Sequence[HistoryPoint]) -> Chart:
    fields = {"median": "freshness_p50_s", "95th percentile": "freshness_p95_s"}
    ages = [
        (x, name, float(age))
        for x, point in enumerate(points)
        for name, field in fields.items()
        if (age := getattr(point, field)) is not None
    ]
    highest = max((abs(age) for _, _, age in ages), default=0.0)
    divisor, unit = next((by, unit) for least, by, unit in _UNITS if highest >= least)
    rows = [{"x": x, "y": age / divisor, "series": name} for x, name, age in ages]
    colours = drawing.colours({"median": "accepted", "95th percentile": "backlog"}, "stroke")
    spec = drawing.line(rows, _times(points), drawing.quantity(unit, highest), colours)
    p50, p95 = points[-1].freshness_p50_s, points[-1].freshness_p95_s
    latest = f"median {figures.duration(p50)}, 95th percentile {figures.duration(p95)}"
    return _trend("Freshness", "Age of events when they became visible", points, spec if rows else None, latest)


def _backlog(points: Sequence[HistoryPoint]) -> Chart:
    rows = [{"x": x, "y": point.backlog_open} for x, point in enumerate(points)]
    y = drawing.quantity("open events", max(point.backlog_open for point in points), whole=True)
    spec = drawing.line(rows, _times(points), y, drawing.one_colour("backlog"))
    about = "Events waiting for a master row, or shed"
    return _trend("Open backlog", about, points, spec, figures.number(points[-1].backlog_open))


def _steps(seconds: Mapping[str, float]) -> Chart:
    rows = [
        {"name": figures.visible(figures.words(step)), "value": spent, "text": figures.duration(spent)}
        for step, spent in seconds.items()
    ]
    label = "Time per step of this batch: " + ", ".join(f"{row['name']} {row['text']}" for row in rows)
    svg = drawing.draw(drawing.bars(rows, "var(--accepted)")) if rows else None
    return Chart("Time per step", "Where this batch spent its time", label, svg, "No step was timed.")


def _reasons(reasons: Mapping[str, int]) -> Chart:
    ranked = sorted((reason for reason in reasons if reasons[reason]), key=lambda reason: (-reasons[reason], reason))
    shown = [(figures.visible(reason), reasons[reason]) for reason in ranked[:_REASONS_SHOWN]]
    if rest := ranked[_REASONS_SHOWN:]:
        shown.append((f"{len(rest)} other reasons", sum(reasons[reason] for reason in rest)))
    rows = [{"name": name, "value": count, "text": figures.number(count)} for name, count in shown]
    label = "Quarantined events of this batch by reason: " + ", ".join(f"{row['name']} {row['text']}" for row in rows)
    svg = drawing.draw(drawing.bars(rows, "var(--quarantined)")) if rows else None
    about = "Events of this batch that broke a rule"
    return Chart("Quarantine reasons", about, label, svg, "Nothing was quarantined in this batch.")


def _trend(title: str, about: str, points: Sequence[HistoryPoint], spec: drawing.Spec | None, latest: str) -> Chart:
    """A chart over batches. One batch is a figure, not a trend: the tiles show it already."""
    if len(points) < 2:
        return Chart(title, about, title, None, "The trend starts with the second batch.")
    if spec is None:
        return Chart(title, about, title, None, "Nothing was measured in these batches.")
    label = f"{title} over the last {len(points)} batches; latest: {latest}"
    return Chart(title, about, label, drawing.draw(spec))


def _times(points: Sequence[HistoryPoint]) -> list[datetime]:
    return [point.finished_at for point in points]
