"""One SVG per figure of the paper that is measured again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.multiway.plots import spec

Row = dict[str, Any]
Figure = dict[str, Any]
_CPU = "M tuples per CPU s, overall"
_AXES = {
    "17": "selectivity", "20a": "streams", "20c": "groups", "20d": "similarity",
    "22a": "share of queries that want a tuple",
}  # fmt: skip
_STEPS = ("ingest_s", "correlate_s", "joins_s", "load_s")


def file_name(figure: str) -> str:
    return f"adhoc-{figure}.svg"


def draw(rows: list[Row], folder: Path) -> list[Path]:
    """Write the plots of what was measured."""
    import vl_convert  # starts a JavaScript engine: only when something is drawn

    drawn = []
    for figure in _figures(rows):
        drawn.append(folder / file_name(figure["name"]))
        drawn[-1].write_text(vl_convert.vegalite_to_svg(spec(figure), allowed_base_urls=[]) + "\n")
    return drawn


def _figures(rows: list[Row]) -> Iterator[Figure]:
    by_figure: dict[str, list[Row]] = {}
    for row in rows:
        by_figure.setdefault(row["figure"], []).append(row)
    if "15" in by_figure:
        through = by_figure["15"]
        speed = _panel("", "queries", "M tuples/s, overall", through, _queries, _millions("overall_tuples_per_s"))
        yield _figure("15", "Overall tuples per second by queries", {**speed, "log_x": True, "log_y": True})
        ours = [row | {"series": name, "s": row[name]} for row in through if "joins_s" in row for name in _STEPS]
        spent = _panel("", "queries", "seconds", ours, _queries, lambda row: float(row["s"]))
        yield _figure("19", "Where the time of a micro-batch goes", {**spent, "log_x": True})
    if "18b" in by_figure:
        waited = by_figure["18b"]
        mean = _panel("mean", "streams", "seconds", waited, _x, lambda row: float(row["deployment_s_mean"]))
        most = _panel("most", "streams", "seconds", waited, _x, lambda row: float(row["deployment_s_most"]))
        yield _figure("18b", "From request to effect", mean, most)
    if "16" in by_figure:
        held = [
            {"series": name, "x": row["queries"], "mb": row[key] / 1e6}
            for row in by_figure["16"] for name, key in (("tuples", "tuple_bytes"), ("indexes", "index_bytes"))
        ]  # fmt: skip
        whole = _panel("all queries", "queries", "MB", held, _x, lambda row: float(row["mb"]))
        each = _panel("a query", "queries", "MB", by_figure["16"], _x, _millions("bytes_per_query"))
        yield _figure("16", "Bytes of tuples and indexes", {**whole, "log_x": True}, {**each, "log_x": True})
    for name, axis in _AXES.items():
        if name in by_figure:
            yield _figure(name, f"Throughput and memory by {axis}", *_two(axis, by_figure[name]))
    if "21" in by_figure:
        off = by_figure["21"]
        panel = _panel("", "streams", "CPU time, of everything's", off, _x, lambda row: float(row["times_everything"]))
        yield _figure("21", "One part switched off at a time", panel)


def _two(axis: str, rows: list[Row]) -> Iterator[Figure]:
    yield _panel("throughput", axis, _CPU, rows, _x, _millions("overall_tuples_per_cpu_s"))
    yield _panel("memory", axis, "MB a query", rows, _x, _millions("bytes_per_query"))


def _figure(name: str, title: str, *panels: Figure) -> Figure:
    return {"name": name, "title": title, "panels": list(panels)}


def _panel(
    title: str, x: str, y: str, rows: list[Row], at: Callable[[Row], float], value: Callable[[Row], float]
) -> Figure:
    series = [
        {"name": name, "points": [{"x": at(row), "y": value(row)} for row in rows if row["series"] == name]}
        for name in dict.fromkeys(row["series"] for row in rows)
    ]
    return {"title": title, "x": x, "y": y, "log_x": False, "log_y": False, "series": series}


def _queries(row: Row) -> float:
    return float(row["queries"])


def _x(row: Row) -> float:
    return float(row["x"])


def _millions(name: str) -> Callable[[Row], float]:
    return lambda row: float(row[name]) / 1e6
