"""Compare a batch with earlier ones. Bounds are learned from the last batches and need no configuration.

    figures of this batch ─┐
    figures of the last N ─┴─▶ judge ─▶ findings: figures out of bounds, with the bounds

A figure is one number about a batch with its standard error: how many events, a share, a mean. It is expected within

    median of the past ± max(floor, K · sqrt(spread² + error²))        spread = 1.4826 · median |x − median|

Median and spread of deviations are robust against a few outliers, and follow a lasting change after half of the
history. The error allows a batch of ten events to differ more than one of ten thousand. The floor prevents alarms on
tiny changes of steady figures. Volume is compared by its logarithm: half and double are equally far. See ADR 81.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from etl.contract.model import Distribution

HISTORY_BATCHES = 60
MIN_BATCHES = 12
_K = 5.0
_TO_SIGMA = 1.4826  # from the median of deviations to the standard deviation of a normal distribution
_SHARE_FLOOR = 0.02
_MEAN_FLOOR = 0.1  # of the median
_VOLUME_FLOOR = math.log(4)
_FEWER_IS_BETTER = frozenset(("quarantined", "duplicates", "unmatched"))
_MORE_IS_BETTER = frozenset(("hit_ratio",))


@dataclass(frozen=True, slots=True)
class Figure:
    """One number about a batch: its kind, its subject (a column, a master, or none), its standard error."""

    kind: Distribution
    subject: str
    value: float
    error: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.subject}" if self.subject else self.kind


Profile = Mapping[str, Figure]
"""The figures of a batch, by name."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A figure outside the bounds learned from the last batches."""

    check: str
    value: float
    low: float
    high: float
    batches: int

    def as_json(self) -> dict[str, Any]:
        return {
            "check": self.check, "value": self.value, "low": self.low, "high": self.high, "batches": self.batches,
        }  # fmt: skip

    @property
    def kind(self) -> str:
        return self.check.partition(":")[0]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(**{name: value[name] for name in ("check", "value", "low", "high", "batches")})


def share(kind: Distribution, subject: str, part: int, whole: int) -> Figure:
    """A share of events with its standard error; one is added on each side, so that 0 of 10 is not certain."""
    smooth = min(1.0, (part + 1) / (whole + 2))  # events of the backlog are refused, too: more than the lines
    return Figure(kind, subject, part / whole, math.sqrt(smooth * (1 - smooth) / whole))


def judge(profile: Profile, past: Sequence[Profile]) -> tuple[Finding, ...]:
    """Figures out of bounds. `past` is the last batches, of which at least `MIN_BATCHES` must have the figure."""
    findings = []
    for name, figure in profile.items():
        known = np.array([one[name].value for one in past if name in one], np.float64)
        if len(known) >= MIN_BATCHES:
            low, high = bounds(figure, known)
            if not low <= figure.value <= high:
                findings.append(Finding(name, _rounded(figure.value), _rounded(low), _rounded(high), len(known)))
    return tuple(findings)


def bounds(figure: Figure, past: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[float, float]:
    """The expected range of a figure, both ends included."""
    if figure.kind == "volume":
        low, high = _around(np.log1p(past), 0.0, _VOLUME_FLOOR)
        return math.floor(math.expm1(low)), math.ceil(math.expm1(high))
    if figure.kind == "mean":
        return _around(past, figure.error, _MEAN_FLOOR * abs(float(np.median(past))))
    low, high = _around(past, figure.error, _SHARE_FLOOR)
    better_low, better_high = figure.kind in _FEWER_IS_BETTER, figure.kind in _MORE_IS_BETTER
    return 0.0 if better_low else max(0.0, low), 1.0 if better_high else min(1.0, high)


def _around(past: np.ndarray[Any, np.dtype[np.float64]], error: float, floor: float) -> tuple[float, float]:
    median = float(np.median(past))
    spread = _TO_SIGMA * float(np.median(np.abs(past - median)))
    reach = max(floor, _K * math.hypot(spread, error))
    return median - reach, median + reach


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
