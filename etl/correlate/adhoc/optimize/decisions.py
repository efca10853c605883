"""Decisions of the optimizer, with reasons in words and numbers; plain data, kept as a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["ask", "delete", "resume", "suspend", "share", "group", "order", "reoptimize", "scale"]


@dataclass(frozen=True, slots=True)
class Decision:
    slot: int
    kind: Kind
    subject: str  # a query, an edge, a task
    words: str
    numbers: Mapping[str, float] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        parts = {"slot": self.slot, "kind": self.kind, "subject": self.subject, "words": self.words}
        return {**parts, "numbers": dict(self.numbers)}
