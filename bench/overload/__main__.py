"""Overload, measured: `make bench-overload`, at most 15 minutes.

python -m bench.overload                                  all cells
python -m bench.overload --stores pages --times 1 10      some of them
python -m bench.overload --quick                          the outermost, half the deadline, kept in var/bench/quick
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from bench.measured import QUICK, RESULTS, exit_code, keep, machine, progress
from bench.overload import plots
from bench.overload.cell import POLICIES, Cell, Policy, measure
from bench.overload.results import DRAINED, NOTES, aims, table
from bench.overload.site import Site, StoreName, VirtualClock
from etl import settings as configuration
from etl.adapters import postgres
from etl.errors import FrontstageError
from etl.settings import Settings
from etl.stack.postgres import create_databases, dsn, embedded_postgres

TIMES = (1, 2, 4, 10)
_QUIET_S, _MOST_S, _CELL_S = 6.0, {"none": 10.0}, 40.0
_DRAINED_S = 60.0
"""For the cells whose aim is the time until nothing waits: it is waited for, not estimated."""
_DATABASE = "bench_overload"


@dataclass(slots=True)
class Run:
    """What is asked for, and how much time is left for it."""

    cells: list[Cell]
    deadline_s: float
    minutes: float
    folder: Path
    settings: Settings
    began: float = field(default_factory=time.perf_counter)

    def left_s(self) -> float:
        return 60 * self.minutes - (time.perf_counter() - self.began)


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.overload", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--stores", nargs="+", choices=get_args(StoreName), default=list(get_args(StoreName)))
    parser.add_argument("--policies", nargs="+", choices=list(POLICIES), default=list(POLICIES))
    parser.add_argument("--times", nargs="+", type=int, default=list(TIMES), help="arrivals, in multiples of w")
    parser.add_argument("--deadline", type=float, default=2.0, help="of a batch, in seconds")
    parser.add_argument("--minutes", type=float, default=15.0, help="at most; cells beyond are not measured")
    parser.add_argument("--output", type=Path, default=RESULTS / "overload.json")
    parser.add_argument("--quick", action="store_true", help="less work, kept elsewhere: to see that it runs")
    chosen = parser.parse_args(arguments)
    if chosen.quick:
        chosen.times, chosen.deadline, chosen.output = [1, 10], 1.0, QUICK / "overload.json"
    return chosen


def run_of(chosen: argparse.Namespace) -> Run:
    """From words to cells: the widest gap first, so that what matters most is measured when time is short."""
    own = configuration.load()
    settings = own.model_copy(update={"var": own.var / "bench", "postgres_dsn": None, "postgres_tcp_port": None})
    times = sorted(chosen.times, key=lambda one: (one not in (1, 10), one))
    policies: list[Policy] = chosen.policies
    cells = [Cell(store, policy, many) for store in chosen.stores for many in times for policy in policies]
    return Run(cells, chosen.deadline, chosen.minutes, settings.var / "overload", settings)


def run_all(run: Run, maintenance: str, output: Path) -> dict[str, Any]:
    """Store after store, cell after cell; what is done is kept as it comes."""
    rows: list[dict[str, Any]] = []
    missing: dict[str, str] = {}
    partial = output.with_suffix(".partial.json")
    stores = list(dict.fromkeys(cell.store for cell in run.cells))
    for index, store in enumerate(stores):
        cells = [cell for cell in run.cells if cell.store == store]
        site = _site(run, maintenance, store)
        w = site.capacity()
        progress(
            f"{store}: a batch serves {w:,} events in {run.deadline_s:g} s; {run.left_s() / 60:.1f} minutes are left"
        )
        share_s = run.left_s() / (len(stores) - index)  # a store that takes long does not take the other's time
        until = time.perf_counter() + share_s
        for cell in cells:
            left_s = until - time.perf_counter()
            if left_s < _CELL_S:
                missing[cell.name] = "the time was up"
                continue
            most_s = _MOST_S.get(cell.policy, _CELL_S)
            quiet_s = _DRAINED_S if (cell.policy, cell.times) == DRAINED else _QUIET_S
            row = measure(site, cell, w, quiet_s, most_s, lambda: datetime.now(UTC))
            rows.append(row)
            progress(_line(row))
            keep(result_of(rows, missing), partial)
    partial.unlink(missing_ok=True)
    return result_of(rows, missing)


def _site(run: Run, maintenance: str, store: StoreName) -> Site:
    with postgres.connect(maintenance, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f'drop database if exists "{_DATABASE}" with (force)')
    create_databases(run.settings, [_DATABASE])
    site = Site.of(store, run.settings, dsn(run.settings, _DATABASE), run.folder / store, run.deadline_s)
    site.prepare()
    site.warm(VirtualClock(datetime.now(UTC)), progress)
    return site


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['store']}, {row['policy']}, {row['times']} ×: {row['served_per_s']:,.0f} events/s served, slowest batch "
        f"{row['slowest_over_deadline']:.2f} deadlines, {row['left_after_load']:,} left, {row['rss_mib']:.0f} MiB"
    )


def result_of(rows: list[dict[str, Any]], missing: dict[str, str]) -> dict[str, Any]:
    """What the file holds."""
    return {"machine": machine(), "notes": NOTES, "rows": rows, "not_measured": missing, "aims": aims(rows)}


def main() -> int:
    chosen = parsed()
    run = run_of(chosen)
    try:
        with embedded_postgres(run.settings) as maintenance:
            result = run_all(run, maintenance, chosen.output)
    except FrontstageError as error:
        sys.exit(f"bench.overload: {error}")
    print(table(result))
    plots.draw(result, chosen.output.parent)
    spent = run.minutes - run.left_s() / 60
    progress(f"kept in {keep(result, chosen.output).name} after {spent:.1f} minutes")
    return exit_code(result)


if __name__ == "__main__":
    sys.exit(main())
