"""One SVG per figure: cost units on the left, time on the right, titled by what was found."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from bench import svg
from bench.svg import Spec

WIDTH, HEIGHT = 380, 250
_COLOURS = ["#1b6ca8", "#d1495b", "#2e8b57", "#e09f3e", "#6a4c93", "#4d4d4d", "#17a2b8", "#9c6644"]
_PANELS = {"cost": "in cost units (the same on every machine)", "time": "in time (on this machine)"}


def draw(figure: str, drawn: Sequence[Spec], folder: Path) -> Path:
    """Writes the plot of a figure, which is drawn in up to two units."""
    return svg.write(spec(figure, drawn), folder / f"figure-{figure}.svg")


def spec(figure: str, drawn: Sequence[Spec]) -> Spec:
    """Both panels side by side under one title."""
    title = next((one["title"] for one in drawn if one["unit"] == "cost"), drawn[0]["title"])
    return svg.whole(
        legend_columns=2,
        label_limit=260,
        title={"text": textwrap.wrap(f"{figure}  {title}", 105), "anchor": "start", "fontSize": 14, "offset": 12},
        hconcat=[_panel(one) for one in drawn],
        spacing=36,
    )


def _panel(one: Spec) -> Spec:
    names = [series["name"] for series in one["series"]]
    values = [
        {"x": point["x"], "y": point["y"], "series": series["name"]}
        for series in one["series"]
        for point in series["points"]
    ]
    words = values and isinstance(values[0]["x"], str)
    colour = {"field": "series", "type": "nominal", "sort": names, "scale": {"domain": names, "range": _COLOURS}}
    x: Spec = {"field": "x", "type": "nominal" if words else "quantitative", "title": one["x"], "sort": None}
    if not words:
        x["scale"] = {"zero": False, "nice": False, "padding": 6}
    y: Spec = {"field": "y", "type": "quantitative", "title": one["y"], "axis": {"tickCount": 6}}
    encoding: Spec = {"x": x, "y": y, "color": colour}
    mark: Spec = {"type": "line", "point": {"size": 32}, "strokeWidth": 2}
    if words:
        mark = {"type": "bar"}
        encoding["xOffset"] = {"field": "series", "sort": names}
        x["axis"] = {"labelAngle": -30}
    panel = {"text": _PANELS[one["unit"]], "fontSize": 12, "fontWeight": "normal", "anchor": "start"}
    return {
        "title": panel, "width": WIDTH, "height": HEIGHT, "data": {"values": values},
        "mark": mark, "encoding": encoding,
    }  # fmt: skip
