"""`python -m bench.adhoc`: measures, judges, draws, and writes tables into docs/correlations-queries.md (25 minutes).

--only through,changes,deployment,idle,figures,parts   some parts; the others keep their last rows
--quick                                     small inputs and few queries, kept in var/bench/quick: to see that it runs
--patience 5                                on a busy machine: five times the time for every contender

A contender that is not done in its time is stopped and reported; what it measured until then counts.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bench.adhoc import contender, figures, page, plots
from bench.adhoc.aims import aims
from bench.adhoc.in_process import Run, ablations, duck_seconds, idle_queries
from bench.adhoc.workload import QueryShape
from bench.measured import QUICK, RESULTS, exit_code, keep, machine, progress

FILE = "adhoc.json"
LIMITS_S = {
    "ours": 240, "separate": 300, "streams": 300, "ours_changes": 150, "ours_deployment": 150, "ours_idle": 120,
    "figures": 120,
}  # fmt: skip
"""Together with DuckDB, the engine alone and figure 21, which take two minutes, 25 minutes at most."""
Row = dict[str, Any]


class Benchmark:
    """All parts, on inputs that all contenders share."""

    def __init__(self, scratch: Path, *, quick: bool, patience: float = 1.0) -> None:
        self._scratch, self._quick, self._patience = scratch, quick, patience
        self.counts = (1, 5, 20) if quick else (1, 5, 20, 100, 500)
        self.rows = 2_000 if quick else 20_000
        self.not_measured: dict[str, str] = {}

    def parts(self) -> dict[str, Callable[[], list[Row]]]:
        return {
            "through": self._through, "changes": self._changes, "deployment": self._deployment, "idle": self._idle,
            "figures": self._figures, "parts": self._parts,
        }  # fmt: skip

    def _contender(self, name: str, **options: Any) -> list[Row]:
        """A process of its own: one JVM each."""
        began, given = time.perf_counter(), {"data": str(self._scratch / "data"), "rows": self.rows, **options}
        limit_s = self._patience * LIMITS_S[name]
        progress(f"{name} begins, for at most {limit_s:.0f} s")
        with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=self._scratch, ignore_cleanup_errors=True) as home:
            found, reason = contender.run(name, given, Path(home), limit_s)
        if reason is not None:
            self.not_measured[name] = reason
        progress(f"{name} {reason or 'is done'}, {time.perf_counter() - began:.0f} s")
        return found

    def _through(self) -> list[Row]:
        rows = self._contender("ours", counts=self.counts)
        rows += self._contender("separate", counts=self.counts, most=5 if self._quick else 12)
        rows += self._contender("streams", counts=[count for count in self.counts if count <= 5])
        for count in self.counts:
            duck = duck_seconds(Run(count, self.rows, QueryShape()))
            rows.append({"figure": "15", "series": "DuckDB, query by query", "queries": count,
                         "rows_per_slot": self.rows, "measured_queries": duck["measured"],
                         "seconds_per_batch": round(duck["seconds_per_slot"], 4),
                         "overall_tuples_per_s": round(duck["overall_tuples_per_s"], 1)})  # fmt: skip
        return rows

    def _changes(self) -> list[Row]:
        return self._contender("ours_changes", queries=20 if self._quick else 100, per_s=10)

    def _deployment(self) -> list[Row]:
        rates, ways = ([(10, 20)], (2,)) if self._quick else ([(1, 20), (10, 100)], (2, 3, 4))
        return self._contender("ours_deployment", rows=self.rows // 5, rates=rates, ways=ways)

    def _idle(self) -> list[Row]:
        """A micro-batch of 10,000 tuples, over all eight streams; and the engine alone."""
        idle = 90 if self._quick else 990
        alone = idle_queries(progress, idle, 1_000 if self._quick else 10_000)
        row = {"figure": "idle", "series": "engine alone, CPU seconds", **alone}
        return [*self._contender("ours_idle", rows=1_250, idle=idle), row]

    def _figures(self) -> list[Row]:
        rows = self.rows // 2
        return self._in_time("figures", [
            *figures.buffers(self.counts, rows), *figures.keys_and_selectivity(rows), *figures.ways(rows // 4),
            *figures.groups(rows), *figures.similarity(rows), *figures.shared_data(self.rows),
        ])  # fmt: skip

    def _in_time(self, name: str, settings: Iterable[Callable[[], Row]]) -> list[Row]:
        """Setting after setting while there is time."""
        limit_s, found = self._patience * LIMITS_S[name], list[Row]()
        until = time.perf_counter() + limit_s
        for number, measure in enumerate(settings):
            if time.perf_counter() > until:
                self.not_measured[name] = f"stopped after {limit_s:.0f} s, {number} settings are measured"
                break
            found.append(measure())
        return found

    def _parts(self) -> list[Row]:
        """Figure 21: one part switched off at a time, where it has something to do: orders for joins of several
        streams, groups for queries that want rows of few tuples, late materialisation for joins of joins."""
        rows, few = self.rows, QueryShape(selectivity=0.05, intervals=True, similarity=1.0, select="s0.a0")
        orders = [Run(50, rows // 5, QueryShape(ways=ways, similarity=0.75), slots=6) for ways in (3, 4, 5)]
        found = [row for run in orders for row in ablations(progress, run, ("no reordering",))]
        found += ablations(
            progress, Run(20, rows // 5, QueryShape(ways=3, selectivity=0.5)), ("no late materialisation",)
        )
        found += ablations(progress, Run(100, rows, few, slots=6), ("no grouping",))
        for row in found:
            row |= {"figure": "21", "series": row["setting"], "x": row["ways"]}
        return found


_FIGURES = {
    "through": ("15",), "changes": ("changes",), "deployment": ("18b",), "idle": ("idle",),
    "figures": ("16", "17", "20a", "20c", "20d", "22a"), "parts": ("21",),
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.adhoc", description=__doc__)
    parser.add_argument("--only", default=",".join(_FIGURES), help=f"some of {', '.join(_FIGURES)}")
    parser.add_argument("--quick", action="store_true", help=f"small inputs: to see that it runs; kept in {QUICK.name}")
    parser.add_argument("--patience", type=float, default=1.0, help="so many times the time for every contender")
    options = parser.parse_args()
    chosen = [name for name in options.only.split(",") if name]
    for name in chosen:
        if name not in _FIGURES:
            parser.error(f"there is no part {name!r}; choose among {', '.join(_FIGURES)}")
    folder = QUICK if options.quick else RESULTS
    result = _measured(chosen, folder, quick=options.quick, patience=options.patience)
    plots.draw(result["rows"], folder)
    page.write(result, folder / page.PAGE.name if options.quick else page.PAGE)
    met = sum(aim["met"] for aim in result["aims"])
    progress(f"done in {result['seconds']} s: {met} of {len(result['aims'])} aims met")
    for aim in result["aims"]:
        progress(f"{'met' if aim['met'] else 'NOT met'}: {aim['name']}: {aim['measured']} ({aim['wanted']})")
    for name, reason in result["not_measured"].items():
        progress(f"not measured in full: {name} {reason}")
    return exit_code(result)


def _measured(chosen: list[str], folder: Path, *, quick: bool, patience: float) -> Row:
    """All parts that are chosen, kept part by part, so that what was measured stays."""
    started, file = time.perf_counter(), folder / FILE
    rows: list[Row] = json.loads(file.read_text())["rows"] if file.exists() else []
    with tempfile.TemporaryDirectory(prefix="bench-adhoc-", ignore_cleanup_errors=True) as scratch:
        benchmark = Benchmark(Path(scratch), quick=quick, patience=patience)
        for name in chosen:
            others = [row for row in rows if row["figure"] not in _FIGURES[name]]
            rows = others + benchmark.parts()[name]()
            result = {
                "machine": machine(), "seconds": round(time.perf_counter() - started, 1), "parts": chosen,
                "rows": rows, "not_measured": benchmark.not_measured, "aims": aims(rows),
            }  # fmt: skip
            keep(result, file)
    found: Row = json.loads(file.read_text())
    return found


if __name__ == "__main__":
    sys.exit(main())
