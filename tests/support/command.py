"""The `frontstage` command as a process of its own, and the shape of its error messages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from etl.settings import PROJECT


def frontstage(*words: str, home: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("FRONTSTAGE_")}
    env |= {
        "FRONTSTAGE_HOME": str(home),
        "FRONTSTAGE_JARS": str(PROJECT / "var" / "jars"),
        "COLUMNS": "200",
        **variables,
    }
    return subprocess.run(
        [sys.executable, "-m", "etl.cli", *words], env=env, cwd=PROJECT, capture_output=True, text=True, timeout=1200
    )


def one_sentence(done: subprocess.CompletedProcess[str]) -> str:
    assert "Traceback" not in done.stdout + done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("frontstage: ")
    return lines[0]
