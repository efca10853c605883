"""Types shared by all packages: routes of events, states of batches, counts.

Nothing here depends on Spark, Postgres or Airflow, or imports from outer layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from etl.errors import TerminalError

Route = Literal["accepted", "quarantined", "backlog", "duplicate"]
"""The route of an event: exactly one of these, decided once."""

BatchState = Literal["reading", "decided", "passed", "held", "released", "loaded"]
"""reading → decided → passed | held; held → released (by a person); passed | released → loaded."""

Step = Literal["ingest", "audit", "publish", "report"]
"""The visible steps of a run, in their order."""

Operation = Literal["micro_batch", "ingest", "audit", "publish", "report"]
"""The operations of a driver: a single step, or all steps up to the mart."""

Progress = Callable[[str], None]
"""A callback for a step's progress, one sentence per call."""


class LinesDoNotAddUp(TerminalError):
    """Readers and routers disagree about the number of events: the batch is not decided."""

    def __init__(self, pipeline: str, batch: int, read: int, routed: int) -> None:
        super().__init__(pipeline, batch, read, routed)
        self.pipeline, self.batch, self.read, self.routed = pipeline, batch, read, routed

    def __str__(self) -> str:
        return (
            f"batch {self.batch} of {self.pipeline} has read {self.read} lines and routed {self.routed}; "
            "nothing was decided, and this is a fault of Frontstage: please report it"
        )


@dataclass(frozen=True, slots=True)
class JoinCounts:
    """Counts of one master's join in a batch."""

    probes: int = 0
    hits: int = 0
    unmatched: int = 0

    def __add__(self, other: JoinCounts) -> JoinCounts:
        return JoinCounts(self.probes + other.probes, self.hits + other.hits, self.unmatched + other.unmatched)


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """Counts of a batch's events by route. `lines` is counted by the readers, the rest by the routers."""

    lines: int = 0
    accepted: int = 0
    quarantined: int = 0
    duplicates: int = 0
    backlog_added: int = 0
    backlog_resolved: int = 0
    shed: int = 0
    held: int = 0  # of backlog_added, those that wait for a person's decision
    unknown: int = 0  # of accepted, those with an unknown member
    corrected: int = 0  # of earlier batches, those whose unknown member has come
    reasons: dict[str, int] = field(default_factory=dict)
    joins: dict[str, JoinCounts] = field(default_factory=dict)
    added_fields: dict[str, int] = field(default_factory=dict)  # by undeclared name, about how many lines

    @property
    def routed(self) -> int:
        """The number of new lines that were routed."""
        return self.accepted + self.quarantined + self.duplicates + self.backlog_added - self.backlog_resolved

    def as_json(self) -> dict[str, Any]:
        """Plain values, for the ledger."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """The counts stored in the ledger."""
        joins = {name: JoinCounts(**counts) for name, counts in value["joins"].items()}
        return cls(**{**value, "joins": joins})
