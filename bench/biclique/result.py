"""What the benchmark stores: rows (counters), figures (our ratios beside the paper's, and why they differ), aims."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from bench.measured import RESULTS, keep, machine

FILE = RESULTS / "biclique.json"
Row = dict[str, Any]
_SIMULATED = (
    "units of all figures but `peers` are simulated in one process; rows of `kernel`, 7t, 8t, 9t are in CPU "
    "seconds, `peers` rows by the clock, through Spark"
)


@dataclass(frozen=True, slots=True)
class Aim:
    name: str
    wanted: str
    measured: float
    met: bool


def at_least(name: str, measured: float, wanted: float) -> Aim:
    return Aim(name, f">= {wanted:g}", round(measured, 4), measured >= wanted)


def at_most(name: str, measured: float, wanted: float) -> Aim:
    return Aim(name, f"<= {wanted:g}", round(measured, 4), measured <= wanted)


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure or table: series as points, ratios of ours and of the paper."""

    figure: str
    title: str
    x: str
    y: str
    series: dict[str, list[tuple[Any, float]]]
    ours: dict[str, float] = field(default_factory=dict)
    paper: dict[str, float] = field(default_factory=dict)
    reason: str = ""
    aims: tuple[Aim, ...] = ()
    details: dict[tuple[str, Any], Row] = field(default_factory=dict)  # more about the point (series, x)
    unit: Literal["cost", "time"] = "cost"

    def rows(self) -> list[Row]:
        return [
            {"figure": self.figure, "series": name, "x": x, "y": round(y, 6), **self.details.get((name, x), {})}
            for name, points in self.series.items()
            for x, y in points
        ]

    def drawn(self) -> Row:
        """As `bench.plots` draws it."""
        series = [
            {"name": name, "points": [{"x": x, "y": y} for x, y in points]} for name, points in self.series.items()
        ]
        return {"title": self.title, "unit": self.unit, "x": self.x, "y": self.y, "series": series}


def store(figures: list[Figure], seconds: dict[str, float], file: Path = FILE) -> Row:
    """Writes these figures beside what earlier runs and other parts stored."""
    before = json.loads(file.read_text()) if file.exists() else {}
    names = {figure.figure for figure in figures}
    aims = {aim.name for figure in figures for aim in figure.aims}
    summary = [{"figure": one.figure, "title": one.title, "ours": one.ours, "paper": one.paper, "reason": one.reason}
               for one in figures]  # fmt: skip
    whole = {
        "machine": machine(),
        "simulated": _SIMULATED,
        "seconds": {**before.get("seconds", {}), **seconds},
        "rows": [row for row in before.get("rows", []) if row["figure"] not in names]
        + [row for figure in figures for row in figure.rows()],
        "figures": [one for one in before.get("figures", []) if one["figure"] not in names] + summary,
        "aims": [aim for aim in before.get("aims", []) if aim["name"] not in aims]
        + [asdict(aim) for figure in figures for aim in figure.aims],
    }
    keep(whole, file)
    return whole
