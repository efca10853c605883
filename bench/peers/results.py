"""From seconds to ratios, and whether they are what was asked for.

ratio of a contender   its seconds / seconds of `auto` in the same cell: above 1, `auto` is ahead
share of the limit     seconds of `identity` / seconds of `auto`: 1 would be as fast as moving the orders alone
growth                 seconds at the larger R / seconds at the smaller R, same batch, same skew
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.measured import aim, aim_line
from bench.peers.measure import Row
from bench.peers.plan import MEMORY_SHARE

SMALL, LARGE = 50_000, 1_000_000
AHEAD = {
    ("spark-jdbc", SMALL): 60.0,
    ("spark-jdbc", LARGE): 24.0,
    ("spark-delta", SMALL): 15.0,
    ("spark-delta", LARGE): 14.0,
    ("spark-cached", SMALL): 12.0,
    ("spark-cached", LARGE): 13.0,
}
"""How far `auto` has to be ahead at Zipf 1, the learning between its batches included."""
OF_LIMIT = 0.6
GROWTH = 1.5


def ratios(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """For every cell with `auto`: everybody's seconds over its own."""
    seconds = {(row["batch"], row["zipf"], row["contender"]): float(row["seconds"]) for row in rows}
    found = []
    for batch, zipf in dict.fromkeys((row["batch"], row["zipf"]) for row in rows):
        own = seconds.get((batch, zipf, "auto"))
        if own:
            others = {name: took / own for (*cell, name), took in seconds.items() if cell == [batch, zipf]}
            found.append({"batch": batch, "zipf": zipf, "over_auto": {k: round(v, 3) for k, v in others.items()}})
    return found


def grown(growth: Sequence[Row]) -> list[dict[str, Any]]:
    """What a larger R costs, cell by cell."""
    cells: dict[tuple[Any, ...], dict[int, float]] = {}
    for row in growth:
        cell = (row["contender"], row["batch"], row["zipf"])
        cells.setdefault(cell, {})[row["rows_in_master"]] = float(row["seconds"])
    return [
        {"contender": name, "batch": batch, "zipf": zipf, "ratio": round(took[max(took)] / took[min(took)], 3)}
        for (name, batch, zipf), took in cells.items()
        if len(took) > 1
    ]


def aims(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Each thing asked for with what was measured. Cells that were not measured are left out."""
    found = []
    over = {(cell["batch"], cell["zipf"]): cell["over_auto"] for cell in result["ratios"]}
    for (peer, batch), wanted in AHEAD.items():
        if peer in over.get((batch, 1.0), {}):
            found.append(aim(f"{peer} / auto, {batch:,} orders, Zipf 1", over[batch, 1.0][peer], least=wanted))
        if peer in over.get((batch, 0.0), {}):
            found.append(aim(f"{peer} / auto, {batch:,} orders, Zipf 0", over[batch, 0.0][peer], least=1.0))
    if "identity" in over.get((LARGE, 1.0), {}):
        found.append(aim(f"identity / auto, {LARGE:,} orders, Zipf 1", over[LARGE, 1.0]["identity"], least=OF_LIMIT))
    for cell in grown(result["growth"]):
        found.append(aim(f"growth of R, {cell['batch']:,} orders, Zipf {cell['zipf']:g}", cell["ratio"], most=GROWTH))
    held = [row["memory_bytes"] for row in result["rows"] if row["contender"] == "auto"]
    if held:
        share = max(held) / result["bytes_of_master"]
        found.append(aim("memory of auto / R", round(share, 4), most=MEMORY_SHARE))
    return found


def table(result: dict[str, Any]) -> str:
    """The result for people: seconds by contender and cell, then the aims."""
    cells = list(dict.fromkeys((row["batch"], row["zipf"]) for row in result["rows"]))
    seconds = {(row["contender"], row["batch"], row["zipf"]): row["seconds"] for row in result["rows"]}
    names = list(dict.fromkeys(row["contender"] for row in result["rows"]))
    lines = [" " * 14 + "".join(f"{batch // 1000:>6}k z{zipf:<4g}" for batch, zipf in cells)]
    for name in names:
        known = [seconds.get((name, *cell)) for cell in cells]
        lines.append(f"{name:<14}" + "".join(" " * 12 if took is None else f"{took:>10.3f} s" for took in known))
    return "\n".join([*lines, *map(aim_line, result["aims"])])
