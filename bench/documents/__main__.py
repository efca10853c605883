"""`python -m bench.documents`: measures, judges, draws, and writes the tables into docs/correlations-documents.md.

--only partitions,joins,sql    some parts; the others keep their last rows
--only ''                      none: judge and draw what was measured last
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

from bench.documents import joins, page, partitions, plots, sql
from bench.documents.aims import aims, remarks
from bench.measured import RESULTS, keep, machine, progress

PARTS: dict[str, tuple[tuple[str, ...], Callable[[], list[dict[str, Any]]]]] = {
    "partitions": (("6-9", "10"), partitions.measure),
    "joins": (("11",), joins.measure),
    "sql": (("SQL",), sql.measure),
}
RESULT = RESULTS / "documents.json"
_ORDER = ("6-9", "10", "11", "SQL")


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.documents")
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    chosen = [name for name in parser.parse_args().only.split(",") if name]
    for name in chosen:
        if name not in PARTS:
            parser.error(f"there is no part {name!r}; choose among {', '.join(PARTS)}")
    started, before = time.perf_counter(), _last()
    rows, facts = before.get("rows", []), {"machine": before.get("machine"), "seconds": before.get("seconds")}
    for name in chosen:  # kept part by part, so that what was measured stays
        others = [row for row in rows if row["figure"] not in PARTS[name][0]]
        rows = sorted(others + PARTS[name][1](), key=lambda row: _ORDER.index(row["figure"]))
        facts = {"machine": machine(), "seconds": round(time.perf_counter() - started, 1)}
        keep({**facts, "parts": chosen, "rows": rows, "aims": []}, RESULT)
    whole = {row["figure"] for row in rows} == set(_ORDER)
    judged, beside = (aims(rows), remarks(rows)) if whole else ([], [])
    parts = chosen or before.get("parts")
    keep({**facts, "parts": parts, "rows": rows, "aims": judged, "remarks": beside}, RESULT)
    plots.draw(rows, RESULTS)
    page.write(_last())
    progress(f"done in {facts['seconds']} s: {sum(aim['met'] for aim in judged)} of {len(judged)} aims met")


def _last() -> dict[str, Any]:
    """The last result, if there is one."""
    return dict(json.loads(RESULT.read_text())) if RESULT.exists() else {}


if __name__ == "__main__":
    main()
