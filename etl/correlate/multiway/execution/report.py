"""What a run did, what it shipped, and what waits."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Shipped:
    """What one file took across."""

    batch: int
    kind: str
    streams: int
    origin: str
    destination: str
    tuples: int
    bytes: int

    @property
    def crosses(self) -> bool:
        return self.origin != self.destination


@dataclass(frozen=True, slots=True)
class Waiting:
    """A step that was not done: `site` is away, or has work left that another task does; `at` is who would do it."""

    batch: int
    step: str
    site: str
    at: str


@dataclass
class RunReport:
    """What a run did. `shipped` is of all batches it worked on, `sent` what it shipped itself.

    `replayed` was shipped to fill the windows of a new plan.
    """

    finished: list[int] = field(default_factory=list)
    shipped: list[Shipped] = field(default_factory=list)
    replayed: list[Shipped] = field(default_factory=list)
    sent: list[Shipped] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)

    @property
    def waits_for(self) -> list[str]:
        return sorted({one.site for one in self.waiting})
