"""One SVG: seconds by batch size, phases of one batch, and a long history; on the left what users feel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench import svg
from bench.pipeline.plan import MASTERS, UNCHECKED
from bench.svg import Spec

FILE = "pipeline.svg"
_NAMES = ["before", "plain", UNCHECKED, "ours"]
_COLOURS = ["#4d4d4d", "#d1495b", "#e09f3e", "#1b6ca8"]
_PHASES_OF = 50_000


def draw(result: dict[str, Any], folder: Path) -> Path | None:
    """Write the plot; nothing when nothing was measured."""
    if not result["rows"]:
        return None
    return svg.write(spec(result), folder / FILE)


def spec(result: dict[str, Any]) -> Spec:
    """All panels side by side."""
    panels = [_seconds(result["rows"]), _phases(result["rows"])]
    if result["history"]:
        panels.append(_history(result["history"]))
    return svg.whole(
        legend_columns=4,
        label_limit=260,
        title={"text": "One micro-batch, from landed files to the mart", "anchor": "start", "fontSize": 14},
        hconcat=panels,
        resolve={"scale": {"color": "independent"}},
        spacing=36,
    )


def _main(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["masters"] == MASTERS and row["batch"]]


def _seconds(rows: list[dict[str, Any]]) -> Spec:
    values = [{"x": r["batch"], "y": r["seconds"], "who": r["contender"]} for r in _main(rows)]
    log = {"type": "log"}
    return _panel("by batch size, both axes logarithmic", values, {"type": "line", "point": {"size": 40}}, {
        "x": {"field": "x", "type": "quantitative", "title": "orders per batch", "scale": {**log, "nice": False}},
        "y": {"field": "y", "type": "quantitative", "title": "seconds", "scale": log},
        "color": {
            "field": "who", "type": "nominal", "sort": _NAMES, "scale": {"domain": _NAMES, "range": _COLOURS},
        },
    })  # fmt: skip


def _phases(rows: list[dict[str, Any]]) -> Spec:
    chosen = [row for row in _main(rows) if row["batch"] == _PHASES_OF]
    values = [
        {"who": row["contender"], "phase": phase, "y": took, "at": index}
        for row in chosen
        for index, (phase, took) in enumerate(row["phases"].items())
    ]
    phases = list(dict.fromkeys(value["phase"] for value in values))
    return _panel(f"phases of {_PHASES_OF:,} orders", values, {"type": "bar"}, {
        "x": {"field": "y", "type": "quantitative", "title": "seconds", "stack": "zero"},
        "y": {"field": "who", "type": "nominal", "title": None, "sort": _NAMES},
        "color": {"field": "phase", "type": "nominal", "sort": phases, "scale": {"domain": phases}},
        "order": {"field": "at", "type": "quantitative"},
    })  # fmt: skip


def _history(history: list[dict[str, Any]]) -> Spec:
    values = [{"x": row["number"], "y": row["seconds"]} for row in history]
    return _panel("small batches in a row, ours", values, {"type": "line", "color": _COLOURS[-1]}, {
        "x": {"field": "x", "type": "quantitative", "title": "batch"},
        "y": {"field": "y", "type": "quantitative", "title": "seconds"},
    })  # fmt: skip


def _panel(title: str, values: list[dict[str, Any]], mark: Spec, encoding: Spec) -> Spec:
    head = {"text": title, "fontSize": 12, "fontWeight": "normal", "anchor": "start"}
    return {"title": head, "width": 330, "height": 240, "data": {"values": values}, "mark": mark, "encoding": encoding}
