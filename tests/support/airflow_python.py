"""Scripts in a Python where Airflow is at home in a new folder: reading DAGs leaves nothing behind in ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from etl.settings import PROJECT


def ask(script: str, home: Path, *words: str, **variables: str) -> list[str]:
    """The lines that a script prints in a Python where Airflow is at home in a new folder."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("FRONTSTAGE_")}
    env |= {"AIRFLOW_HOME": str(home), "PYTHONPATH": str(PROJECT), "FRONTSTAGE_HOME": str(home), **variables}
    command = [sys.executable, "-c", script, *words]
    done = subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
