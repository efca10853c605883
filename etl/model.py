"""Words everybody shares: what a batch is called, where an order can go, and what a batch's counts are.

Nothing here knows Spark, Postgres or Airflow, and nothing here imports upward.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from etl.errors import TerminalError

Route = Literal["accepted", "quarantined", "backlog", "duplicate"]
"""Where one landed line goes. Exactly one of these, decided once, in staging."""

BatchState = Literal["staged", "passed", "held", "released", "loaded"]
"""staged → passed | held; held → released (by a person); passed | released → loaded."""

Step = Literal["ingest_enrich", "validate", "load", "report"]
"""The visible steps of a run, in their order."""

Progress = Callable[[str], None]
"""How a step tells what it did, a sentence at a time."""

_RETRIES_PER_SEQUENCE = 1_000_000


@dataclass(frozen=True, slots=True, order=True)
class BatchId:
    """The name of one micro-batch: a rising whole number that also says where the batch came from.

    `sequence` counts the micro-batches of the stream. Between two of them, orders of the backlog may become
    joinable although nothing new landed; such a pass has the same sequence and a `retry` above 0. Both order
    by `number`, which is what Delta transactions and the ledger carry: `12` < `12.1` < `13`.
    """

    sequence: int
    retry: int = 0

    def __post_init__(self) -> None:
        if self.sequence < 0 or not 0 <= self.retry < _RETRIES_PER_SEQUENCE:
            raise TerminalError(f"{self.sequence}.{self.retry} is not a batch; batches look like 12 or 12.1")

    @property
    def number(self) -> int:
        """The batch as one integer, rising with time."""
        return self.sequence * _RETRIES_PER_SEQUENCE + self.retry

    @classmethod
    def of(cls, number: int) -> Self:
        """The batch whose `number` this is."""
        return cls(*divmod(number, _RETRIES_PER_SEQUENCE))

    @classmethod
    def parse(cls, text: str) -> Self:
        """The batch a person wrote, such as `12` or `12.1`."""
        sequence, _, retry = text.strip().partition(".")
        if not sequence.isdecimal() or not (retry.isdecimal() or not retry):
            raise TerminalError(f"{text!r} is not a batch; batches look like 12 or 12.1")
        return cls(int(sequence), int(retry or 0))

    def after(self) -> BatchId:
        """The retry pass that follows this batch when nothing new has landed."""
        if self.retry + 1 == _RETRIES_PER_SEQUENCE:
            raise TerminalError(f"batch {self} leaves no number for a further try; land an order to begin a new batch")
        return BatchId(self.sequence, self.retry + 1)

    def __str__(self) -> str:
        return f"{self.sequence}.{self.retry}" if self.retry else str(self.sequence)


@dataclass(frozen=True, slots=True)
class JoinCounts:
    """What one master's join did in a batch."""

    probes: int = 0
    hits: int = 0
    unmatched: int = 0


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """What became of a batch's lines. `landed` counts new lines only; the rest counts decisions."""

    landed: int = 0
    accepted: int = 0
    quarantined: int = 0
    duplicates: int = 0
    backlog_added: int = 0
    backlog_resolved: int = 0
    shed: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    joins: dict[str, JoinCounts] = field(default_factory=dict)

    def __post_init__(self) -> None:
        decided = self.accepted + self.quarantined + self.duplicates + self.backlog_added
        assert decided == self.landed + self.backlog_resolved, "a line was lost or decided twice"

    def as_json(self) -> dict[str, Any]:
        """Plain values, for the ledger."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """The counts the ledger holds."""
        joins = {name: JoinCounts(**counts) for name, counts in value["joins"].items()}
        return cls(**{**value, "joins": joins})
