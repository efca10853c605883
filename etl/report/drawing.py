"""The three kinds of drawing in reports (columns, lines, bars), as Vega-Lite specs rendered to SVG text.

Colours stay CSS variables (`var(--accepted)`) down into the SVG, so one drawing is right in light, in
dark and in print. Every drawing has the width of a phone's column and is laid out beside others on wider
screens: its text keeps its size everywhere.

Specs are plain dicts because importing Altair takes longer than drawing every chart of a page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

Spec = dict[str, Any]

WIDTH, HEIGHT = 360, 220
_PLOT_WIDTH = 300  # about what the axis labels leave of WIDTH; columns are sized by it
_LETTER = 7.0  # width of a letter in a wide font: the page's font is not known here, so leave it room
_LETTERS = 24
_EDGE = 16  # free space on the right: the last time label is centred on the end of the axis
_SIZE = re.compile(r'(<svg\b[^>]*?) width="[^"]*" height="[^"]*"')

_CONFIG: Spec = {
    "aria": False,  # the figure's own label speaks once, instead of every mark for itself
    "background": None,
    "font": "sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--muted)",
        "titleColor": "var(--muted)",
        "gridColor": "var(--line)",
        "domainColor": "var(--line-strong)",
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "ticks": False,
        "labelPadding": 6,
    },
    "legend": {
        "orient": "top",
        "title": None,
        "labelColor": "var(--ink)",
        "labelFontSize": 11.5,
        "symbolSize": 90,
        "symbolStrokeWidth": 3,
        "columnPadding": 14,
        "offset": 8,
    },
}


def draw(spec: Spec) -> str:
    """The SVG of a spec, without a size of its own: the page decides how wide it is."""
    import vl_convert  # lazy: starts a JavaScript engine

    whole = {
        **spec,
        "width": WIDTH,
        "height": HEIGHT,
        "autosize": {"type": "fit", "contains": "padding"},
        "padding": {"left": 2, "top": 2, "right": _EDGE, "bottom": 2},
        "config": _CONFIG,
    }
    svg: str = vl_convert.vegalite_to_svg(whole, allowed_base_urls=[])
    return _SIZE.sub(r'\1 aria-hidden="true" focusable="false"', svg, count=1)


def columns(rows: Sequence[Spec], times: Sequence[datetime], y: Spec, colour: Spec) -> Spec:
    """Stacked columns, one per batch; `rows` have `x`, `y`, `series` and their `order` in the stack."""
    width = max(2.0, min(26.0, 0.8 * _PLOT_WIDTH / len(times)))
    return {
        "data": {"values": list(rows)},
        "mark": {"type": "bar", "size": width},
        "encoding": {
            "x": _time_axis(times),
            "y": y,
            "color": colour,
            "order": {"field": "order", "type": "quantitative"},
        },
    }


def line(rows: Sequence[Spec], times: Sequence[datetime], y: Spec, colour: Spec) -> Spec:
    """Lines over batches; `rows` have `x`, `y` and perhaps `series`. A batch without a row leaves no dot."""
    dot = {"filled": True, "size": 28} if len(times) <= 20 else False
    return {
        "data": {"values": list(rows)},
        "mark": {"type": "line", "strokeWidth": 2, "strokeJoin": "round", "point": dot},
        "encoding": {"x": _time_axis(times), "y": y, "color": colour},
    }


def bars(rows: Sequence[Spec], colour: str) -> Spec:
    """Horizontal bars; `rows` have `name`, `value` and `text`, the figure written behind the bar."""
    names = {str(y): _short(row["name"]) for y, row in enumerate(rows)}
    margin = _LETTER * max(map(len, names.values()))
    plot = WIDTH - margin - _EDGE - 8
    figure = _LETTER * max(len(row["text"]) for row in rows) + 8
    reach = (max(row["value"] for row in rows) or 1) * plot / (plot - figure)  # leaves the longest bar its figure
    axis = {"domain": False, "minExtent": margin, "maxExtent": margin, "labelColor": "var(--ink)"}
    text = {"type": "text", "align": "left", "dx": 6, "fontSize": 11.5, "color": "var(--ink)"}
    return {
        "data": {"values": [{**row, "at": y} for y, row in enumerate(rows)]},
        "encoding": {
            # By position, not by name: two names may be the same once they are cut.
            "y": {"field": "at", "type": "ordinal", "title": None, "axis": axis | _labels(names)},
            "x": {"field": "value", "type": "quantitative", "axis": None, "scale": {"domain": [0, reach]}},
        },
        "layer": [
            {"mark": {"type": "bar", "size": min(22.0, 0.66 * HEIGHT / len(rows)), "color": colour}},
            {"mark": text, "encoding": {"text": {"field": "text", "type": "nominal"}}},
        ],
    }


def quantity(title: str, highest: float, *, whole: bool = False) -> Spec:
    """A value axis from zero. Whole numbers get no ticks between them, large ones are short (`12k`)."""
    axis: Spec = {"tickCount": 5}
    if whole:
        form = "~s" if highest >= 1000 else "d"
        axis |= {
            "tickMinStep": 1,
            "labelExpr": f"datum.value ? replace(format(datum.value, '{form}'), 'G', 'B') : '0'",
        }
    scale = {} if highest > 0 else {"domain": [0, 1]}
    return {"field": "y", "type": "quantitative", "title": title, "axis": axis, "scale": scale}


def ratio(title: str) -> Spec:
    """A value axis from 0 % to 100 %, always: a small dip must not look like a fall."""
    axis = {"format": ".0%", "tickCount": 5}
    return {"field": "y", "type": "quantitative", "title": title, "axis": axis, "scale": {"domain": [0, 1]}}


def colours(series: dict[str, str], symbol: Literal["square", "stroke"]) -> Spec:
    """A legend: names of series, each with the colour variable it is drawn in."""
    scale = {"domain": list(series), "range": [f"var(--{name})" for name in series.values()]}
    return {"field": "series", "type": "nominal", "scale": scale, "legend": {"symbolType": symbol}}


def one_colour(name: str) -> Spec:
    """A single series, which needs no legend."""
    return {"value": f"var(--{name})"}


def _time_axis(times: Sequence[datetime]) -> Spec:
    """One slot per batch, regardless of irregular intervals, with the finish time of a few of them."""
    short = times[-1] - times[0] < timedelta(hours=20)
    ticks = _spread(len(times), 5 if short else 3)
    names = {str(x): f"{times[x]:{'%H:%M' if short else '%d %b %H:%M'}}" for x in ticks}
    return {
        "field": "x",
        "type": "ordinal",
        "scale": {"domain": list(range(len(times)))},
        "title": "finished (UTC)",
        "axis": {"values": ticks, "labelAngle": 0, **_labels(names)},
    }


def _labels(names: dict[str, str]) -> Spec:
    """Axis labels by position. The names are a JSON literal inside the expression: data, never code."""
    return {"labelExpr": f"({json.dumps(names)})[datum.value]", "labelLimit": 0}


def _short(name: str) -> str:
    return name if len(name) <= _LETTERS else name[: _LETTERS - 1] + "…"


def _spread(length: int, most: int) -> list[int]:
    """At most `most` positions, evenly from the first to the last."""
    if length <= most:
        return list(range(length))
    return [round(step * (length - 1) / (most - 1)) for step in range(most)]
