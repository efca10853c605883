"""The section of the performance page on the paper's figures: one table of ratios, then every figure with its plot."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Result = dict[str, Any]
Table = Callable[..., str]
_ABOUT = """\
Each figure of the paper on semi-stream joins ("Skewed Distributions in Semi-Stream Joins: How much can Caching help?"),
once in *cost units* (pages read in order; seeks, lookups and probes weighed as in `etl/enrich/planning/cost.py`; the
same on every machine) and once in time, master pages on disk and mapped. Service rate is tuples joined per unit. Every
figure says whether its shape is the paper's; where a ratio is below the paper's, the reason stands beside it. The
paper's times come from a Java program, MySQL and a spinning disk, so the counts are weighed once more as such a disk
would (8.5 ms for a seek, then 100 MB/s)."""


def render(result: Result, results: Path, table: Table) -> str:
    figures = result.get("figures", [])
    names = list(dict.fromkeys(figure["figure"] for figure in figures))
    seconds = sum(result.get("seconds", {}).values())
    size = f"R = {result['rows']:,} rows of 120 bytes; {seconds / 60:.0f} minutes." if "rows" in result else ""
    overview = table(("figure", "ratio", "cost units", "counts on a disk", "time", "paper"), _ratios(figures, names))
    parts = [_ABOUT, size, overview]
    for name in names:
        parts.append(_figure(name, [figure for figure in figures if figure["figure"] == name], results))
    return "\n\n".join(part for part in parts if part)


def _ratios(figures: list[Result], names: Iterable[str]) -> Iterable[tuple[str, ...]]:
    for name in names:
        by_unit = {figure["unit"]: figure for figure in figures if figure["figure"] == name}
        ratios = dict.fromkeys(ratio for figure in by_unit.values() for ratio in figure["ours"])
        for ratio in ratios:
            yield (
                name, ratio,
                _number(by_unit.get("cost", {}).get("ours", {}).get(ratio)),
                _number(by_unit.get("cost", {}).get("disk", {}).get(ratio)),
                _number(by_unit.get("time", {}).get("ours", {}).get(ratio)),
                _number(next((figure["paper"].get(ratio) for figure in by_unit.values()), None)),
            )  # fmt: skip


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _figure(name: str, by_unit: list[Result], results: Path) -> str:
    title = next((figure["title"] for figure in by_unit if figure["unit"] == "cost"), by_unit[0]["title"])
    lines = [f"### {name}: {title}", f"![Figure {name}: {title}]({results.as_posix()}/figure-{name}.svg)"]
    for figure in by_unit:
        unit = {"cost": "In cost units", "time": "In time"}[figure["unit"]]
        shape = "the shape is the paper's" if figure["holds"] else "**the shape is not the paper's**"
        lines.append(f"{unit}: {shape}." + (f" {figure['reason']}" if figure["reason"] else ""))
    return "\n\n".join(lines)
