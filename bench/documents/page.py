"""The measured part of docs/correlations-documents.md, between its two marks; the rest is written by hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from bench.page import PROJECT, machine, table

PAGE = PROJECT / "docs" / "correlations-documents.md"
_MARKED = re.compile(r"(<!-- measured -->\n).*(<!-- end of measured -->)", re.DOTALL)
Row = dict[str, Any]


def write(result: dict[str, Any], page: Path = PAGE) -> None:
    """Put the tables of a result into the page, or into a copy of it."""
    text = PAGE.read_text()
    page.write_text(_MARKED.sub(lambda marks: marks[1] + measured(result) + "\n" + marks[2], text))


def measured(result: dict[str, Any]) -> str:
    """The tables, each with a line that says what it shows."""
    rows = result["rows"]
    parts = [
        machine(result), _when(result), "### Aims", _aims(result["aims"]), _remarks(result.get("remarks", [])),
        "### Local join, seconds (figure 11)", _times(rows), "![figure 11](../bench/results/documents-figure-11.svg)",
        "### Partitions (figures 6 to 9)",
        "Means over six windows after the one that the partitions were made of. *Sample* is that first window.",
        _partitions([row for row in rows if row["figure"] == "6-9"]),
        *(f"![figure {number}](../bench/results/documents-figure-{number}.svg)" for number in (6, 7, 8, 9)),
        "### Ideal execution (figure 10)", "The same window again and again, one document in a hundred new.",
        _partitions([row for row in rows if row["figure"] == "10"]),
        "![figure 10](../bench/results/documents-figure-10.svg)",
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part) + "\n"


def _when(result: dict[str, Any]) -> str:
    """When each part was measured: parts may be of different runs."""
    parts = result.get("parts")
    if not isinstance(parts, dict):  # kept before parts had times of their own
        return ""
    told = [f"*{name}* {one['at']}, {one['seconds']:,.0f} s" for name, one in parts.items()]
    return "By part, begun at and measured for: " + "; ".join(told) + "."


def _aims(aims: list[Row]) -> str:
    cells = [
        (aim["name"], aim["wanted"], f"{aim['measured']:,.3g}", "yes" if aim["met"] else "**no**", aim["note"])
        for aim in aims
    ]
    return table(("aim", "wanted", "measured", "met", "note"), cells)


def _remarks(remarks: list[Row]) -> str:
    """What the paper's own routing measures here, and what new values do to DS."""
    cells = [(one["name"], f"{one['measured']:,.3g}", one["why"]) for one in remarks]
    return "Beside the aims:\n\n" + table(("figure", "measured", "why"), cells) if cells else ""


def _times(rows: list[Row]) -> str:
    timed = [row for row in rows if row["figure"] in ("11", "SQL")]
    sizes = sorted({row["documents"] for row in timed})
    lines = []
    for data, method in dict.fromkeys((row["data"], row["method"]) for row in timed):
        found = {row["documents"]: row for row in timed if (row["data"], row["method"]) == (data, method)}
        lines.append((f"{data}, {method}", *(_seconds(found.get(size)) for size in sizes)))
    found_pairs = [
        (f"{data}, pairs found",
         *(f"{row['results']:,}" if (row := _ours(timed, data, size)) else "" for size in sizes))
        for data in dict.fromkeys(row["data"] for row in timed)
    ]  # fmt: skip
    note = "*≈* extrapolated from what was done within the time bound; *>* stopped there."
    return table(("seconds", *(f"{size:,}" for size in sizes)), [*lines, *found_pairs]) + "\n\n" + note


def _ours(rows: list[Row], data: str, size: int) -> Row | None:
    return next((r for r in rows if (r["data"], r["method"], r["documents"]) == (data, "FPJ", size)), None)


def _seconds(row: Row | None) -> str:
    if row is None:
        return ""
    mark = "≈ " if row.get("extrapolated") else "> " if row.get("at_least") else ""
    return mark + (f"{row['seconds']:,.0f}" if row["seconds"] >= 100 else f"{row['seconds']:.3g}")


def _partitions(rows: list[Row]) -> str:
    head = ("data, method", "m", "w", "θ", "replication", "maximal load", "Gini", "repartitions", "sample replication",
            "sample Gini", "routed by")  # fmt: skip
    return table(head, [
        (f"{row['data']}, {row['method']}", row["m"], row["w"], row["theta"], f"{row['replication']:.2f}",
         f"{row['maximal_load']:.2f}", f"{row['gini']:.3f}", f"{row['repartitions']:.0%}",
         f"{row['sample_replication']:.2f}", f"{row['sample_gini']:.3f}", _routed_by(row))
        for row in rows
    ])  # fmt: skip


def _routed_by(row: Row) -> str:
    return f"{row['routing']}, else {row['meeting']}" if row.get("meeting") else str(row["routing"])
