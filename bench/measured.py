"""What all benchmarks share: progress with the time, what machine this is, and results kept as JSON."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"
QUICK = Path(__file__).resolve().parents[1] / "var" / "bench" / "quick"
"""Where runs with less work put what they measured: it says that they run, not how fast."""
AIM_HEAD = ("aim", "wanted", "measured", "")


def progress(what: str) -> None:
    """One line, with the time of day: parts of a benchmark are processes of their own."""
    print(f"{time.strftime('%H:%M:%S')}  {what}", flush=True)


def median(seconds: Sequence[float]) -> float:
    """Rounded to what a clock can tell on a busy machine."""
    return round(statistics.median(seconds), 6)


def aim(name: str, measured: float | None, *, least: float | None = None, most: float | None = None) -> dict[str, Any]:
    """Something asked for, and whether what was measured is that. `wanted` is for people; `met` is the verdict."""
    met = measured is not None and (least is None or measured >= least) and (most is None or measured <= most)
    wanted = f"≥ {least:g}" if least is not None else f"≤ {most:g}"
    return {"name": name, "wanted": wanted, "measured": measured, "met": met}


def aim_line(one: Mapping[str, Any]) -> str:
    """An aim on a line of a terminal."""
    got = "not measured" if one["measured"] is None else f"{one['measured']:g}"
    return f"{'met   ' if one['met'] else 'MISSED'} {one['name']}: {got} (wanted {one['wanted']})"


def aim_cells(result: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """All aims as lines of a table, below `AIM_HEAD`."""
    return [
        (
            one["name"],
            one["wanted"],
            "not measured" if one["measured"] is None else f"{one['measured']:.3g}",
            "met" if one["met"] else "**not met**",
        )
        for one in result.get("aims", [])
    ]


def exit_code(result: Mapping[str, Any]) -> int:
    """1 where an aim is missed or something was not measured."""
    return int(bool(result.get("not_measured")) or not all(one["met"] for one in result["aims"]))


def machine() -> dict[str, Any]:
    """Where the numbers come from: ratios travel, seconds do not."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "cpu": _cpu(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def keep(result: dict[str, Any], path: Path) -> Path:
    """Write a result, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.new")
    aside.write_text(json.dumps(result, indent=1) + "\n")
    aside.rename(path)
    return path
