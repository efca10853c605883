"""Feedback for `auto`: measured times of earlier rounds correct the calculated cost of each tactic (ADR 19).

expected time = calculated time · factor        factor: measured / calculated, per tactic and size of round

never measured        explored once when it might be the fastest: a calculated time can be wrong either way
measured, not last    its factor decays a little with every round of another tactic, so that one slow round does
                      not rule it out for ever; the slower it was, the longer that takes
the last tactic       stays unless another is faster by more than the hysteresis
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from etl.enrich.planning.cost import UnitCosts
from etl.enrich.spec import TacticName

_LEARN = 0.3  # weight of the newest round
_MOST = 2.0  # times the expected factor at most: a slower round is a disturbance of the machine
_DECAY = 0.995
_EXPLORE_RATIO = 1.5  # times the cheapest
_HYSTERESIS = 1.05


@dataclass(frozen=True, slots=True)
class SizeStats:
    """Correction factors learned from rounds of about one size."""

    factors: Mapping[TacticName, float] = field(default_factory=dict)
    seen: frozenset[TacticName] = frozenset()
    last: TacticName | None = None

    def priced(self, calculated: Mapping[TacticName, float]) -> dict[TacticName, float]:
        """The expected seconds of each tactic."""
        return {name: seconds * self.factors.get(name, 1.0) for name, seconds in calculated.items()}

    def choose(self, seconds: Mapping[TacticName, float], *, explore: bool) -> TacticName:
        """The tactic with the lowest expected time. `explore`: the round is timed, so an unseen tactic may be tried."""
        cheapest = min(seconds, key=lambda name: seconds[name])
        if explore:
            new = [
                name
                for name in seconds
                if name not in self.seen and seconds[name] <= _EXPLORE_RATIO * seconds[cheapest]
            ]
            if new:
                return min(new, key=lambda name: seconds[name])
        if self.last is not None and seconds.get(self.last, float("inf")) <= _HYSTERESIS * seconds[cheapest]:
            return self.last
        return cheapest

    def after(self, name: TacticName, calculated: float, took: float, others: Iterable[TacticName]) -> SizeStats:
        """The statistics after a round of `name`; the factors of the `others`, which could have run, decay."""
        ratio = max(1e-9, took) / max(1e-9, calculated)
        old = self.factors.get(name, 1.0)
        factors = {other: self.factors.get(other, 1.0) * _DECAY for other in others}
        factors[name] = old + _LEARN * (min(ratio, _MOST * old) - old) if name == self.last else ratio
        return replace(self, factors=factors, seen=self.seen | {name}, last=name)


@dataclass(frozen=True, slots=True)
class Feedback:
    """All statistics of one master; immutable, and passed from join to join."""

    units: UnitCosts = field(default_factory=UnitCosts)
    by_size: Mapping[int, SizeStats] = field(default_factory=dict)

    def of(self, tuples: int) -> SizeStats:
        """The statistics of rounds of about this size; if there are none, the factors of the nearest size."""
        size = _size(tuples)
        if size in self.by_size or not self.by_size:
            return self.by_size.get(size, SizeStats())
        nearest = min(self.by_size, key=lambda other: abs(other - size))
        return SizeStats(self.by_size[nearest].factors, last=self.by_size[nearest].last)

    def with_stats(self, tuples: int, stats: SizeStats) -> Feedback:
        return replace(self, by_size={**self.by_size, _size(tuples): stats})


def _size(tuples: int) -> int:
    """The size class: powers of two, since the cost of a pass depends on the number of tuples."""
    return max(1, tuples).bit_length()
