"""Routing `auto`: by the condition and by the skew of a sample of keys.

Without an equality a partner may be in any subgroup: random. With one, hash routing sends a probe to one unit instead
of all, but a frequent key fills its unit. Subgroups spread such a key over several units at the cost of more probes.
So: as many subgroups as possible while the fullest unit holds at most `balance` times the mean (ADR 33).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from etl.columnar.multimap import hashes
from etl.correlate.biclique.routing import BicliqueRouter, SideUnits
from etl.correlate.model import U64

Lanes = tuple[U64, U64]
RoutingName = Literal["random", "hash", "contrand"]
BALANCE = 1.25


@dataclass(frozen=True, slots=True)
class RoutingChoice:
    name: RoutingName
    d: int
    e: int
    reason: str

    def router(self, m: int, n: int, *, seed: int = 0) -> BicliqueRouter:
        return BicliqueRouter.of(m, n, self.d, self.e, seed=seed)


def choose(m: int, n: int, left: Lanes | None, right: Lanes | None, balance: float = BALANCE) -> RoutingChoice:
    """`left` and `right`: key lanes of a sample of either stream, None for a condition without equality."""
    if left is None or right is None:
        return RoutingChoice("random", 1, 1, "the condition has no equality")
    (d, skew_left), (e, skew_right) = (subgroups(m, left, balance), subgroups(n, right, balance))
    shown = f"fullest unit over mean: {skew_left:.2f} left, {skew_right:.2f} right"
    name: RoutingName = "hash" if (d, e) == (m, n) else "random" if (d, e) == (1, 1) else "contrand"
    return RoutingChoice(name, d, e, shown)


def subgroups(units: int, lanes: Lanes, balance: float) -> tuple[int, float]:
    """The most subgroups that keep the fullest unit below `balance` times the mean, and that unit's imbalance."""
    best, skew = 1, 1.0
    for count in range(units, 0, -1):
        skew = imbalance(units, count, lanes)
        best = count
        if skew <= balance:
            break
    return best, skew


def imbalance(units: int, subgroups: int, lanes: Lanes) -> float:
    """Load of the fullest unit over the mean, units of a subgroup sharing its load equally."""
    if subgroups == 1 or not len(lanes[0]):
        return 1.0
    side = SideUnits.of(tuple(range(units)), subgroups)
    none = np.zeros(0, np.uint64)
    group = side.subgroup_of(hashes(hashes(*lanes), none), len(lanes[0]))
    tuples = np.bincount(group, minlength=subgroups)
    sizes = np.array([len(one.storing) for one in side.subgroups])
    return float((tuples / sizes).max() / (tuples.sum() / units))
