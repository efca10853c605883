"""The measured part of docs/correlations-queries.md, between its two marks; the rest is written by hand."""

from __future__ import annotations

import re
from typing import Any

from bench.page import PROJECT, machine, table

PAGE = PROJECT / "docs" / "correlations-queries.md"
_MARKED = re.compile(r"(<!-- measured -->\n).*(<!-- end of measured -->)", re.DOTALL)
Row = dict[str, Any]
_TITLES = {
    "16": "Bytes of tuples and indexes (figure 16; the paper's grow with queries, indexes more than tuples)",
    "17": "Distinct keys and selectivity (figure 17; the paper: fewer keys and weaker selections are slower)",
    "20a": "Two- to five-way joins (figure 20a; the paper drops most from two to three)",
    "20c": "Query groups (figure 20c; the paper falls with more groups, ever less)",
    "20d": "Similarity (figure 20d; the paper rises with it)",
    "22a": "How many queries want a tuple (figure 22a; the paper: grouping pays where little is shared)",
}


def write(result: dict[str, Any]) -> None:
    """Put the tables of a result into the page."""
    text = PAGE.read_text()
    PAGE.write_text(_MARKED.sub(lambda marks: marks[1] + measured(result) + "\n" + marks[2], text))


def measured(result: dict[str, Any]) -> str:
    """The tables, each under what it shows."""
    rows = result["rows"]
    parts = [machine(result), "### Aims", _aims(result["aims"])]
    parts += [
        "### Overall tuples per second (figure 15; the paper: 2.04 M and Flink 0.1 M for one query)",
        _speeds(rows),
    ]
    parts += ["### Where the time of a micro-batch goes (figure 19)", _breakdown(rows)]
    for figure, title in _TITLES.items():
        some = [row for row in rows if row["figure"] == figure]
        if some:
            parts += [f"### {title}", _figure(some)]
    off = [row for row in rows if row["figure"] == "21"]
    if off:
        cells = [(row["series"], row["queries"], row["ways"], f"{row['times_everything']:.2f}") for row in off]
        parts += ["### One part switched off (figure 21)", table(("setting", "queries", "ways", "CPU time"), cells)]
    return "\n\n".join(parts) + "\n"


def _aims(aims: list[Row]) -> str:
    cells = [(aim["name"], aim["wanted"], f"{aim['measured']:,.3g}", "yes" if aim["met"] else "**no**") for aim in aims]
    return table(("aim", "wanted", "measured", "met"), cells)


def _speeds(rows: list[Row]) -> str:
    some = [row for row in rows if row["figure"] == "15"]
    counts = sorted({row["queries"] for row in some})
    lines = []
    for series in dict.fromkeys(row["series"] for row in some):
        found = {row["queries"]: row for row in some if row["series"] == series}
        lines.append((series, *(_speed(found.get(count)) for count in counts)))
    note = "*≈* some of the queries were measured and the time taken in proportion."
    return table(("M tuples/s", *(f"{count} queries" for count in counts)), lines) + "\n\n" + note


def _speed(row: Row | None) -> str:
    if row is None:
        return ""
    estimated = "≈ " if row.get("measured_queries", row["queries"]) < row["queries"] else ""
    return f"{estimated}{row['overall_tuples_per_s'] / 1e6:.2f}"


def _breakdown(rows: list[Row]) -> str:
    names = ("ingest_s", "correlate_s", "joins_s", "load_s")
    some = [row for row in rows if row["figure"] == "15" and "joins_s" in row]
    cells = [(row["queries"], *(f"{row[name]:.3f}" for name in names)) for row in some]
    return table(("queries", "fix input, s", "read, join, decide, s", "of it joins, s", "publish, s"), cells)


def _figure(rows: list[Row]) -> str:
    cells = [
        (row["series"], row["x"], row["queries"], f"{row['overall_tuples_per_cpu_s'] / 1e6:.1f}",
         f"{row['bytes_per_query'] / 1e6:.2f}", row["groups"])
        for row in rows
    ]  # fmt: skip
    return table(("series", "x", "queries", "M tuples per CPU s", "MB a query", "components"), cells)
