"""One contender in a process of its own: `python -m bench.adhoc.contender NAME OPTIONS HOME`.

ours       all queries inside our micro-batches: Delta tables, ledger and all
separate   the same queries as separate Spark joins over the same micro-batches: inputs cached, broadcast where it helps
streams    the same queries as Spark's stream–stream joins, a streaming query each

Peers compute only counts and keep nothing; ours keeps everything it must to survive a kill. A micro-batch is one slot.
Rows go to HOME/rows as they come, a line of JSON each: what was measured stays when a contender is stopped.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Options = dict[str, Any]
_ROWS = "rows"
_GRACE_S = 10.0


def main(arguments: list[str]) -> None:
    name, options, home = arguments[0], json.loads(arguments[1]), Path(arguments[2])
    with (home / _ROWS).open("w") as output:
        for row in _contenders()[name](home / "site", options):
            output.write(json.dumps(row) + "\n")
            output.flush()


def _contenders() -> dict[str, Callable[[Path, Options], Iterator[Row]]]:
    from bench.adhoc import ours, spark_joins, spark_streams

    return {
        "ours": ours.parallel,
        "ours_changes": ours.changes,
        "ours_deployment": ours.deployment,
        "ours_idle": ours.idle,
        "separate": spark_joins.measure,
        "streams": spark_streams.measure,
    }


def run(name: str, options: Options, home: Path, limit_s: float) -> tuple[list[Row], str | None]:
    """What a contender measures within a time, and why that is not all."""
    (home / _ROWS).touch()
    command = [sys.executable, "-m", "bench.adhoc.contender", name, json.dumps(options), str(home)]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        code = process.wait(limit_s)
        reason = None if code == 0 else f"ended with exit code {code}"
    except subprocess.TimeoutExpired:
        reason = f"stopped after {limit_s:.0f} s"
    finally:
        _stop(process)
    return [json.loads(line) for line in (home / _ROWS).read_text().splitlines()], reason


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the process and its JVM, if they run."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
            process.wait(_GRACE_S)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


if __name__ == "__main__":
    main(sys.argv[1:])
