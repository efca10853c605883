"""The page of one batch of correlations, and the list of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from markupsafe import Markup

from etl.report import drawing, figures
from etl.report.charts import Chart
from etl.report.correlations.model import BatchReport, CorrelationReport, Point, State, UnitReport
from etl.report.page import Tile
from etl.report.templating import fill

STATES: dict[State, tuple[str, str]] = {
    "loaded": ("Loaded", "good"),
    "decided": ("Decided, not loaded yet", "warn"),
    "reading": ("Reading", "warn"),
}
_MIB = 2**20
_SHOWN = 8
_FLOW = "ingest correlate load"


def render(report: BatchReport) -> str:
    """The whole page, as text."""
    drawn = [(chart, None if chart.svg is None else Markup(chart.svg)) for chart in charts(report)]  # noqa: S704
    return fill(
        "correlations.html.j2",
        report=report,
        state=STATES[report.state],
        tiles=_tiles(report),
        charts=drawn,
        lost=sum(one.late_tuples for one in report.correlations.values()),
        size=size,
        largest={name: _largest(one) for name, one in report.correlations.items()},
    )


def render_list(points: Sequence[Point]) -> str:
    """The list of reports, newest first."""
    return fill("correlations_index.html.j2", points=points, states=STATES, size=size)


def size(count: int) -> str:
    """`12.3 MiB`."""
    for unit, word in ((2**30, "GiB"), (_MIB, "MiB"), (2**10, "KiB")):
        if count >= unit:
            return f"{count / unit:.1f} {word}"
    return f"{count} bytes"


def charts(report: BatchReport) -> tuple[Chart, ...]:
    """Every chart of the page, in order."""
    points = report.trend()
    return (
        _line("Tuples in", "Accepted, of all streams", "tuples", points, [p.accepted for p in points], "accepted"),
        _line("Pairs out", "Joined rows of all correlations", "pairs", points, [p.pairs for p in points], "accepted"),
        _line("Late tuples", "Too late to be joined; kept in the late tables", "tuples", points,
              [p.late for p in points], "backlog"),
        _line("State", "What the units of all correlations hold", "MiB", points,
              [p.state_bytes / _MIB for p in points], "duplicates"),
        _bars("State per unit", "The fullest units after this batch", _fullest(report), "accepted",
              "No unit holds state."),
        _bars("Time per step", "Where this batch spent its time",
              [(step, spent, figures.duration(spent)) for step, spent in _steps(report)], "accepted",
              "No step was timed."),
        _bars("Quarantine reasons", "Lines of this batch that broke a rule",
              [(name, float(count), figures.number(count)) for name, count in _ranked(report.reasons)], "quarantined",
              "Nothing was quarantined in this batch."),
    )  # fmt: skip


def _tiles(report: BatchReport) -> tuple[Tile, ...]:
    point = report.point()
    lines = sum(one.lines for one in report.streams.values())
    rate = round(point.accepted / report.duration_s) if report.duration_s else 0
    balances = [one.balance for one in report.correlations.values() if one.balance is not None]
    scaled = sum(len(one.scaling) for one in report.correlations.values())
    return (
        Tile("Tuples in", figures.number(point.accepted), f"of {figures.number(lines)} lines"),
        Tile("Pairs out", figures.number(point.pairs), f"by {len(report.correlations)} correlations"),
        Tile("Late tuples", figures.number(point.late), "kept in the late tables" if point.late else "none"),
        Tile("Quarantined", figures.number(point.quarantined), figures.share(point.quarantined, lines) + " of lines"),
        Tile("State", size(point.state_bytes), f"in {point.units} units"),
        Tile("Balance", f"{max(balances):.2f}" if balances else figures.NOTHING, "fullest unit over mean"),
        Tile("Scaling", figures.number(scaled), "subgroups changed" if scaled else "no unit added or released"),
        Tile("Duration", figures.duration(report.duration_s), f"{figures.number(rate)} tuples per second"),
    )


def _line(title: str, about: str, unit: str, points: Sequence[Point], values: Sequence[float], colour: str) -> Chart:
    """One figure over batches. One batch is no trend: the tiles show it already."""
    if len(points) < 2:
        return Chart(title, about, title, None, "The trend starts with the second batch.")
    rows = [{"x": x, "y": value} for x, value in enumerate(values)]
    times: list[datetime] = [point.finished_at for point in points]
    y = drawing.quantity(unit, max(values), whole=unit != "MiB")
    svg = drawing.draw(drawing.line(rows, times, y, drawing.one_colour(colour)))
    return Chart(title, about, f"{title} over the last {len(points)} batches; latest: {values[-1]:,.0f} {unit}", svg)


def _bars(title: str, about: str, shown: Sequence[tuple[str, float, str]], colour: str, empty: str) -> Chart:
    rows = [{"name": figures.visible(name), "value": value, "text": text} for name, value, text in shown]
    label = f"{title}: " + ", ".join(f"{row['name']} {row['text']}" for row in rows)
    return Chart(title, about, label, drawing.draw(drawing.bars(rows, f"var(--{colour})")) if rows else None, empty)


def _steps(report: BatchReport) -> list[tuple[str, float]]:
    """Seconds by step, in the order of the flow."""
    return sorted(report.seconds.items(), key=lambda one: (one[0] not in _FLOW, _FLOW.find(one[0])))


def _fullest(report: BatchReport) -> list[tuple[str, float, str]]:
    held = [
        (_unit_name(name, correlation, one), float(one.bytes), size(one.bytes))
        for name, correlation in report.correlations.items()
        for one in correlation.units
        if one.bytes
    ]
    return sorted(held, key=lambda one: -one[1])[:_SHOWN]


def _unit_name(name: str, correlation: CorrelationReport, unit: UnitReport) -> str:
    several = any(other.step for other in correlation.units)
    return f"{unit.side} {unit.unit}{f' of join {unit.step + 1}' if several else ''}, {name}"


def _ranked(reasons: dict[str, int]) -> list[tuple[str, int]]:
    ranked = sorted(((name, count) for name, count in reasons.items() if count), key=lambda one: (-one[1], one[0]))
    rest = sum(count for _, count in ranked[_SHOWN:])
    return ranked[:_SHOWN] + ([(f"{len(ranked) - _SHOWN} other reasons", rest)] if rest else [])


def _largest(one: CorrelationReport) -> int:
    """Bytes of the fullest unit: bars in the table of units are drawn in proportion to it."""
    return max((unit.bytes for unit in one.units), default=0)
