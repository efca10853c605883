"""What every process of ours finds in its environment."""

from __future__ import annotations

import os
import sys

from etl.settings import PREFIX, PROJECT, Settings


def project_environment(settings: Settings) -> dict[str, str]:
    """The caller's environment, with our settings in place of its own and one interpreter for everybody."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith((PREFIX, "AIRFLOW", "PYTHON"))}
    # Our services talk to each other on this machine; no proxy may come between.
    direct = ",".join(filter(None, (kept.get("NO_PROXY") or kept.get("no_proxy"), "127.0.0.1,localhost")))
    return {
        **kept,
        **settings.environment(),
        "NO_PROXY": direct,
        "no_proxy": direct,
        "PYTHONPATH": str(PROJECT),
        "PYTHONUNBUFFERED": "1",
        "PYSPARK_PYTHON": sys.executable,  # or Spark's workers start the system's interpreter
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
