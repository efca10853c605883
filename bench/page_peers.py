"""The section of the performance page on peers: seconds, ratios of `auto`, memory, and what was aimed at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bench.measured import AIM_HEAD, aim_cells

Result = dict[str, Any]
Table = Callable[..., str]
LARGE = 1_000_000


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
            between(known),
            *([transport(result["transport"], known)] if result.get("transport") else []),
            "What was aimed at:", table(AIM_HEAD, aim_cells(result)),
            *([short] if (short := shortfall(result, known)) else []),
        ]
    )  # fmt: skip


def conditions(notes: Mapping[str, str]) -> str:
    """How the run was made, and what disturbed it."""
    return "\n".join(f"- *{name}*: {note}" for name, note in notes.items())


def transport(rows: list[dict[str, Any]], known: Mapping[tuple[str, int, float], dict[str, Any]]) -> str:
    """What of `auto`'s time is moving rows, which no join could save: the same way, with nobody joining."""

    def seconds_of(name: str) -> str:
        found = []
        for row in rows:
            own = known.get(("auto", row["batch"], row["zipf"]))
            if own is not None and row["contender"] == name and row["zipf"] == 1.0:
                share = row["seconds"] / own["seconds"]
                found.append(f"{row['batch']:,} orders {row['seconds']:.3f} s, {share:.0%} of `auto`'s time")
        return "; ".join(found)

    return (
        "`identity` is `mapInArrow` as Spark comes. Our session turns off what Spark does there for every single row "
        f"(it adds up the bytes of all columns), and identity in it takes, Zipf 1: {seconds_of('identity-tuned')}. It "
        "moves thin orders both ways; a join has to send rows as wide as the joined ones back. Rows of that width "
        f"moved in our session with no join at all: {seconds_of('transport')}."
    )


def between(known: Mapping[tuple[str, int, float], dict[str, Any]]) -> str:
    """What our joins do after a batch, in the way of the next one: its mean is part of their seconds."""
    listed = "; ".join(
        f"{batch:,} orders, Zipf {zipf:g}: {row['between_s']:.3f} s, {row['between_s'] / row['seconds']:.0%}"
        for (name, batch, zipf), row in sorted(known.items())
        if name == "auto" and "between_s" in row
    )
    words = "In the seconds of `auto` is what comes after a batch, when its front stage learns and is written anew"
    return f"{words}: {listed or 'not timed in this run'}."


def shortfall(result: Result, known: Mapping[tuple[str, int, float], dict[str, Any]]) -> str:
    """Why aims of large batches are missed, when they are: where the time goes."""
    cell = (LARGE, 1.0)
    moved = {(row["contender"], row["batch"], row["zipf"]): row["seconds"] for row in result.get("transport", [])}
    missed = any(not one["met"] for one in result.get("aims", []))
    if not missed or ("transport", *cell) not in moved or ("auto", *cell) not in known:
        return ""
    own, wide = known["auto", *cell]["seconds"], moved["transport", *cell]
    return (
        f"Where the time goes. Of the {own:.2f} s that `auto` takes for {LARGE:,} orders at Zipf 1, {wide:.2f} s go "
        "into moving orders to Python and joined rows back: the JVM writes every order into Arrow, and turns every "
        f"joined row into a Spark row. The rest, {own - wide:.2f} s, is the engine on the same cores: probing the "
        "front stage, looking up the orders it does not know (a dozen places in memory per row), and copying strings."
    )
