"""What every process of ours finds in its environment."""

from __future__ import annotations

import os
import sys
from datetime import timedelta

from etl.settings import PREFIX, PROJECT, Settings


def project_environment(settings: Settings) -> dict[str, str]:
    """The caller's environment, with our settings in place of its own and one interpreter for everybody."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith((PREFIX, "AIRFLOW", "PYTHON"))
    }
    # Our services talk to each other on this machine; no proxy may come between.
    direct = ",".join(filter(None, (kept.get("NO_PROXY") or kept.get("no_proxy"), "127.0.0.1,localhost")))
    return {
        **kept,
        **settings.environment(),
        **_durations(settings),
        "NO_PROXY": direct,
        "no_proxy": direct,
        "PYTHONPATH": str(PROJECT),
        "PYTHONUNBUFFERED": "1",
        "PYSPARK_PYTHON": sys.executable,  # or Spark's workers start the system's interpreter
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def _durations(settings: Settings) -> dict[str, str]:
    """Durations in the one spelling that settings read back from the environment (ISO 8601)."""
    values = {name: getattr(settings, name) for name in type(settings).model_fields}
    return {
        PREFIX + name.upper(): f"PT{value.total_seconds():f}S"
        for name, value in values.items()
        if isinstance(value, timedelta)
    }
