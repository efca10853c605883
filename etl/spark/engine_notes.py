"""What tasks tell the driver about their joins, added up by a Spark accumulator: counters, and keys in bounded number.

A task that is repeated tells twice, so these are figures to learn from and to look at; what decides about orders is
in the rows themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark import SparkContext
from pyspark.accumulators import Accumulator, AccumulatorParam

from etl.enrich.front_stage.frequencies import KeyFrequencies, total
from etl.enrich.step import Metrics
from etl.masters.front_stage.keeper import FrontStageStats

_MANY_PARTS = 16


@dataclass(frozen=True, slots=True)
class MasterNotes:
    """How one master's joins fared, and which keys they wanted."""

    metrics: Metrics = field(default_factory=Metrics)
    tactics: Mapping[str, int] = field(default_factory=dict)  # tuples joined, by tactic
    state_bytes: int = 0  # peak memory of the joins, summed over tasks
    learned_parts: tuple[KeyFrequencies, ...] = ()  # of tasks, added up when somebody asks

    @property
    def learned(self) -> KeyFrequencies | None:
        """All that tasks have learned."""
        return total(list(self.learned_parts)) if self.learned_parts else None

    def after(self, metrics: Metrics, tactic: str) -> MasterNotes:
        """With one more call of a join."""
        tactics = {**self.tactics, tactic: self.tactics.get(tactic, 0) + metrics.tuples}
        return replace(
            self,
            metrics=self.metrics + metrics,
            tactics=tactics,
            state_bytes=max(self.state_bytes, metrics.state_bytes),
        )

    def with_learned(self, learned: KeyFrequencies | None) -> MasterNotes:
        return replace(self, learned_parts=() if learned is None else (learned,))

    def __add__(self, other: MasterNotes) -> MasterNotes:
        """Quick, because Spark's scheduler waits for it: what was learned is put together once there is much of it."""
        names = self.tactics.keys() | other.tactics.keys()
        parts = (*self.learned_parts, *other.learned_parts)
        return MasterNotes(
            self.metrics + other.metrics,
            {name: self.tactics.get(name, 0) + other.tactics.get(name, 0) for name in names},
            self.state_bytes + other.state_bytes,
            parts if len(parts) < _MANY_PARTS else (total(list(parts)),),
        )

    def as_json(self, kept: FrontStageStats | None = None) -> dict[str, Any]:
        """The counters, for the ledger and the run report; `kept` is how the front stage stands after the batch."""
        counted = self.metrics
        return {
            "tactics": dict(self.tactics),
            "tuples": counted.tuples,
            "front_hits": counted.front_hits,
            "misses_capacity": counted.misses_capacity,
            "misses_absent": counted.misses_absent,
            "misses_stale": counted.misses_stale,
            "pages": counted.cost.pages,
            "lookups": counted.cost.lookups,
            "shed": counted.shed,
            "state_bytes": self.state_bytes,
            "front_stage": None if kept is None else kept.as_json(),
        }


Notes = dict[str, MasterNotes]
"""By master."""


class _Sum(AccumulatorParam[Notes]):  # type: ignore[misc]  # Spark comes without types
    def zero(self, value: Notes) -> Notes:  # noqa: ARG002 - Spark passes the first value
        return {}

    def addInPlace(self, one: Notes, other: Notes) -> Notes:  # noqa: N802 - Spark's name
        for name, notes in other.items():
            one[name] = one[name] + notes if name in one else notes
        return one


def collector(context: SparkContext) -> Accumulator[Notes]:
    """An empty accumulator for one batch."""
    return context.accumulator({}, _Sum())
