"""Ours through Airflow: how old an order is when the mart shows it, from the moment its file has landed.

    stack up, `orders` on arrival ─▶ every 30 s a file of 50,000 orders ─▶ mart: loaded_at − landed_at of every row
                                  ─▶ then files of 100 orders            ─▶ p50, p95 over all rows

The files are written by the generator's own writer, which lets a file appear whole; its time of landing is that of the
rename. Waves that land before the first run has ended warm up and are not counted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.pipeline.plan import NotMeasured
from etl.settings import Settings


def measure(_settings: Settings, _orders: Path, _seconds: float) -> list[dict[str, Any]]:
    """One row per size: `batch`, `every_s`, `waves`, `p50_s`, `p95_s`."""
    raise NotMeasured("freshness through Airflow", "this tree has no DAG that runs on arrival")
