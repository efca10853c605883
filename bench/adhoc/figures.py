"""Figures 16, 17, 20 and 22a on the engine in this process: one axis each, everything else as the paper has it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from bench.adhoc.in_process import Run, measure
from bench.adhoc.workload import QueryShape
from bench.measured import progress

Row = dict[str, Any]
Setting = Callable[[], Row]  # what measures one point


def buffers(counts: tuple[int, ...], rows: int) -> list[Setting]:
    """Figure 16: bytes of tuples and of indexes in a bucket, and per query."""
    return [_setting("16", "ours", count, Run(count, rows, QueryShape(selections=False))) for count in counts]


def keys_and_selectivity(rows: int) -> list[Setting]:
    """Figure 17: distinct keys, and the selectivity of selections."""
    found = []
    for keys in (500, 50_000):
        for selectivity in (0.1, 0.5, 0.9):
            shape = QueryShape(similarity=1.0, selectivity=selectivity, intervals=True)
            found.append(_setting("17", f"{keys:,} keys", selectivity, Run(20, rows, shape, keys=keys)))
    return found


def ways(rows: int) -> list[Setting]:
    """Figure 20a: joins of two to five streams."""
    return [
        _setting(
            "20a", f"{queries} queries", many, Run(queries, rows, QueryShape(ways=many, selectivity=0.5), keys=2_000)
        )
        for queries in (1, 20)
        for many in (2, 3, 4, 5)
    ]


def groups(rows: int) -> list[Setting]:
    """Figure 20c: the more query groups, the less is shared."""
    shape = QueryShape(similarity=1.0, selectivity=0.5)
    return [_setting("20c", "ours", many, Run(50, rows, shape, groups=many)) for many in (1, 2, 5, 10, 25)]


def similarity(rows: int) -> list[Setting]:
    """Figure 20d: the more alike, the more is shared."""
    return [
        _setting("20d", "ours", share, Run(50, rows, QueryShape(similarity=share, selectivity=0.5)))
        for share in (0.25, 0.5, 0.75, 1.0)
    ]


def shared_data(rows: int) -> list[Setting]:
    """Figure 22a: what part of the queries wants a tuple; with grouping by cost, and with everybody in one group."""
    found = []
    for share in (0.05, 0.25, 0.5, 0.75):
        shape = QueryShape(similarity=1.0, selectivity=share, intervals=True, select="s0.a0")
        found.append(_setting("22a", "grouped by cost", share, Run(30, rows, shape, slots=3)))
        found.append(_setting("22a", "one group", share, Run(30, rows, shape, slots=3, groups=1)))
    return found


def _setting(figure: str, series: str, x: float, run: Run) -> Setting:
    return partial(_row, figure, series, x, run)


def _row(figure: str, series: str, x: float, run: Run) -> Row:
    measured = measure(run)
    names = ("queries", "ways", "cpu_seconds_per_slot", "tuple_bytes", "index_bytes", "bytes_per_query", "groups")
    # CPU seconds: other programs on the machine disturb them least.
    overall = measured["overall_tuples_per_s"] * measured["seconds_per_slot"] / measured["cpu_seconds_per_slot"]
    row = {"figure": figure, "series": series, "x": x, **{name: measured[name] for name in names}}
    progress(f"figure {figure}, {series}, {x}: {overall / 1e6:.1f} M tuples per CPU second overall")
    return {**row, "overall_tuples_per_cpu_s": round(overall, 1)}
