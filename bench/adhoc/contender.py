"""One contender in a process of its own: `python -m bench.adhoc.contender NAME OPTIONS FILE`, rows as JSON to FILE.

ours       all queries inside our micro-batches: Delta tables, ledger and all
separate   the same queries as separate Spark joins over the same micro-batches: inputs cached, broadcast where it helps
streams    the same queries as Spark's stream–stream joins, a streaming query each

Peers compute only counts and keep nothing; ours keeps everything it must to survive a kill. A micro-batch is one slot.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Options = dict[str, Any]


def main(arguments: list[str]) -> None:
    name, options, output = arguments[0], json.loads(arguments[1]), Path(arguments[2])
    with tempfile.TemporaryDirectory(prefix="bench-adhoc-") as home:
        rows = _contenders()[name](Path(home), options)
    output.write_text(json.dumps(rows))


def _contenders() -> dict[str, Callable[[Path, Options], list[Row]]]:
    from bench.adhoc import ours, spark_joins, spark_streams

    return {
        "ours": ours.parallel,
        "ours_changes": ours.changes,
        "ours_idle": ours.idle,
        "separate": spark_joins.measure,
        "streams": spark_streams.measure,
    }


if __name__ == "__main__":
    main(sys.argv[1:])
