"""The section of the performance page on overload."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.measured import AIM_HEAD, aim_cells
from bench.overload.plots import FILE
from bench.overload.results import HEAD, cells

Table = Callable[..., str]


def render(result: dict[str, Any], folder: Path, table: Table) -> str:
    """`folder`: where the results lie, as seen from the page."""
    parts = [
        "Events come at a multiple of what the masters' store sustains, ten waves a deadline apart; then it is quiet.",
        "\n".join(f"- *{name}*: {note}" for name, note in result["notes"].items()),
    ]
    if result["rows"]:
        parts += [f"![Served, seconds, freshness by arrivals]({folder / FILE})", table(HEAD, cells(result["rows"]))]
    parts += ["What was aimed at:", table(AIM_HEAD, aim_cells(result))]
    if result["not_measured"]:
        parts.append("\n".join(f"- not measured, {what}: {why}" for what, why in result["not_measured"].items()))
    return "\n\n".join(parts)
