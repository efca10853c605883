"""The environment of our processes."""

from __future__ import annotations

import os
import sys

from etl.settings import MALLOC_ARENAS, PREFIX, PROJECT, Settings


def project_environment(settings: Settings) -> dict[str, str]:
    """The caller's environment, with our settings and one Python interpreter for all processes."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith((PREFIX, "AIRFLOW", "PYTHON"))}
    # Our services communicate on this machine: bypass proxies.
    direct = ",".join(filter(None, (kept.get("NO_PROXY") or kept.get("no_proxy"), "127.0.0.1,localhost")))
    return {
        **kept,
        **settings.environment(),
        "NO_PROXY": direct,
        "no_proxy": direct,
        "PYTHONPATH": str(PROJECT),
        "PYTHONUNBUFFERED": "1",
        "MALLOC_ARENA_MAX": kept.get("MALLOC_ARENA_MAX", MALLOC_ARENAS),
        "PYSPARK_PYTHON": sys.executable,  # or Spark's workers start the system's interpreter
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
