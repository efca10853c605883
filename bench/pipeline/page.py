"""The section of the performance page on whole micro-batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.measured import AIM_HEAD, aim_cells
from bench.pipeline.plots import FILE
from bench.pipeline.results import AROUND

Result = dict[str, Any]
Table = Callable[..., str]


def render(result: Result, folder: Path, table: Table) -> str:
    """`folder`: where the results lie, as seen from the page."""
    rows = result["rows"]
    parts = [
        "One whole micro-batch, from landed files to the mart, each contender alone in a process.",
        "\n".join(f"- *{name}*: {note}" for name, note in result["notes"].items()),
    ]
    if rows:
        parts += [
            f"![Seconds by batch size, phases, history]({folder / FILE})",
            "Seconds per batch:",
            _grid(rows, table, lambda row: f"{row['seconds']:.2f}"),
            "What a batch costs: Spark jobs / stages, entries in Delta logs, MiB written to Delta and to the WAL:",
            _grid(rows, table, _cost),
            "Phases, seconds:",
            _phases(rows, table),
        ]
    if result["history"]:
        parts.append(_history(result["history"]))
    if result["freshness"]:
        parts += ["Through Airflow, from landing to mart:", _freshness(result["freshness"], table)]
    parts += ["What was aimed at:", table(AIM_HEAD, aim_cells(result))]
    if result["not_measured"]:
        parts.append("\n".join(f"- not measured, {what}: {why}" for what, why in result["not_measured"].items()))
    return "\n\n".join(parts)


def _grid(rows: list[dict[str, Any]], table: Table, value: Callable[[dict[str, Any]], str]) -> str:
    """Contenders and masters down, batch sizes across."""
    sizes = sorted({row["batch"] for row in rows})
    known = {(row["contender"], row["masters"], row["batch"]): row for row in rows}

    def line(name: str, masters: int) -> tuple[str, ...]:
        found = [known.get((name, masters, size)) for size in sizes]
        return (f"{name}, masters {masters:,}", *("" if row is None else value(row) for row in found))

    lines = [line(*who) for who in dict.fromkeys((row["contender"], row["masters"]) for row in rows)]
    return table(("", *(f"{size:,} orders" for size in sizes)), lines)


def _cost(row: dict[str, Any]) -> str:
    mib = " + ".join(f"{row[what] / 2**20:.1f}" for what in ("delta_bytes", "wal_bytes"))
    return f"{row['spark_jobs']} / {row['spark_stages']}, {row['log_entries']}, {mib}"


def _phases(rows: list[dict[str, Any]], table: Table) -> str:
    lines = [
        (
            f"{row['contender']}, masters {row['masters']:,}, {row['batch']:,} orders",
            ", ".join(f"{phase} {took:.2f}" for phase, took in row["phases"].items()),
        )
        for row in rows
    ]
    return table(("", "phases"), lines)


def _history(history: list[dict[str, Any]]) -> str:
    took = {row["number"]: row["seconds"] for row in history}
    shown = ", ".join(f"{number}: {took[number]:.2f} s" for number in (1, 10, 50, 100, 150, 200) if number in took)
    return (
        f"{len(history)} small batches in a row on one warehouse of ours, by number: {shown}. Medians of {AROUND} "
        "batches each are compared below."
    )


def _freshness(rows: list[dict[str, Any]], table: Table) -> str:
    lines = [
        (
            f"{row['batch']:,} orders every {row['every_s']:g} s",
            row["waves"],
            *(f"{row[p]:.1f}" for p in ("p50_s", "p95_s")),
        )
        for row in rows
    ]
    return table(("stream", "waves", "p50, s", "p95, s"), lines)
