"""The section of the performance page on peers: seconds, ratios of `auto`, memory, and what was aimed at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Result = dict[str, Any]
Table = Callable[..., str]
SMALL, LARGE = 50_000, 1_000_000
PEERS = ("spark-jdbc", "spark-delta", "spark-cached")
AHEAD = {"spark-jdbc": (30.0, 15.0), "spark-delta": (15.0, 12.0), "spark-cached": (5.0, 10.0)}
"""How far ahead of each peer `auto` has to be at Zipf 1: with small batches, with large ones."""
OF_LIMIT, GROWTH = 0.60, 1.5
MISSED = "**not met**"


def render(result: Result, table: Table) -> str:
    rows = result.get("rows", [])
    cells = sorted({(row["batch"], row["zipf"]) for row in rows})
    names = list(dict.fromkeys(row["contender"] for row in rows))
    known = {(row["contender"], row["batch"], row["zipf"]): row for row in rows}
    head = ("", *(f"{batch:,}, Zipf {zipf:g}" for batch, zipf in cells))

    def lines(value: Callable[[str, tuple[int, float]], str]) -> list[tuple[str, ...]]:
        return [(f"`{name}`", *(value(name, cell) for cell in cells)) for name in names]

    def seconds(name: str, cell: tuple[int, float]) -> str:
        return f"{known[name, *cell]['seconds']:.3f}" if (name, *cell) in known else ""

    def ratio(name: str, cell: tuple[int, float]) -> str:
        both = (name, *cell) in known and ("auto", *cell) in known
        return f"{known[name, *cell]['seconds'] / known['auto', *cell]['seconds']:.1f}" if both else ""

    def memory(name: str, cell: tuple[int, float]) -> str:
        held = known.get((name, *cell), {}).get("memory_bytes")
        return "" if held is None else f"{held / 2**20:,.0f}"

    size = f"{result['rows_in_master']:,}" if "rows_in_master" in result else "?"
    return "\n\n".join(
        [
            f"One run, R = {size} rows. Batches of orders, by size and skew.",
            *([conditions(result["notes"])] if result.get("notes") else []),
            "Seconds per batch:", table(head, lines(seconds)),
            "How many times as long as `auto`:", table(head, lines(ratio)),
            "Memory held, MiB:", table(head, lines(memory)),
            *([transport(result["transport"], known)] if result.get("transport") else []),
            "What was aimed at:", table(("target", "wanted", "measured", ""), targets(result)),
            *([short] if (short := shortfall(result, known)) else []),
        ]
    )  # fmt: skip


def conditions(notes: Mapping[str, str]) -> str:
    """How the run was made, and what disturbed it."""
    return "\n".join(f"- *{name}*: {note}" for name, note in notes.items())


def transport(rows: list[dict[str, Any]], known: Mapping[tuple[str, int, float], dict[str, Any]]) -> str:
    """What of `auto`'s time is moving rows, which no join could save: the same way, with nobody joining."""

    def told(name: str) -> str:
        found = []
        for row in rows:
            own = known.get(("auto", row["batch"], row["zipf"]))
            if own is not None and row["contender"] == name and row["zipf"] == 1.0:
                share = row["seconds"] / own["seconds"]
                found.append(f"{row['batch']:,} orders {row['seconds']:.3f} s, {share:.0%} of `auto`'s time")
        return "; ".join(found)

    return (
        "`identity` is `mapInArrow` as Spark comes. Our session turns off what Spark does there for every single row "
        f"(it adds up the bytes of all columns), and identity in it takes, Zipf 1: {told('identity-tuned')}. It moves "
        "thin orders both ways; a join has to send rows as wide as the joined ones back. Rows of that width moved "
        f"in our session with no join at all: {told('transport')}."
    )


def shortfall(result: Result, known: Mapping[tuple[str, int, float], dict[str, Any]]) -> str:
    """Why aims of large batches are missed, when they are: where the time goes."""
    cell = (LARGE, 1.0)
    moved = {(row["contender"], row["batch"], row["zipf"]): row["seconds"] for row in result.get("transport", [])}
    missed = [line for line in targets(result) if line[3] == MISSED]
    if not missed or ("transport", *cell) not in moved or ("auto", *cell) not in known:
        return ""
    own, wide = known["auto", *cell]["seconds"], moved["transport", *cell]
    return (
        f"Where the time goes. Of the {own:.2f} s that `auto` takes for {LARGE:,} orders at Zipf 1, {wide:.2f} s go "
        "into moving orders to Python and joined rows back: the JVM writes every order into Arrow, and turns every "
        f"joined row of 142 bytes into a Spark row. The rest, {own - wide:.2f} s on two cores, is the engine: probing "
        "the front stage, looking up the quarter of the orders that it does not know (about a microsecond each, a "
        "dozen places in memory per row), and copying the strings."
    )


def targets(result: Result) -> list[tuple[str, str, str, str]]:
    """Every aim with what was measured for it; a cell that was not measured says so."""
    took = {(row["contender"], row["batch"], row["zipf"]): row["seconds"] for row in result.get("rows", [])}

    def over(name: str, batch: int, zipf: float) -> float | None:
        own, other = took.get(("auto", batch, zipf)), took.get((name, batch, zipf))
        return other / own if own and other else None

    found = []
    for name, wanted in AHEAD.items():
        for batch, least in zip((SMALL, LARGE), wanted, strict=True):
            got = over(name, batch, 1.0)
            found.append(_line(f"ahead of `{name}`, {batch:,} orders, Zipf 1", f"≥ {least:g}×", got, least=least))
    for name in PEERS:
        for batch in (SMALL, LARGE):
            got = over(name, batch, 0.0)
            found.append(_line(f"ahead of `{name}`, {batch:,} orders, Zipf 0", "> 1×", got, least=1.0))
    limit = over("identity", LARGE, 1.0)
    found.append(_line(f"share of the `identity` limit, {LARGE:,} orders, Zipf 1", "≥ 0.6", limit, least=OF_LIMIT))
    return found + _growth(result)


def _growth(result: Result) -> list[tuple[str, str, str, str]]:
    cells: dict[tuple[str, int, float], dict[int, float]] = {}
    for row in result.get("growth", []):
        cell = (row["contender"], row["batch"], row["zipf"])
        cells.setdefault(cell, {})[row["rows_in_master"]] = row["seconds"]
    lines = []
    for (name, batch, zipf), took in cells.items():
        small, large = min(took), max(took)
        what = f"`{name}`, {batch:,} orders, Zipf {zipf:g}: R from {small:,} to {large:,} rows"
        got = took[large] / took[small] if large > small else None
        lines.append(_line(what, "< 1.5×", got, most=GROWTH))
    return lines or [_line("growth of R from 1 M to 10 M rows", "< 1.5×", None)]


def _line(
    what: str, wanted: str, got: float | None, *, least: float | None = None, most: float | None = None
) -> tuple[str, str, str, str]:
    if got is None:
        return what, wanted, "", "not measured"
    met = (least is None or got >= least) and (most is None or got < most)
    return what, wanted, f"{got:.2f}", "met" if met else MISSED
