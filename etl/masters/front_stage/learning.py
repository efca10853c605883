"""When a front stage learns: learning may take a tenth of the batches' time; a new front stage has extra credit.

    batch ── frequencies ──▶ gathered ──┐
    batch ── its seconds ── a tenth ──▶ balance ── covers the cost of the last round ──▶ learn from all gathered keys

The number of gathered keys is bounded, and a round reads rows only as long as the balance covers it. A new front stage
starts with credit: its first rounds are the most valuable (ADR 25).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from etl.enrich.front_stage.frequencies import KeyFrequencies, total

SHARE = 0.1
CREDIT_S = 2.0


@dataclass(slots=True)
class LearningAccount:
    """One per front stage."""

    share: float = SHARE
    balance_s: float = CREDIT_S
    cost_s: float = 0.0  # of the last round
    spent_s: float = 0.0
    _gathered: list[KeyFrequencies] = field(default_factory=list)

    def earn(self, batch_s: float) -> None:
        """Credit a share of a batch's duration."""
        self.balance_s = min(CREDIT_S, self.balance_s + self.share * batch_s)

    def gather(self, frequencies: KeyFrequencies) -> KeyFrequencies | None:
        """Add a batch's key frequencies; returns everything gathered when it is time to learn, else None."""
        alike = [one for one in self._gathered if one.keys.type == frequencies.keys.type]
        self._gathered = [*alike, frequencies]  # the key's type has changed
        if self.balance_s < min(self.cost_s, CREDIT_S):  # the balance never exceeds CREDIT_S: such a round is cut short
            if len(self._gathered) > 8:
                self._gathered = [total(self._gathered)]
            return None
        due, self._gathered = total(self._gathered), []
        return due

    def paid(self, clock: Callable[[], float], began: float, going_on: Callable[[], bool]) -> Callable[[], bool]:
        """Whether a round that began at `began` may go on: `going_on` agrees, and the balance covers it."""
        return lambda: going_on() and clock() - began < self.balance_s

    def spend(self, clock: Callable[[], float], began: float) -> None:
        """Charge a round that began at `began`."""
        self.cost_s = clock() - began
        self.spent_s += self.cost_s
        self.balance_s -= self.cost_s
