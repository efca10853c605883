"""Charts over time as SVG text: stacked columns and lines, with axes, drawn in the process of the page (ADR 78).

    times, series ──▶ scale ──▶ <svg> with a title for every step, colours by CSS variables ──▶ Chart

`label` describes the drawing in words, and the page has the figures in a table beside it. All text inside is numbers,
times and our own names, never user data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from markupsafe import Markup

from etl.report import figures

WIDTH, HEIGHT = 480.0, 200.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 8.0, 8.0, 24.0
_TICKS = 4
_TIMES = 8
Value = float | None


@dataclass(frozen=True, slots=True)
class Series:
    """One quantity over time, drawn in the colour of a route."""

    name: str
    colour: str
    values: Sequence[Value]


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure of a page. `svg` is None when there is nothing to draw: `label` says why."""

    title: str
    about: str
    label: str
    svg: Markup | None
    legend: tuple[tuple[str, str], ...] = ()  # colour, name


@dataclass(frozen=True, slots=True)
class _Scale:
    """Where a value and a time are in the drawing."""

    steps: int
    highest: float

    def x(self, step: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * step / self.steps

    def y(self, value: float) -> float:
        return _TOP + (HEIGHT - _TOP - _BOTTOM) * (1 - value / self.highest)


def columns(
    title: str, about: str, times: Sequence[datetime], series: Sequence[Series], write: Callable[[float], str]
) -> Chart:
    """Stacked columns, one per step of time."""
    sums = [sum(one.values[step] or 0.0 for one in series) for step in range(len(times))]
    if not any(sums):
        return Chart(title, about, f"{title}: nothing in this time.", None)
    scale = _Scale(len(times), _nice(max(sums)))
    width = max(1.0, scale.x(1) - scale.x(0) - 1.0)
    drawn = []
    for step, at in enumerate(times):
        base, parts = 0.0, []
        for one in series:
            value = one.values[step] or 0.0
            if value:
                top = scale.y(base + value)
                box = f'x="{scale.x(step):.1f}" y="{top:.1f}" width="{width:.1f}" height="{scale.y(base) - top:.1f}"'
                parts.append(f'<rect class="c-{one.colour} mark" {box}/>')
                base += value
        if parts:
            drawn.append(f"<g>{_hover(at, series, step, write)}{''.join(parts)}</g>")
    return _chart(title, about, times, series, scale, drawn, write, write)


def lines(
    title: str,
    about: str,
    times: Sequence[datetime],
    series: Sequence[Series],
    write: Callable[[float], str],
    highest: float | None = None,
    axis: Callable[[float], str] | None = None,
) -> Chart:
    """A line per series, broken at unknown values. `axis` formats its labels."""
    known = [value for one in series for value in one.values if value is not None]
    if not known or not (any(known) or highest):
        return Chart(title, about, f"{title}: nothing in this time.", None)
    scale = _Scale(len(times), highest or _nice(max(known)))
    drawn = []
    for one in series:
        for part in _unbroken(one.values):
            points = " ".join(f"{scale.x(step + 0.5):.1f},{scale.y(max(0.0, value)):.1f}" for step, value in part)
            if len(part) == 1:
                x, y = points.split(",")
                drawn.append(f'<circle class="c-{one.colour} mark" cx="{x}" cy="{y}" r="2.5"/>')
            else:
                drawn.append(f'<polyline class="c-{one.colour} line" points="{points}"/>')
    for step, at in enumerate(times):
        if any(one.values[step] is not None for one in series):
            box = f'x="{scale.x(step):.1f}" y="{_TOP}" width="{scale.x(1) - scale.x(0):.1f}"'
            hover = _hover(at, series, step, write)
            drawn.append(f'<rect class="hover" {box} height="{HEIGHT - _TOP - _BOTTOM}">{hover}</rect>')
    return _chart(title, about, times, series, scale, drawn, write, axis or write)


def sparkline(hours: Sequence[int]) -> Markup:
    """A column for each of the last hours: the amount loaded."""
    highest, wide = max(hours, default=0), 240.0 / max(1, len(hours))
    drawn = []
    for number, count in enumerate(hours):
        tall = max(1.5, 26.0 * count / highest) if count else 1.0
        kind = "accepted" if count else "none"
        box = f'x="{number * wide:.1f}" y="{28 - tall:.1f}" width="{wide - 2:.1f}" height="{tall:.1f}"'
        drawn.append(f'<rect class="c-{kind} mark" {box}/>')
    busiest = f"; {figures.number(highest)} in the busiest" if highest else ""
    label = f"{figures.number(sum(hours))} events were loaded in the last {len(hours)} hours{busiest}"
    head = (
        f'<svg viewBox="0 0 240 28" preserveAspectRatio="none" role="img" aria-label="{label}"><title>{label}</title>'
    )
    return Markup("".join([head, *drawn, "</svg>"]))  # noqa: S704 - numbers and words of ours


def _chart(
    title: str,
    about: str,
    times: Sequence[datetime],
    series: Sequence[Series],
    scale: _Scale,
    drawn: Sequence[str],
    write: Callable[[float], str],
    axis: Callable[[float], str],
) -> Chart:
    newest = [(one.name, next((value for value in reversed(one.values) if value is not None), None)) for one in series]
    said = ", ".join(f"{name} {figures.NOTHING if value is None else write(value)}" for name, value in newest)
    label = f"{title}, {len(times)} steps from {figures.moment(times[0])}; newest: {said}"
    head = f'<svg class="chart" viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" aria-hidden="true" focusable="false">'
    text = "".join([head, *_value_axis(scale, axis), *_time_axis(times, scale), *drawn, "</svg>"])
    return Chart(title, about, label, Markup(text), tuple((one.colour, one.name) for one in series))  # noqa: S704


def _value_axis(scale: _Scale, write: Callable[[float], str]) -> list[str]:
    found = []
    for tick in range(_TICKS + 1):
        value = scale.highest * tick / _TICKS
        y = scale.y(value)
        found.append(f'<line class="rule" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        found.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{write(value)}</text>')
    return found


def _time_axis(times: Sequence[datetime], scale: _Scale) -> list[str]:
    form = "%H:%M" if times[-1] - times[0] <= timedelta(days=1) else "%d %b"
    found = []
    for step in _round_times(times) or [0, len(times) - 1]:
        x = scale.x(step)
        anchor = "end" if x > WIDTH - 16 else "middle"
        found.append(f'<text x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">{times[step]:{form}}</text>')
    return found


def _round_times(times: Sequence[datetime]) -> list[int]:
    """Steps that begin at round times, few enough to read at a glance: every six hours, every five days."""
    for round_s in (900, 3600, 3 * 3600, 6 * 3600, 86_400, 5 * 86_400, 30 * 86_400):
        found = [step for step, at in enumerate(times) if at.timestamp() % round_s == 0]
        if len(found) <= _TIMES:
            return found if len(found) > 1 else []
    return []


def _hover(at: datetime, series: Sequence[Series], step: int, write: Callable[[float], str]) -> str:
    said = (f"{one.name} {write(value)}" for one in series if (value := one.values[step]) is not None)
    return f"<title>{at:%d %b %H:%M} UTC: {', '.join(said)}</title>"


def _unbroken(values: Sequence[Value]) -> list[list[tuple[int, float]]]:
    """Runs of steps whose value is known."""
    runs: list[list[tuple[int, float]]] = []
    before = -2
    for step, value in enumerate(values):
        if value is None:
            continue
        if step != before + 1:
            runs.append([])
        runs[-1].append((step, value))
        before = step
    return runs


def _nice(value: float) -> float:
    """The next of 1, 2, 4, 5, 8 times a power of ten: four ticks below it are round, too."""
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next(step * power for step in (1, 2, 4, 5, 8, 10) if step * power >= value)


def short_duration(seconds: float) -> str:
    """`40 s`, `3.33 min`, `1.5 h`: what fits beside an axis."""
    for least, word in ((3600.0, "h"), (100.0, "min")):
        if seconds >= least:
            return f"{seconds / (3600 if word == 'h' else 60):.3g}\u00a0{word}"
    return figures.duration(seconds) if 0 < seconds < 1 else f"{seconds:.3g}\u00a0s"


def short_number(value: float) -> str:
    """`12`, `1.5k`, `3M`: what fits beside an axis."""
    for least, word in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= least:
            return f"{value / least:.3g}{word}"
    return f"{value:.3g}"
