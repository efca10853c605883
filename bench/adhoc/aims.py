"""What was wanted and what was measured, from the rows of one run. Parts that were not measured have no aims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Row = dict[str, Any]
Aim = dict[str, Any]
_SPARK = ("separate Spark joins", "Spark stream–stream joins")


def aims(rows: list[Row]) -> list[Aim]:
    """Every aim of what was measured, met or not."""
    return [*_through(rows), *_changes(rows), *_idle(rows), *_parts(rows), *_figures(rows)]


def _at_least(name: str, measured: float | None, wanted: float) -> Aim:
    met = measured is not None and measured >= wanted
    return {"name": name, "wanted": f"at least {wanted:g}", "measured": measured and round(measured, 3), "met": met}


def _at_most(name: str, measured: float | None, wanted: float) -> Aim:
    met = measured is not None and measured <= wanted
    return {"name": name, "wanted": f"at most {wanted:g}", "measured": measured and round(measured, 3), "met": met}


def _over(above: float | None, below: float | None) -> float | None:
    """None: one of both was not measured."""
    return above / below if above and below else None


def _speed(rows: list[Row], series: str) -> dict[int, float]:
    found = (row for row in rows if row["figure"] == "15" and row["series"] == series)
    return {row["queries"]: row["overall_tuples_per_s"] for row in found}


def _through(rows: list[Row]) -> Iterator[Aim]:
    ours, separate = _speed(rows, "ours"), _speed(rows, _SPARK[0])
    if not ours:
        return
    best = max(_speed(rows, series).get(1, 0.0) for series in _SPARK)
    yield _at_least("one query: ours over the best of Spark's ways, tuples/s", _over(ours.get(1), best), 1)
    if max(ours.keys() | separate.keys()) < 100:
        return
    times = _over(ours.get(100), separate.get(100))
    yield _at_least("100 queries: ours over separate Spark joins, tuples/s", times, 20)
    yield _at_least("500 queries over 100 queries, overall tuples/s", _over(ours.get(500), ours.get(100)), 1)
    held = {row["queries"]: row["bytes_per_query"] for row in rows if row["figure"] == "15" and "joins_s" in row}
    for more, fewer in ((500, 100), (100, 20)):
        name = f"bytes per query, {more} queries over {fewer}"
        yield _at_most(name, _over(held.get(more), held.get(fewer)), 1)


def _changes(rows: list[Row]) -> Iterator[Aim]:
    for row in (row for row in rows if row["figure"] == "changes"):
        yield _at_least("changes a second that were asked for", row["changes_per_s"], 9.5)
        yield _at_least(
            "ten changes a second: throughput of the others over that without", row["throughput_ratio"], 0.85
        )
        name = "micro-batches that began after a query was asked for and before it took effect, most"
        yield _at_most(name, row["batches_waited_most"], 0)


def _idle(rows: list[Row]) -> Iterator[Aim]:
    for row in (row for row in rows if row["figure"] == "idle"):
        yield _at_most(f"ten queries and {row['idle']} idle ones over ten alone: {row['series']}", row["ratio"], 2)


def _parts(rows: list[Row]) -> Iterator[Aim]:
    for row in (row for row in rows if row["figure"] == "21" and row["series"] != "everything"):
        yield _at_least(
            f"{row['series']}, {row['queries']} queries of {row['ways']} streams: CPU time over everything's",
            row["times_everything"],
            1,
        )


def _figures(rows: list[Row]) -> Iterator[Aim]:
    def values(figure: str, series: str) -> list[float]:
        return [r["overall_tuples_per_cpu_s"] for r in rows if r["figure"] == figure and r["series"] == series]

    wide, narrow = values("17", "500 keys"), values("17", "50,000 keys")
    if wide and narrow:
        yield _at_most(
            "figure 17: throughput with 50,000 keys over 500 keys, selectivity 0.9", narrow[-1] / wide[-1], 1
        )
    ways, groups, alike = values("20a", "20 queries"), values("20c", "ours"), values("20d", "ours")
    if ways:
        yield _at_most("figure 20a: throughput of five-way over two-way joins", ways[-1] / ways[0], 1)
    if groups:
        yield _at_most("figure 20c: throughput of 25 groups over one", groups[-1] / groups[0], 1)
    if alike:
        yield _at_least("figure 20d: throughput of equal over 25 % similar queries", alike[-1] / alike[0], 1)
    costed, one = values("22a", "grouped by cost"), values("22a", "one group")
    if costed and one:
        yield _at_least("figure 22a: grouped by cost over one group, 5 % shared", costed[0] / one[0], 1)
