"""One SVG: what is served, how long batches take and how fresh events are, by arrivals; a row of panels per store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

Spec = dict[str, Any]
FILE = "overload.svg"
_POLICIES = ["best-first", "position", "keep", "none"]
_COLOURS = ["#1b6ca8", "#2e8b57", "#d1495b", "#4d4d4d"]


def draw(result: dict[str, Any], folder: Path) -> Path | None:
    """Write the plot; nothing when nothing was measured."""
    if not result["rows"]:
        return None
    import vl_convert  # starts a JavaScript engine: only when something is drawn

    svg: str = vl_convert.vegalite_to_svg(spec(result), allowed_base_urls=[])
    file = folder / FILE
    file.write_text(svg + "\n")
    return file


def spec(result: dict[str, Any]) -> Spec:
    stores = list(dict.fromkeys(row["store"] for row in result["rows"]))
    return {
        "title": {"text": "Arrivals beyond what the master store sustains", "anchor": "start", "fontSize": 14},
        "vconcat": [{"hconcat": _panels(result["rows"], store), "spacing": 36} for store in stores],
        "background": "white",
        "padding": 12,
        "config": {
            "font": "sans-serif", "view": {"stroke": None},
            "axis": {"labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal", "gridColor": "#e6e6e6"},
            "legend": {"orient": "bottom", "title": None, "labelFontSize": 11, "columns": 4, "labelLimit": 260},
        },
    }  # fmt: skip


def _panels(rows: list[dict[str, Any]], store: str) -> list[Spec]:
    mine = [row for row in rows if row["store"] == store]
    served = [(row, row["served_per_s"] * row["deadline_s"] / row["w"]) for row in mine]
    slowest = [(row, row["slowest_over_deadline"]) for row in mine]
    fresh = [(row, row["batches"][-1]["fresh_p95_s"]) for row in mine]
    return [
        _panel(f"{store}: served, in w per deadline", "served / w", served),
        _panel("slowest batch", "deadlines", slowest),
        _panel("freshness p95 of the last batch", "seconds", fresh),
    ]


def _panel(title: str, unit: str, points: list[tuple[dict[str, Any], float | None]]) -> Spec:
    values = [{"x": row["times"], "y": y, "who": row["policy"]} for row, y in points if y is not None]
    head = {"text": title, "fontSize": 12, "fontWeight": "normal", "anchor": "start"}
    colour = {"field": "who", "type": "nominal", "sort": _POLICIES, "scale": {"domain": _POLICIES, "range": _COLOURS}}
    return {
        "title": head, "width": 300, "height": 200, "data": {"values": values},
        "mark": {"type": "line", "point": {"size": 40}, "strokeWidth": 2},
        "encoding": {
            "x": {"field": "x", "type": "quantitative", "title": "arrivals, × w", "scale": {"nice": False}},
            "y": {"field": "y", "type": "quantitative", "title": unit, "axis": {"tickCount": 6}},
            "color": colour,
        },
    }  # fmt: skip
