"""`python -m bench.documents`: measures, judges, draws, and writes the tables into docs/correlations-documents.md.

--only partitions,joins,sql    some parts; the others keep their last rows
--only ''                      none: judge and draw what was measured last
--quick                        a tenth of the documents, kept in var/bench/quick: to see that it runs

Each part keeps when it was measured and how long that took: parts may be of different runs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.documents import joins, page, partitions, plots, sql
from bench.documents.aims import aims, remarks
from bench.measured import QUICK, RESULTS, exit_code, keep, machine, progress

PARTS: dict[str, tuple[tuple[str, ...], Callable[[int], list[dict[str, Any]]]]] = {
    "partitions": (("6-9", "10"), partitions.measure),
    "joins": (("11",), joins.measure),
    "sql": (("SQL",), sql.measure),
}
FILE = "documents.json"
_ORDER = ("6-9", "10", "11", "SQL")
_QUICK_SCALE = 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.documents")
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="a tenth of the documents: to see that it runs")
    options = parser.parse_args()
    chosen = [name for name in options.only.split(",") if name]
    for name in chosen:
        if name not in PARTS:
            parser.error(f"there is no part {name!r}; choose among {', '.join(PARTS)}")
    folder, scale = (QUICK, _QUICK_SCALE) if options.quick else (RESULTS, 1)
    before = _last(folder)
    rows, parts = before.get("rows", []), _parts(before)
    facts: dict[str, Any] = {"machine": before.get("machine")}
    for name in chosen:  # kept part by part, so that what was measured stays
        started, facts = time.perf_counter(), {"machine": machine()}
        others = [row for row in rows if row["figure"] not in PARTS[name][0]]
        rows = sorted(others + PARTS[name][1](scale), key=lambda row: _ORDER.index(row["figure"]))
        parts[name] = {"at": facts["machine"]["at"], "seconds": round(time.perf_counter() - started, 1)}
        keep({**facts, "parts": parts, "rows": rows, "aims": []}, folder / FILE)
    whole = {row["figure"] for row in rows} == set(_ORDER)
    judged, beside = (aims(rows, scale), remarks(rows)) if whole else ([], [])
    facts |= {"parts": parts, "seconds": _seconds(parts)}
    keep({**facts, "rows": rows, "aims": judged, "remarks": beside}, folder / FILE)
    plots.draw(rows, folder)
    page.write(_last(folder), folder / page.PAGE.name if options.quick else page.PAGE)
    seconds = _seconds({name: parts[name] for name in chosen})
    progress(f"done in {seconds} s: {sum(aim['met'] for aim in judged)} of {len(judged)} aims met")
    return exit_code({"aims": judged})


def _parts(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """When each part was measured, and for how many seconds, as far as a result says."""
    return dict(result["parts"]) if isinstance(result.get("parts"), dict) else {}


def _seconds(parts: dict[str, dict[str, Any]]) -> float:
    """How long all parts took."""
    return round(sum(part["seconds"] for part in parts.values()), 1)


def _last(folder: Path) -> dict[str, Any]:
    """The last result, if there is one."""
    file = folder / FILE
    return dict(json.loads(file.read_text())) if file.exists() else {}


if __name__ == "__main__":
    sys.exit(main())
