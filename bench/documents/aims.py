"""What was wanted and what was measured, from the rows of one run.

Wanted is what the specification says, of AG as it runs: "replication at most 1.2 × DS, Gini at most 0.1 for m = 8 and
more, maximal load falling with m; SC near m-fold replication, DS unbalanced". What the paper's own routing (all pairs)
measures here, and what new values do to DS, are remarks: with the reason, and without a judgement.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from bench.documents.data import SETS

Row = dict[str, Any]
Aim = dict[str, Any]
SIZE, LARGEST = 50_000, 500_000
MOST_SPREAD = 0.05  # windows of one size that differ by more are no measurement: a noisy machine passes nothing


def aims(rows: list[Row], scale: int = 1) -> list[Aim]:
    """Every aim, met or not; sizes were divided by `scale`."""
    return [*_joins(rows, SIZE // scale, LARGEST // scale), *_partitions(rows)]


def remarks(rows: list[Row]) -> list[Row]:
    """Figures beside the aims, each with its reason."""
    return [*_all_pairs(rows), *_evened(rows)]


def _executions() -> Iterator[tuple[str, str, str]]:
    """Name, data and figure of every execution that partitions are judged in."""
    yield from ((data, data, "6-9") for data in SETS)
    yield "ideal rwData", "rwData", "10"


def _all_pairs(rows: list[Row]) -> Iterator[Row]:
    for name, data, figure in _executions():
        ours, disjoint = _cells(rows, data, "AG, all pairs", figure), _cells(rows, data, "DS", figure)
        times, worst = max(
            ((one["replication"] / other["replication"], one) for one, other in zip(ours, disjoint, strict=True)),
            key=lambda found: found[0],
        )
        made = f"in the window they were made of already {worst['sample_replication']:.2f}"
        new = f"{worst['broadcast']:.0%} of documents have a new value and go everywhere"
        why = f"m = {worst['m']}: documents lie in several partitions, {made}; {new}; DS puts all at one joiner"
        yield {"name": f"{name}: AG by all pairs, as in the paper, replication over DS", "measured": times, "why": why}
        uneven = max((row for row in ours if row["m"] >= 8), key=lambda row: float(row["gini"]))
        made = f"{uneven['sample_gini']:.3f} in the window they were made of"
        why = f"m = {uneven['m']}: {made}; few large groups, many joiners"
        yield {"name": f"{name}: AG by all pairs, Gini for m ≥ 8", "measured": uneven["gini"], "why": why}


def _evened(rows: list[Row]) -> Iterator[Row]:
    for name, data, figure in _executions():
        least = min(_cells(rows, data, "DS", figure), key=lambda row: float(row["gini"]))
        new, made = (
            f"{least['broadcast']:.0%} of documents",
            f"{least['sample_gini']:.2f} in the window they were made of",
        )
        why = f"m = {least['m']}: {new} have a new value and go to every joiner, which evens loads out; {made}"
        yield {"name": f"{name}: DS, Gini of measured windows, least", "measured": least["gini"], "why": why}


def _aim(name: str, wanted: str, measured: float, met: bool, note: str = "") -> Aim:
    return {"name": name, "wanted": wanted, "measured": round(measured, 3), "met": met, "note": note}


def _joins(rows: list[Row], size: int, largest: int) -> Iterator[Aim]:
    least = {"NLJ, Python": 50, "HBJ, Python": 50, "NLJ, compiled": 3, "HBJ, compiled": 3, "Spark SQL": 10, "DuckDB": 1}
    for data in SETS:
        at_size = {row["method"]: row for row in rows if row["data"] == data and row.get("documents") == size}
        for method, wanted in least.items():
            row = at_size[method]
            ours = row.get("fpj_seconds", at_size["FPJ"]["seconds"])
            # Only what was measured counts for an aim: a run that was stopped took at least so long.
            ratio = row["measured_seconds"] / ours
            note = "stopped at its time bound: a lower bound" if row.get("extrapolated") or row.get("at_least") else ""
            note += f"; extrapolated {row['seconds'] / ours:,.0f}" if row.get("extrapolated") else ""
            name = f"{data}: {method} over FPJ, time at {size:,} documents"
            yield _aim(name, f"at least {wanted}", ratio, ratio >= wanted, note)
        yield _growth(rows, data, size, largest)


def _growth(rows: list[Row], data: str, size: int, largest: int) -> Aim:
    """How time grows from one size to ten times that, over how documents and results grow."""
    ours = {row["documents"]: row for row in rows if (row["data"], row["method"]) == (data, "FPJ")}
    small, large = ours[size], ours[largest]
    input_growth = (large["documents"] + large["results"]) / (small["documents"] + small["results"])
    growth = large["seconds"] / small["seconds"] / input_growth
    # Windows of one size are different documents: below what they differ by, a ratio tells nothing.
    differ = max(small.get("spread", 0.0), large.get("spread", 0.0))
    name = f"{data}: growth of time over growth of documents plus results, {size:,} to {largest:,}"
    notes = ["memory beyond the processor's caches costs more per byte"] if growth > 1.0 else []
    if differ > MOST_SPREAD:
        notes.append(f"windows of one size differ by more than ± {MOST_SPREAD:.0%}: measure on a quiet machine")
    wanted = f"at most 1 (windows of one size differ by ± {differ:.1%})" if differ else "at most 1"
    return _aim(name, wanted, growth, differ <= MOST_SPREAD and growth <= 1.0 + differ, "; ".join(notes))


def _cells(rows: list[Row], data: str, method: str, figure: str = "6-9") -> list[Row]:
    return [row for row in rows if row["figure"] == figure and row["data"] == data and row["method"] == method]


def _partitions(rows: list[Row]) -> Iterator[Aim]:
    for name, data, figure in _executions():
        yield from _association_groups(name, _cells(rows, data, "AG", figure), _cells(rows, data, "DS", figure))
        cover = min(row["replication"] / row["m"] for row in _cells(rows, data, "SC", figure))
        yield _aim(f"{name}: SC, replication over m, least", "near 1 (at least 0.9)", cover, cover >= 0.9)
        heavy = min(row["maximal_load"] for row in _cells(rows, data, "DS", figure))
        yield _aim(f"{name}: DS, maximal load, least", "nearly all at one joiner (at least 0.9)", heavy, heavy >= 0.9)
        skewed = min(row["sample_gini"] for row in _cells(rows, data, "DS", figure))
        yield _aim(f"{name}: DS, Gini of its partitions, least", "unbalanced (at least 0.5)", skewed, skewed >= 0.5)


def _association_groups(name: str, ours: list[Row], disjoint: list[Row]) -> Iterator[Aim]:
    times, worst = max(
        ((one["replication"] / other["replication"], one) for one, other in zip(ours, disjoint, strict=True)),
        key=lambda found: found[0],
    )
    lacking = f"{worst['broadcast']:.1%} of documents lack {worst['routing']} and go to all {worst['m']} joiners"
    note = "" if times <= 1.2 else f"{lacking}; DS has all documents at one joiner"
    yield _aim(f"{name}: AG, replication over that of DS, worst setting", "at most 1.2", times, times <= 1.2, note)
    uneven = max(row["gini"] for row in ours if row["m"] >= 8)
    yield _aim(f"{name}: AG, Gini for m ≥ 8, worst setting", "at most 0.1", uneven, uneven <= 0.1)
    by_m = [row["maximal_load"] for row in sorted(ours, key=_m) if row["w"] == 6 and row["theta"] == 0.2]
    falling = all(later < earlier for earlier, later in pairwise(by_m))
    yield _aim(f"{name}: AG, maximal load falls with m (m = 20 over m = 5)", "falling", by_m[-1] / by_m[0], falling)


def _m(row: Row) -> int:
    return int(row["m"])
