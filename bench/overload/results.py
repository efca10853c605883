"""From rows to aims: what was asked for, what was measured, and whether that is it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bench.measured import aim, aim_line
from bench.overload.cell import slope
from bench.pipeline.results import quotient

Row = dict[str, Any]
PAPERS_RATIO = 3.1
"""What consider-then-shed serves against shedding upfront, as the paper measured it."""
NOTES = {
    "w": "events that a batch serves in time, as the pipeline plans after a warm-up: what the store sustains",
    "postgres": "rows looked up in Postgres, slowed to 2 ms a key: a database far away that others use, too",
    "pages": "published pages, slowed to 8 ms each: a cold disk that has to seek",
    "consider": "what the front stage knows is served, reading goes to keys that most events wait for (best-first) or "
    "to the paper's place in the queue (position), the rest is shed to the backlog",
    "keep": "the first w events are served, the others shed unseen",
    "none": "nothing is shed; a cell ends when its batches have taken longer than the waves by far",
    "time": "virtual where nothing happens; a batch takes as long as it takes, in one process, audit and mart included",
    "drain": "after the last wave, until nothing waits; with ~ time was up, and what was left is divided by the pace",
}


DRAINED = ("best-first", 2)
"""Policy and arrivals of the cells that are drained until nothing waits."""


def aims(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Every aim with what was measured for it, over all stores: the worst counts."""
    ten = {(row["store"], row["policy"]): row for row in rows if row["times"] == 10}
    stores = sorted({row["store"] for row in rows})
    considered = [ten.get((store, "best-first")) for store in stores]
    either = [ten.get((store, policy)) for store in stores for policy in ("best-first", "position")]
    return [
        aim("slowest batch at 10 ×, in deadlines (consider, either rule)",
            _worst(max, (row and row["slowest_over_deadline"] for row in either)), most=1.5),
        *(aim(f"served by consider ({policy}) / served by keep, at 10 ×, {store}",
              _ratio(ten.get((store, policy)), ten.get((store, "keep"))), least=PAPERS_RATIO)
          for store in stores for policy in ("best-first", "position")),
        aim("what freshness p95 gains per batch at 10 ×, in deadlines (consider, best-first)",
            _worst(max, (row and _gained(row) for row in considered)), most=0.1),
        aim("seconds until nothing waits after ten waves of 2 × (consider, best-first), in deadlines",
            _worst(max, (_drained(row) for row in rows if (row["policy"], row["times"]) == DRAINED)),
            most=20.0),
        aim("memory at 10 × / memory at 1 × (consider, best-first)",
            _worst(max, (_memory(rows, store) for store in stores)), most=1.25),
    ]  # fmt: skip


def _worst(pick: Any, values: Iterable[float | None]) -> float | None:
    """The worst of all; nothing when one was not measured."""
    found = list(values)
    return None if not found or None in found else round(float(pick(found)), 3)


def _ratio(above: Row | None, below: Row | None) -> float | None:
    return quotient(above and above["served_per_s"], below and below["served_per_s"])


def _gained(row: Row) -> float:
    """Of p95, per batch, from the second one on: the first has no past."""
    fresh = [one["fresh_p95_s"] for one in row["batches"][1:] if one["fresh_p95_s"] is not None]
    return slope(fresh) / float(row["deadline_s"])


def _drained(row: Row) -> float | None:
    seconds = None if row["drain"]["estimated"] else row["drain"]["seconds"]
    return None if seconds is None else float(seconds) / float(row["deadline_s"])


def _memory(rows: Sequence[Row], store: str) -> float | None:
    mine = {row["times"]: row["rss_mib"] for row in rows if (row["store"], row["policy"]) == (store, "best-first")}
    return quotient(mine.get(10), mine.get(1))


HEAD = (
    "store",
    "policy",
    "arrivals",
    "served / s",
    "of w",
    "slowest / deadline",
    "fresh p95, last",
    "left",
    "drain, s",
)


def cells(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """One line per cell, for tables."""
    return [
        (
            row["store"], row["policy"], f"{row['times']} ×", f"{row['served_per_s']:,.0f}",
            f"{row['served_per_s'] * row['deadline_s'] / row['w']:.2f}", f"{row['slowest_over_deadline']:.2f}",
            _shown(row["batches"][-1]["fresh_p95_s"]), f"{row['left_after_load']:,}",
            ("~" if row["drain"]["estimated"] else "") + _shown(row["drain"]["seconds"]),
        )
        for row in rows
    ]  # fmt: skip


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def table(result: dict[str, Any]) -> str:
    """The result for people."""
    lines = ["".join(f"{one:>19}" for one in HEAD)]
    lines += ["".join(f"{one:>19}" for one in row) for row in cells(result["rows"])]
    lines += map(aim_line, result["aims"])
    return "\n".join([*lines, *(f"NOT MEASURED {what}: {why}" for what, why in result["not_measured"].items())])
