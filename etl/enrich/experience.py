"""What `auto` knows of a master: what reading costs, how long each tactic's rounds really took, who joined last.

calculated price · factor = price        factor: measured over calculated, of rounds of about this size

never seen           tried once when it might be the best: a calculated price may be wrong either way
seen, not the best   its price fades a little with every round of others, so that one bad round is not held
                     against it for ever; the dearer it is, the longer that takes; its next round tells
the last one         stays unless another is clearly cheaper
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from etl.enrich.cost import UnitCosts

TacticName = Literal["inlj", "hybridjoin", "meshjoin"]

_LEARN = 0.3  # weight of the newest round
_MOST = 2.0  # times the price expected: what a round beyond it took says more of the machine than of the tactic
_FADE = 0.995
_TRY = 1.5  # times the cheapest
_HOLD = 1.05


@dataclass(frozen=True, slots=True)
class Known:
    """What rounds of about one size have taught."""

    factors: Mapping[TacticName, float] = field(default_factory=dict)
    seen: frozenset[TacticName] = frozenset()
    last: TacticName | None = None

    def priced(self, calculated: Mapping[TacticName, float]) -> dict[TacticName, float]:
        """Seconds expected of each tactic."""
        return {name: seconds * self.factors.get(name, 1.0) for name, seconds in calculated.items()}

    def choose(self, seconds: Mapping[TacticName, float], *, curious: bool) -> TacticName:
        """Whom to let join, at these prices. `curious`: somebody will tell how long it took."""
        cheapest = min(seconds, key=lambda name: seconds[name])
        if curious:
            new = [name for name in seconds if name not in self.seen and seconds[name] <= _TRY * seconds[cheapest]]
            if new:
                return min(new, key=lambda name: seconds[name])
        if self.last is not None and seconds.get(self.last, float("inf")) <= _HOLD * seconds[cheapest]:
            return self.last
        return cheapest

    def after(self, name: TacticName, calculated: float, took: float, others: Iterable[TacticName]) -> Known:
        """What is known once a round of `name` took so long where the others might have run."""
        ratio = max(1e-9, took) / max(1e-9, calculated)
        old = self.factors.get(name, 1.0)
        factors = {other: self.factors.get(other, 1.0) * _FADE for other in others}
        factors[name] = old + _LEARN * (min(ratio, _MOST * old) - old) if name == self.last else ratio
        return replace(self, factors=factors, seen=self.seen | {name}, last=name)


@dataclass(frozen=True, slots=True)
class Experience:
    """Grows from round to round; handed on, it outlives a join."""

    units: UnitCosts = field(default_factory=UnitCosts)
    by_size: Mapping[int, Known] = field(default_factory=dict)

    def of(self, tuples: int) -> Known:
        """What is known of rounds like one of so many tuples; prices of the nearest size, where there were none."""
        size = _size(tuples)
        if size in self.by_size or not self.by_size:
            return self.by_size.get(size, Known())
        nearest = min(self.by_size, key=lambda other: abs(other - size))
        return Known(self.by_size[nearest].factors, last=self.by_size[nearest].last)

    def with_known(self, tuples: int, known: Known) -> Experience:
        return replace(self, by_size={**self.by_size, _size(tuples): known})


def _size(tuples: int) -> int:
    """Sizes are alike within a factor of two: what a pass costs depends on how many tuples it meets."""
    return max(1, tuples).bit_length()
