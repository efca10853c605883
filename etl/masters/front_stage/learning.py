"""When a front stage learns: as often as a tenth of the batches' own time pays for, and at once while it is new.

    batch ── frequencies ──▶ gathered ──┐
    batch ── its seconds ── a tenth ──▶ balance ── covers what learning cost last ──▶ learn from all that was gathered

What is gathered is bounded in keys, and a round reads rows only as long as the balance covers it. A new front stage
starts with credit: its first rounds are worth most (ADR 25).
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
        """A batch has taken so long."""
        self.balance_s = min(CREDIT_S, self.balance_s + self.share * batch_s)

    def gather(self, frequencies: KeyFrequencies) -> KeyFrequencies | None:
        """Add what a batch wanted; gives everything gathered when it is time to learn, else None."""
        alike = [one for one in self._gathered if one.keys.type == frequencies.keys.type]
        self._gathered = [*alike, frequencies]  # keys of another type are other keys
        if self.balance_s < min(self.cost_s, CREDIT_S):  # more is never on the balance: such a round is cut short
            if len(self._gathered) > 8:
                self._gathered = [total(self._gathered)]
            return None
        due, self._gathered = total(self._gathered), []
        return due

    def paid(self, clock: Callable[[], float], began: float, going_on: Callable[[], bool]) -> Callable[[], bool]:
        """Whether a round that began at `began` may go on: nobody waits for it, and the balance covers it."""
        return lambda: going_on() and clock() - began < self.balance_s

    def spend(self, clock: Callable[[], float], began: float) -> None:
        """A round that began at `began` is over."""
        self.cost_s = clock() - began
        self.spent_s += self.cost_s
        self.balance_s -= self.cost_s
