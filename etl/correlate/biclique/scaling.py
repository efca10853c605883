"""Two-phase scaling (2PS): when a subgroup gets more units or fewer, and how many (section 5, equation 7).

    requesting  every unit reports its memory load volume; τ = ΣMLV / (k·C)
                τ > T_h requests units, τ < T_l releases some; the same request three times in a row is confirmed
    scaling     Δ = (τ/Ψ - 1)·k units, so that the load becomes Ψ

At batch boundaries only, so all units switch at once. With a window nothing migrates: new tuples go to the current
units, and a released unit is probed until its state has expired. Without a window whole runs move.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from etl.correlate.biclique.routing import BicliqueRouter, Subgroup
from etl.correlate.errors import ScalingRefused
from etl.correlate.model import Side

Request = Literal["out", "down", "none"]


@dataclass(frozen=True, slots=True)
class ScalingConfig:
    capacity_bytes: int  # C, of one unit
    high: float = 0.8
    low: float = 0.3
    target: float = 0.6
    confirmations: int = 3

    def __post_init__(self) -> None:
        ordered = 0 <= self.low < self.target < self.high <= 1
        if not ordered or self.confirmations < 1 or self.capacity_bytes < 1:
            raise ScalingRefused(str(self))


@dataclass(frozen=True, slots=True)
class ScalingState:
    """The last request of a subgroup and how often it came in a row."""

    request: Request = "none"
    times: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """The change of a subgroup by a confirmed request."""

    side: Side
    subgroup: int
    load: float  # τ before
    added: tuple[int, ...] = ()
    released: tuple[int, ...] = ()


def load(config: ScalingConfig, mlv: Sequence[int], units: int) -> float:
    """τ: the share of its memory that a subgroup uses."""
    return sum(mlv) / (units * config.capacity_bytes)


def decide(config: ScalingConfig, state: ScalingState, tau: float, units: int) -> tuple[ScalingState, int]:
    """The state after this request, and Δ if it is confirmed, else 0."""
    request: Request = "out" if tau > config.high else "down" if tau < config.low else "none"
    times = state.times + 1 if request == state.request else 1
    if request == "none" or times < config.confirmations:
        return ScalingState(request, times), 0
    wanted = max(1, math.ceil(units * tau / config.target - 1e-9))
    delta = wanted - units
    return (ScalingState(), delta) if delta else (ScalingState(request, times), 0)


def change(
    router: BicliqueRouter, side: Side, number: int, delta: int, mlv: Mapping[int, int], tau: float
) -> tuple[BicliqueRouter, Change]:
    """The router after a confirmed Δ. Draining units are reused first; the least loaded are released."""
    group = router.side(side).subgroups[number]
    if delta > 0:
        back = group.draining[:delta]
        fresh = max(router.units) + 1
        added = back + tuple(range(fresh, fresh + delta - len(back)))
        after = Subgroup(group.storing + added, group.draining[len(back) :])
        return router.with_subgroup(side, number, after), Change(side, number, tau, added=added)
    leaving = tuple(sorted(sorted(group.storing), key=lambda unit: mlv.get(unit, 0))[:-delta])
    staying = tuple(unit for unit in group.storing if unit not in leaving)
    after = Subgroup(staying, group.draining + leaving)
    return router.with_subgroup(side, number, after), Change(side, number, tau, released=leaving)


def drained(router: BicliqueRouter, stored: Mapping[int, int]) -> BicliqueRouter:
    """The router without drained units."""
    sides: tuple[Side, Side] = ("left", "right")
    for side in sides:
        for number, group in enumerate(router.side(side).subgroups):
            left = tuple(unit for unit in group.draining if stored.get(unit, 0))
            if left != group.draining:
                router = router.with_subgroup(side, number, Subgroup(group.storing, left))
    return router


@dataclass(frozen=True, slots=True)
class Move:
    """A run that moves to another unit, by its number among the source's runs."""

    source: int
    run: int
    target: int


def migration(runs: Mapping[int, Sequence[int]], storing: Sequence[int]) -> list[Move]:
    """Which whole runs to move so that `storing` units hold all, about equally. `runs`: bytes of each unit's runs."""
    loads = {unit: sum(runs.get(unit, ())) for unit in storing}
    homeless = [(size, unit, i) for unit, sizes in runs.items() if unit not in loads for i, size in enumerate(sizes)]
    moves = []
    for size, unit, i in sorted(homeless, reverse=True):  # largest first, always to the emptiest
        target = min(loads, key=lambda one: (loads[one], one))
        moves.append(Move(unit, i, target))
        loads[target] += size
    kept = {unit: sorted(((size, i) for i, size in enumerate(runs.get(unit, ()))), reverse=True) for unit in storing}
    for unit in sorted(loads, key=lambda one: -loads[one]):
        for size, i in kept[unit]:
            target = min(loads, key=lambda one: (loads[one], one))
            if loads[target] + size < loads[unit]:  # moving makes the fuller of the two less full
                moves.append(Move(unit, i, target))
                loads[unit], loads[target] = loads[unit] - size, loads[target] + size
    return moves
