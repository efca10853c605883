"""One SVG per figure: its panels side by side, two in a row."""

from __future__ import annotations

import textwrap
from pathlib import Path

from bench import svg
from bench.svg import Spec

_COLOURS = ["#1b6ca8", "#d1495b", "#2e8b57", "#e09f3e", "#6a4c93", "#4d4d4d"]


def draw(figure: Spec, folder: Path) -> Path:
    """`figure` as `Figure.to_json` tells it."""
    return svg.write(spec(figure), folder / f"multiway-{figure['name']}.svg")


def spec(figure: Spec) -> Spec:
    title = {"text": textwrap.wrap(f"{figure['name']}  {figure['title']}", 95), "anchor": "start", "fontSize": 14}
    panels = [_panel(panel) for panel in figure["panels"]]
    return svg.whole(legend_columns=3, title=title, concat=panels, columns=2, spacing=28)


def _panel(panel: Spec) -> Spec:
    names = [series["name"] for series in panel["series"]]
    values = [point | {"series": series["name"]} for series in panel["series"] for point in series["points"]]
    x: Spec = {"field": "x", "type": "quantitative", "title": panel["x"], "scale": {"zero": False, "nice": False}}
    y: Spec = {"field": "y", "type": "quantitative", "title": panel["y"], "axis": {"tickCount": 5}}
    if panel["log_x"]:
        x |= {"scale": {"type": "log"}, "axis": {"values": sorted({point["x"] for point in values}), "format": "~s"}}
    if panel["log_y"]:
        y |= {"scale": {"type": "log"}}
        values = [point for point in values if point["y"] > 0]
    colour = {"field": "series", "type": "nominal", "scale": {"domain": names, "range": _COLOURS}}
    return {
        "title": {"text": panel["title"], "fontSize": 12, "fontWeight": "normal", "anchor": "start"},
        "width": 360, "height": 200, "data": {"values": values},
        "mark": {"type": "line", "point": {"size": 30}, "strokeWidth": 2},
        "encoding": {"x": x, "y": y, "color": colour},
    }  # fmt: skip
