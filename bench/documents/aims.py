"""What was wanted and what was measured, from the rows of one run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from bench.documents.data import SETS

Row = dict[str, Any]
Aim = dict[str, Any]
SIZE, LARGEST = 50_000, 500_000
_PAPERS = ("AG", "AG, all pairs")


def aims(rows: list[Row]) -> list[Aim]:
    """Every aim, met or not."""
    return [*_joins(rows), *_partitions(rows)]


def _aim(name: str, wanted: str, measured: float, met: bool, note: str = "") -> Aim:
    return {"name": name, "wanted": wanted, "measured": round(measured, 3), "met": met, "note": note}


def _joins(rows: list[Row]) -> Iterator[Aim]:
    least = {"NLJ, Python": 50, "HBJ, Python": 50, "NLJ, compiled": 3, "HBJ, compiled": 3, "Spark SQL": 10, "DuckDB": 1}
    for data in SETS:
        at_size = {row["method"]: row for row in rows if row["data"] == data and row.get("documents") == SIZE}
        for method, wanted in least.items():
            row = at_size[method]
            ours = row.get("fpj_seconds", at_size["FPJ"]["seconds"])
            # Only what was measured counts for an aim: a run that was stopped took at least so long.
            ratio = row["measured_seconds"] / ours
            note = "stopped at its time bound: a lower bound" if row.get("extrapolated") or row.get("at_least") else ""
            note += f"; extrapolated {row['seconds'] / ours:,.0f}" if row.get("extrapolated") else ""
            name = f"{data}: {method} over FPJ, time at 50,000 documents"
            yield _aim(name, f"at least {wanted}", ratio, ratio >= wanted, note)
        yield _growth(rows, data)


def _growth(rows: list[Row], data: str) -> Aim:
    """How time grows from 50,000 to 500,000 documents, over how documents and results grow."""
    ours = {row["documents"]: row for row in rows if (row["data"], row["method"]) == (data, "FPJ")}
    small, large = ours[SIZE], ours[LARGEST]
    input_growth = (large["documents"] + large["results"]) / (small["documents"] + small["results"])
    growth = large["seconds"] / small["seconds"] / input_growth
    name = f"{data}: growth of time over growth of documents plus results, 50,000 to 500,000"
    return _aim(name, "at most 1", growth, growth <= 1.0, "larger arrays miss the processor's caches more often")


def _cells(rows: list[Row], data: str, method: str, figure: str = "6-9") -> list[Row]:
    return [row for row in rows if row["figure"] == figure and row["data"] == data and row["method"] == method]


def _partitions(rows: list[Row]) -> Iterator[Aim]:
    for data, figure in (*((data, "6-9") for data in SETS), ("rwData", "10")):
        sets = "ideal " + data if figure == "10" else data
        for method in _PAPERS:
            ours, disjoint = _cells(rows, data, method, figure), _cells(rows, data, "DS", figure)
            worst = max(one["replication"] / other["replication"] for one, other in zip(ours, disjoint, strict=True))
            yield _aim(
                f"{sets}: {method}, replication over that of DS, worst setting", "at most 1.2", worst, worst <= 1.2
            )
            uneven = max(row["gini"] for row in ours if row["m"] >= 8)
            yield _aim(f"{sets}: {method}, Gini for m ≥ 8, worst setting", "at most 0.1", uneven, uneven <= 0.1)
            by_m = [row["maximal_load"] for row in sorted(ours, key=_m) if row["w"] == 6 and row["theta"] == 0.2]
            falling = all(later < earlier for earlier, later in pairwise(by_m))
            yield _aim(
                f"{sets}: {method}, maximal load falls with m (m = 20 over m = 5)",
                "falling",
                by_m[-1] / by_m[0],
                falling,
            )
        cover = min(row["replication"] / row["m"] for row in _cells(rows, data, "SC", figure))
        yield _aim(f"{sets}: SC, replication over m, least", "near 1 (at least 0.9)", cover, cover >= 0.9)
        heavy = min(row["maximal_load"] for row in _cells(rows, data, "DS", figure))
        yield _aim(f"{sets}: DS, maximal load, least", "nearly all at one joiner (at least 0.9)", heavy, heavy >= 0.9)
        for column, which in (("gini", "in the measured windows"), ("sample_gini", "of the sample it was made of")):
            skewed = min(row[column] for row in _cells(rows, data, "DS", figure))
            note = "documents sent everywhere even the loads out" if column == "gini" and skewed < 0.5 else ""
            name = f"{sets}: DS, Gini {which}, least"
            yield _aim(name, "unbalanced (at least 0.5)", skewed, skewed >= 0.5, note)


def _m(row: Row) -> int:
    return int(row["m"])
