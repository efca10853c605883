"""Logging never ends a program: a line that cannot be written is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from etl.logs import structured
import structlog
structured()
log = structlog.get_logger("stack")
log.info("first", n=1)
try:
    1 / 0
except ZeroDivisionError:
    log.exception("second")
print("alive")
"""


def test_a_full_disk_costs_the_line_and_nothing_else() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=full, text=True)
    assert (done.stdout, done.returncode) == ("alive\n", 0)


def test_a_line_is_json_with_its_trace() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    first, second = (json.loads(line) for line in done.stderr.splitlines())
    assert (first["event"], first["n"], first["level"]) == ("first", 1, "info")
    assert second["exception"][0]["exc_type"] == "ZeroDivisionError"
