"""One SVG: what is served, how long batches take and how fresh events are, by arrivals; a row of panels per store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench import svg
from bench.svg import Spec

FILE = "overload.svg"
_POLICIES = ["best-first", "position", "keep", "none"]
_COLOURS = ["#1b6ca8", "#2e8b57", "#d1495b", "#4d4d4d"]


def draw(result: dict[str, Any], folder: Path) -> Path | None:
    """Write the plot; nothing when nothing was measured."""
    if not result["rows"]:
        return None
    return svg.write(spec(result), folder / FILE)


def spec(result: dict[str, Any]) -> Spec:
    stores = list(dict.fromkeys(row["store"] for row in result["rows"]))
    return svg.whole(
        legend_columns=4,
        label_limit=260,
        title={"text": "Arrivals beyond what the master store sustains", "anchor": "start", "fontSize": 14},
        vconcat=[{"hconcat": _panels(result["rows"], store), "spacing": 36} for store in stores],
    )


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
