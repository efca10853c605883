"""A figure as a value: panels with their series, what the paper says about it, and whether ours says the same."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

Series = dict[str, dict[float, float]]


@dataclass(frozen=True)
class Panel:
    title: str
    x: str
    y: str
    series: Series
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Figure:
    """`claims` are the paper's statements, each with what was found here and whether it holds."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    claims: tuple[tuple[str, str, bool], ...]

    @property
    def holds(self) -> bool:
        return all(held for _, _, held in self.claims)

    def to_json(self) -> dict[str, Any]:
        fields = asdict(self)
        for panel in fields["panels"]:
            panel["series"] = [
                {"name": name, "points": [{"x": x, "y": y} for x, y in points.items()]}
                for name, points in panel["series"].items()
            ]
        claims = [{"paper": paper, "ours": ours, "holds": held} for paper, ours, held in self.claims]
        return fields | {"claims": claims, "holds": self.holds}


def aim(name: str, wanted: str, measured: float | str, met: bool) -> dict[str, Any]:
    return {"name": name, "wanted": wanted, "measured": measured, "met": met}
