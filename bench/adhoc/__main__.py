"""`python -m bench.adhoc`: measures, judges, and writes tables into docs/correlations-queries.md (25 minutes).

--only through,changes,idle,figures,parts   some parts; the others keep their last rows
--quick                                     small inputs and few queries: to see that it runs
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.adhoc import figures, page
from bench.adhoc.aims import aims
from bench.adhoc.in_process import Run, ablations, duck_seconds, idle_queries
from bench.adhoc.workload import QueryShape
from bench.measured import RESULTS, keep, machine, progress

RESULT = RESULTS / "adhoc.json"
Row = dict[str, Any]


class Benchmark:
    """All parts, on inputs that all contenders share."""

    def __init__(self, data: Path, *, quick: bool) -> None:
        self._data, self._quick = data, quick
        self.counts = (1, 5, 20) if quick else (1, 5, 20, 100, 500)
        self.rows = 2_000 if quick else 20_000

    def parts(self) -> dict[str, Callable[[], list[Row]]]:
        return {
            "through": self._through, "changes": self._changes, "idle": self._idle, "figures": self._figures,
            "parts": self._parts,
        }  # fmt: skip

    def _contender(self, name: str, **options: Any) -> list[Row]:
        """A process of its own: one JVM each."""
        with tempfile.NamedTemporaryFile(suffix=".json") as output:
            given = json.dumps({"data": str(self._data), "rows": self.rows, **options})
            command = [sys.executable, "-m", "bench.adhoc.contender", name, given, output.name]
            subprocess.run(command, check=True, timeout=1200)
            found: list[Row] = json.loads(Path(output.name).read_text())
            return found

    def _through(self) -> list[Row]:
        rows = self._contender("ours", counts=self.counts)
        rows += self._contender("separate", counts=self.counts, most=5 if self._quick else 20)
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

    def _idle(self) -> list[Row]:
        """A micro-batch of 10,000 tuples, over all eight streams; and the engine alone."""
        alone = idle_queries(progress, 1_000 if self._quick else 10_000)
        row = {"figure": "idle", "series": "engine alone, CPU seconds", **alone}
        return [*self._contender("ours_idle", rows=1_250), row]

    def _figures(self) -> list[Row]:
        rows = self.rows // 2
        return [
            *figures.buffers(self.counts, rows), *figures.keys_and_selectivity(rows), *figures.ways(rows // 4),
            *figures.groups(rows), *figures.similarity(rows), *figures.shared_data(rows // 2),
        ]  # fmt: skip

    def _parts(self) -> list[Row]:
        """Figure 21: one part switched off at a time."""
        rows = self.rows
        found = ablations(progress, 20, rows // 5, QueryShape(ways=3, selectivity=0.5))
        alike = QueryShape(ways=3, similarity=0.75)
        found += ablations(progress, 50, rows, alike, ("no reordering",))
        few = QueryShape(selectivity=0.05, intervals=True, similarity=1.0, select="s0.a0")
        found += ablations(progress, 100, rows, few, ("no grouping",))
        for at, row in enumerate(found):
            row |= {"figure": "21", "series": row["setting"], "x": at}
        return found


_FIGURES = {
    "through": ("15",), "changes": ("18b",), "idle": ("idle",), "figures": ("16", "17", "20a", "20c", "20d", "22a"),
    "parts": ("21",),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.adhoc", description=__doc__)
    parser.add_argument("--only", default=",".join(_FIGURES), help=f"some of {', '.join(_FIGURES)}")
    parser.add_argument("--quick", action="store_true", help="small inputs: to see that it runs; nothing is kept")
    options = parser.parse_args()
    chosen = [name for name in options.only.split(",") if name]
    for name in chosen:
        if name not in _FIGURES:
            parser.error(f"there is no part {name!r}; choose among {', '.join(_FIGURES)}")
    started, before = time.perf_counter(), json.loads(RESULT.read_text()) if RESULT.exists() else {}
    rows: list[Row] = [] if options.quick else before.get("rows", [])
    with tempfile.TemporaryDirectory(prefix="bench-adhoc-data-") as data:
        parts = Benchmark(Path(data), quick=options.quick).parts()
        for name in chosen:
            others = [row for row in rows if row["figure"] not in _FIGURES[name]]
            rows = others + parts[name]()
            if not options.quick:  # kept part by part, so that what was measured stays
                keep(_result(rows, chosen, started), RESULT)
    result = _result(rows, chosen, started)
    if not options.quick:
        page.write(json.loads(keep(result, RESULT).read_text()))
    met = sum(aim["met"] for aim in result["aims"])
    progress(f"done in {result['seconds']} s: {met} of {len(result['aims'])} aims met")
    for aim in result["aims"]:
        progress(f"{'met' if aim['met'] else 'NOT met'}: {aim['name']}: {aim['measured']} ({aim['wanted']})")


def _result(rows: list[Row], chosen: list[str], started: float) -> Row:
    seconds = round(time.perf_counter() - started, 1)
    return {"machine": machine(), "seconds": seconds, "parts": chosen, "rows": rows, "aims": aims(rows)}


if __name__ == "__main__":
    main()
