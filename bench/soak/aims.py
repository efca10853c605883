"""What a soak must show: nothing grows, nothing is left, nothing failed, and the mart is fresh."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from bench.measured import aim
from bench.soak.samples import LISTED, OTHERS, SHORT_LIVED

MOST_GROWTH, FEW_FILES = 1.15, 16  # fewer files than that are not worth compacting
FRESH_S, MOST_CLAIM_RUNS = 60, 40
Samples = Sequence[Mapping[str, float]]


def growth(samples: Samples, name: str) -> float | None:
    """The median of the last quarter against that of the second one; None for what was not there in both."""
    quarters = _quarters(samples, name)
    if not all(quarters):
        return None
    before, after = map(statistics.median, quarters)
    return round(after / before, 3) if before else None


def peaks(samples: Samples, name: str) -> tuple[float, float]:
    """The most in the second quarter, and in the last one."""
    before, after = (max(quarter, default=0.0) for quarter in _quarters(samples, name))
    return before, after


def _quarters(samples: Samples, name: str) -> tuple[list[float], list[float]]:
    """The second and the last one. What was not there at a sample is left out."""
    size = len(samples) // 4
    parts = (samples[size : 2 * size], samples[len(samples) - size :])
    before, after = ([one[name] for one in part if name in one] for part in parts)
    return before, after


def flat(samples: Samples) -> list[str]:
    """The figures of processes that have to stay: those of every kind that outlives a task."""
    names = {name for one in samples for name in one if name.startswith(("memory_mb ", "open_files "))}
    return sorted(name for name in names if not name.endswith((SHORT_LIVED, OTHERS)))


def aims(
    samples: Samples, backlog: int, failed_runs: int, missing: int, fresh: Mapping[str, float]
) -> list[dict[str, Any]]:
    return [
        *(
            aim(f"{name}: last quarter / second quarter", growth(samples, name), most=MOST_GROWTH)
            for name in flat(samples)
        ),
        aim("processes of no known kind at the end", _left_over(samples), most=0),
        *(_listing(samples, name) for name in LISTED),
        aim("runs of claims at most", max((one["claim_runs"] for one in samples), default=0.0), most=MOST_CLAIM_RUNS),
        aim("backlog at its most", max((one["backlog"] for one in samples), default=0.0), least=1),
        aim("backlog at the end", backlog, most=0),
        aim("orders that landed and were not read", missing, most=0),
        aim("runs of Airflow that failed", failed_runs, most=0),
        aim("freshness p95, s", fresh["p95"], most=FRESH_S),
    ]


def _left_over(samples: Samples) -> float | None:
    """Such processes come and go; what stays is nobody's."""
    return samples[-1].get(f"processes {OTHERS}", 0.0) if samples else None


def _listing(samples: Samples, name: str) -> dict[str, Any]:
    before, after = peaks(samples, name)
    return aim(f"{name}: most in the last quarter", after, most=round(MOST_GROWTH * before + FEW_FILES))
