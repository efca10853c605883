"""The measured part of docs/correlations.md, between its two marks; the rest is written by hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from bench.page import PROJECT, machine, table

PAGE = PROJECT / "docs" / "correlations.md"
_MARKED = re.compile(r"(<!-- measured -->\n).*(<!-- end of measured -->)", re.DOTALL)
Row = dict[str, Any]


def write(result: dict[str, Any], page: Path = PAGE) -> None:
    """Put the tables of a result into the page."""
    text = page.read_text()
    page.write_text(_MARKED.sub(lambda marks: marks[1] + measured(result) + "\n" + marks[2], text))


def measured(result: dict[str, Any]) -> str:
    """Aims, whole micro-batches beside the peers, and every figure of the paper with what differs and why."""
    peers = [row for row in result["rows"] if row["figure"] == "peers"]
    figures = {one["figure"]: one for one in result["figures"]}
    parts = [machine(result), "### Aims", _aims(result["aims"])]
    if peers:
        parts += ["### Whole micro-batches on Spark", figures["peers"]["reason"], _peers(peers)]
        parts += [
            table(("ratio", "times"), [(name, f"{value:,.3g}") for name, value in figures["peers"]["ours"].items()])
        ]
        parts += ["![thousand tuples per second by condition and window](../bench/results/figure-biclique-peers.svg)"]
    parts += ["### The paper's figures", result["simulated"][0].upper() + result["simulated"][1:] + "."]
    for name, one in figures.items():
        if name != "peers":
            parts += [f"**{name}.** {one['title']}.", _ratios(one), one["reason"],
                      f"![figure {name}](../bench/results/figure-biclique-{name}.svg)"]  # fmt: skip
    return "\n\n".join(part for part in parts if part) + "\n"


def _aims(aims: list[Row]) -> str:
    cells = [(aim["name"], aim["wanted"], f"{aim['measured']:,.4g}", "yes" if aim["met"] else "**no**") for aim in aims]
    return table(("aim", "wanted", "measured", "met"), cells)


def _peers(rows: list[Row]) -> str:
    """Thousand tuples per second, a line per contender."""
    columns = list(dict.fromkeys(row["x"] for row in rows))
    found = {(row["series"], row["x"]): row for row in rows}
    lines = [
        (f"`{name}`", *(_rate(found.get((name, column))) for column in columns))
        for name in dict.fromkeys(row["series"] for row in rows)
    ]
    return table(("thousand tuples per second", *columns), lines)


def _rate(row: Row | None) -> str:
    if row is None:
        return ""
    return f"{'< ' if row['stopped'] else ''}{row['y']:,.1f}"


def _ratios(one: Row) -> str:
    """Our ratios beside the paper's."""
    names = [name for name in one["ours"] if name in one["paper"]]
    cells = [(name, f"{one['ours'][name]:,.3g}", f"{one['paper'][name]:,.3g}") for name in names]
    return table(("", "ours", "the paper's"), cells) if cells else ""
