"""One SVG per figure of the paper, in the look of the other figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import svg
from bench.svg import Spec

Row = dict[str, Any]
_COLOURS = ["#1b6ca8", "#7fb2d9", "#d1495b", "#e09f3e", "#c9b18b", "#2e8b57", "#6a4c93", "#4d4d4d"]
_METRICS = {
    "6": ("replication", "replication"),
    "7": ("gini", "Gini coefficient"),
    "8": ("maximal_load", "maximal load"),
    "9": ("repartitions", "repartitions per window"),
}


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Write all plots of a run."""
    drawn = []
    for figure, (metric, label) in _METRICS.items():
        panels = [
            _panel(_series(rows, "6-9", data, varied, metric), f"{data}, {title}", title, label)
            for data in ("rwData", "nbData")
            for varied, title in (
                (("theta", "threshold θ"),) if figure == "9" else (("m", "partitions m"), ("w", "window, minutes"))
            )
        ]
        drawn.append(_write(figure, panels, folder))
    ideal = [
        _panel(_series(rows, "10", "rwData", "m", metric), label, "partitions m", label)
        for metric, label in list(_METRICS.values())[:3]
    ]
    drawn.append(_write("10", ideal, folder))
    times = [
        _panel(
            _times(rows, data, only_ours),
            f"{data}, {'FPJ' if only_ours else 'all'}",
            "documents",
            "seconds",
            log=not only_ours,
        )
        for data in ("rwData", "nbData")
        for only_ours in (True, False)
    ]
    drawn.append(_write("11", times, folder))
    return drawn


def _series(rows: Sequence[Row], figure: str, data: str, varied: str, metric: str) -> list[Row]:
    fixed = {"m": 8, "w": 6, "theta": 0.2} | {varied: None}
    return [
        {"x": row[varied], "y": row[metric], "series": row["method"]}
        for row in rows
        if row["figure"] == figure and row["data"] == data
        and all(value is None or row[name] == value for name, value in fixed.items())
    ]  # fmt: skip


def _times(rows: Sequence[Row], data: str, only_ours: bool) -> list[Row]:
    return [
        {"x": row["documents"], "y": max(row["seconds"], 1e-3), "series": row["method"], "time": _doubt(row)}
        for row in rows
        if row["figure"] in ("11", "SQL") and row["data"] == data
        and ((row["method"] == "FPJ") if only_ours else row["documents"] <= 50_000)
    ]  # fmt: skip


def _doubt(row: Row) -> str:
    return "extrapolated" if row.get("extrapolated") else "stopped there" if row.get("at_least") else "measured"


def _panel(values: list[Row], title: str, x: str, y: str, log: bool = False) -> Spec:
    names = list(dict.fromkeys(value["series"] for value in values))
    kind = "log" if log else "linear"
    scale = {"type": "log"} if log else {"zero": True}
    shape = {"shape": {"field": "time", "type": "nominal"}} if log else {}
    return {
        "title": {"text": title, "fontSize": 12, "fontWeight": "normal", "anchor": "start"},
        "width": 260, "height": 210, "data": {"values": values},
        "mark": {"type": "line", "point": {"size": 32}, "strokeWidth": 2},
        "encoding": {
            "x": {"field": "x", "type": "quantitative", "title": x, "scale": {"type": kind, "zero": False}},
            "y": {"field": "y", "type": "quantitative", "title": y, "scale": scale, "axis": {"tickCount": 6}},
            "color": {"field": "series", "type": "nominal", "sort": names, "scale": {"range": _COLOURS}},
            **shape,
        },
    }  # fmt: skip


def _write(figure: str, panels: list[Spec], folder: Path) -> Path:
    resolve = {"scale": {"color": "shared" if figure != "11" else "independent"}}
    columns = 4 if len(panels) == 4 else 3
    spec = svg.whole(2 if figure == "11" else 5, concat=panels, columns=columns, spacing=28, resolve=resolve)
    return svg.write(spec, folder / f"documents-figure-{figure}.svg")
