"""A figure as a value: its curves, our ratios beside the paper's, and why they differ.

curves   {"MESHJOIN": {0.01: Measured, …}, …} ──► Figure in cost units, Figure in time
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from bench.figures.measure import UNITS as UNIT_COSTS
from bench.figures.measure import Measured
from etl.enrich.planning.cost import hit_ratio

Unit = Literal["cost", "time", "disk"]
UNITS: tuple[Unit, ...] = ("cost", "time")  # in which figures are given
Ratios = dict[str, float]
Curves = Mapping[str, Mapping[float, Measured]]
RATE_LABEL = {"cost": "tuples per cost unit", "time": "tuples per second"}
PAPER_ROWS = 100_000_000
NAMES = {
    "meshjoin": "MESHJOIN", "cmeshjoin": "CMESHJOIN", "hybridjoin": "HYBRIDJOIN", "chybridjoin": "CHYBRIDJOIN",
    "inlj": "INLJ", "cinlj": "CINLJ",
}  # fmt: skip
_EULER = 0.5772156649


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure in one unit, as it is stored."""

    figure: str
    title: str
    unit: Unit
    x: str
    y: str
    series: list[dict[str, Any]]
    ours: Ratios
    paper: Ratios
    holds: bool
    reason: str = ""
    disk: Ratios = field(default_factory=dict)  # the counts once more, with the weights of a spinning disk

    def to_json(self) -> dict[str, Any]:
        return {name: _rounded(value) for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Draft:
    """A figure before it is given in one unit or the other."""

    figure: str
    x: str
    curves: Curves
    paper: Ratios
    title: Callable[[Ratios], str]
    ours: Callable[[Unit], Ratios]
    shape: Callable[[Unit, Ratios], bool]
    reason: Callable[[Unit, Ratios], str]
    value: Callable[[Measured, Unit], float] = field(default=lambda measured, unit: measured.rate(unit))
    y: Mapping[str, str] = field(default_factory=lambda: RATE_LABEL)
    weighable: bool = True  # its counts can be weighed as a disk would

    def in_units(self) -> list[Figure]:
        return [self._in(unit) for unit in UNITS]

    def _in(self, unit: Unit) -> Figure:
        ours = self.ours(unit)
        holds = self.shape(unit, ours)
        short = any(ours.get(name, 0.0) < ratio * 0.995 for name, ratio in self.paper.items())
        short |= any(name.startswith("best") and ours.get(name) != at for name, at in self.paper.items())
        reason = self.reason(unit, ours) if short or not holds else ""
        series = [
            {"name": name, "points": [self._point(x, measured, unit) for x, measured in curve.items()]}
            for name, curve in self.curves.items()
        ]
        title = self.title(ours)
        disk = self.ours("disk") if unit == "cost" and self.weighable else {}
        return Figure(self.figure, title, unit, self.x, self.y[unit], series, ours, self.paper, holds, reason, disk)

    def _point(self, x: float, measured: Measured, unit: Unit) -> dict[str, Any]:
        cost = measured.metrics.cost
        counts = {"tuples": measured.answered, "pages": cost.pages, "seeks": cost.seeks, "lookups": cost.lookups}
        counts |= {"front_probes": cost.front_probes, "steps": measured.metrics.steps, "shed": measured.metrics.shed}
        spent = {"seconds": measured.seconds, "read_seconds": measured.read_seconds} if unit == "time" else counts
        return {"x": x, "y": self.value(measured, unit), "hit_ratio": measured.hit_ratio, **spent}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return {name: _rounded(item) for name, item in value.items()} if isinstance(value, dict) else value


def over(curves: Curves, cached: str, plain: str, x: float, unit: str) -> float:
    """How many times the service rate of `plain` `cached` reaches."""
    return curves[cached][x].rate(unit) / curves[plain][x].rate(unit)


def best_hits(probability: np.ndarray, front_rows: int) -> float:
    """What a front stage that knew the frequencies beforehand would answer."""
    return hit_ratio(probability, front_rows)


def _at_paper_size(front_share: float) -> float:
    """The same at the paper's size, for a front stage that holds such a share of R; Zipf 1."""
    return float((np.log(front_share * PAPER_ROWS) + _EULER) / (np.log(PAPER_ROWS) + _EULER))


def why_front(
    unit: Unit, plain: Measured, cached: Measured, best: float, wanted: float, rows: int | None = None
) -> str:
    """What a front stage can spare at most, and where time goes instead. `rows`: of an R that Zipf 1 chooses from."""
    left = cached.capacity / plain.capacity if plain.capacity else 1.0
    disk = cached.rate("disk") / plain.rate("disk")
    probes = cached.metrics.cost.front_probes * UNIT_COSTS.front_probe_s / UNIT_COSTS.scan_page_s / cached.units()
    if unit == "time":
        return (
            f"Reading pages takes {plain.read_seconds / plain.seconds:.0%} of the time without a front stage and "
            f"{cached.read_seconds / cached.seconds:.0%} with one: pages are mapped memory here, a disk with seeks "
            f"there. The rest is work per tuple, per row and per step; a step takes "
            f"{plain.seconds / plain.metrics.steps * 1e3:.1f} ms without and "
            f"{cached.seconds / cached.metrics.steps * 1e3:.1f} ms with a front stage, which then also learns. "
            f"Counted with the weights of a spinning disk the ratio is {disk:.1f}."
        )
    larger = ""
    if rows is not None:
        bound = left / (1 - _at_paper_size(cached.front_rows / rows))
        larger = f" The same share of the paper's 100 M rows would allow {bound:.1f}."
    return (
        f"The front stage answers {cached.hit_ratio:.0%} of this stream; the {cached.front_rows:,} most frequent rows, "
        f"all that its memory holds, would answer {best:.0%}. With {left:.0%} of the queue left that allows "
        f"{left / max(1e-9, 1 - best):.1f} times fewer pages per tuple for a full scan; {wanted:g} would need "
        f"{1 - left / wanted:.0%} of hits.{larger} Probes are {probes:.0%} of the cost, pages being mapped memory; "
        f"with the weights of a spinning disk the ratio is {disk:.1f}."
    )
