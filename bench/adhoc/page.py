"""The measured part of docs/correlations-queries.md, between its two marks; the rest is written by hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from bench.adhoc import plots
from bench.page import PROJECT, machine, table

PAGE = PROJECT / "docs" / "correlations-queries.md"
_MARKED = re.compile(r"(<!-- measured -->\n).*(<!-- end of measured -->)", re.DOTALL)
Row = dict[str, Any]
_TITLES = {
    "16": "Bytes of tuples and indexes (figure 16; the paper's grow with queries, indexes more than tuples)",
    "17": "Distinct keys and selectivity (figure 17; the paper's is slower with more keys and weaker selections)",
    "20a": "Two- to five-way joins (figure 20a; the paper drops most from two to three)",
    "20c": "Query groups (figure 20c; the paper falls with more groups, ever less)",
    "20d": "Similarity (figure 20d; the paper rises with it)",
    "22a": "How many queries want a tuple (figure 22a; the paper: grouping pays where little is shared)",
}


def write(result: dict[str, Any], page: Path = PAGE) -> None:
    """Put the tables of a result into the page, or into a copy of it."""
    text = PAGE.read_text()
    page.write_text(_MARKED.sub(lambda marks: marks[1] + measured(result) + "\n" + marks[2], text))


def measured(result: dict[str, Any]) -> str:
    """The tables, each under what it shows."""
    rows = result["rows"]
    parts = [machine(result), "### Aims", _aims(result["aims"])]
    if result["not_measured"]:
        stopped = (f"- not measured in full: {name} {reason}" for name, reason in result["not_measured"].items())
        parts.append("\n".join(stopped))
    parts += [
        "### Overall tuples per second (figure 15; the paper: 2.04 M and Flink 0.1 M for one query)",
        _image("15"),
        _speeds(rows),
    ]
    parts += ["### Where the time of a micro-batch goes (figure 19)", _image("19"), _breakdown(rows)]
    parts += _changed(rows)
    for figure, title in _TITLES.items():
        some = [row for row in rows if row["figure"] == figure]
        if some:
            parts += [f"### {title}", _image(figure), _held(some) if figure == "16" else _figure(some)]
    off = [row for row in rows if row["figure"] == "21"]
    if off:
        cells = [(row["series"], row["queries"], row["ways"], f"{row['times_everything']:.2f}") for row in off]
        parts += [
            "### One part switched off (figure 21)",
            _image("21"),
            table(("setting", "queries", "ways", "CPU time"), cells),
        ]
    return "\n\n".join(parts) + "\n"


def _image(figure: str) -> str:
    return f"![Figure {figure}](../bench/results/{plots.file_name(figure)})"


def _changed(rows: list[Row]) -> list[str]:
    """What queries that come and go cost, and idle ones."""
    parts = []
    for row in (row for row in rows if row["figure"] == "changes"):
        parts += [
            "### Queries that come and go",
            f"{row['changes']} changes, {row['changes_per_s']:.1f} a second: {row['seconds_changing']:.3f} s a "
            f"micro-batch, {row['seconds_quiet']:.3f} s without. From request to the decision of the first batch with "
            f"it: {row['deployment_s_median']:.2f} s in the middle, {row['deployment_s_most']:.2f} s at most.",
        ]
    deployed = [
        (row["series"], row["x"], row["queries"], f"{row['seconds_per_batch']:.2f}", f"{row['deployment_s_mean']:.2f}",
         f"{row['deployment_s_most']:.2f}") for row in rows if row["figure"] == "18b"
    ]  # fmt: skip
    if deployed:
        head = ("queries come", "streams", "queries", "s a micro-batch", "in effect after, s", "at most, s")
        parts += [
            "### From request to effect (figure 18b; the paper: longer with more streams)",
            _image("18b"),
            table(head, deployed),
        ]
    idle = [(row["series"], row["idle"], f"{row['seconds_ten']:.4f}", f"{row['seconds_thousand']:.4f}",
             f"{row['ratio']:.2f}") for row in rows if row["figure"] == "idle"]  # fmt: skip
    if idle:
        head = ("micro-batches of 10,000 tuples", "idle queries", "ten queries alone, s", "with idle ones, s", "ratio")
        parts += ["### Idle queries", table(head, idle)]
    return parts


def _aims(aims: list[Row]) -> str:
    cells = [
        (aim["name"], aim["wanted"], "not measured" if aim["measured"] is None else f"{aim['measured']:,.3g}",
         "yes" if aim["met"] else "**no**")
        for aim in aims
    ]  # fmt: skip
    return table(("aim", "wanted", "measured", "met"), cells)


def _speeds(rows: list[Row]) -> str:
    some = [row for row in rows if row["figure"] == "15"]
    counts = sorted({row["queries"] for row in some})
    lines = []
    for series in dict.fromkeys(row["series"] for row in some):
        found = {row["queries"]: row for row in some if row["series"] == series}
        lines.append((series, *(_speed(found.get(count)) for count in counts)))
    note = "*≈* some of the queries were measured and the time taken in proportion."
    return table(("M tuples/s", *(f"{count} at once" for count in counts)), lines) + "\n\n" + note


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


def _held(rows: list[Row]) -> str:
    cells = [
        (row["queries"], *(f"{row[name] / 1e6:.2f}" for name in ("tuple_bytes", "index_bytes", "bytes_per_query")))
        for row in rows
    ]
    return table(("queries", "MB of tuples", "MB of indexes", "MB a query, with all that is shared"), cells)


def _figure(rows: list[Row]) -> str:
    cells = [
        (row["series"], row["x"], row["queries"], f"{row['overall_tuples_per_cpu_s'] / 1e6:.1f}",
         f"{row['bytes_per_query'] / 1e6:.2f}", row["groups"])
        for row in rows
    ]  # fmt: skip
    return table(("series", "x", "queries", "M tuples per CPU s", "MB a query", "components"), cells)
