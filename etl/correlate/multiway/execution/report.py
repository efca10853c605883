"""The report of a run: work done, shipments, waiting steps."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Shipped:
    """One shipped file."""

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
    """A step that was not done because it waits for `site`, which is unreachable or not finished; `at` executes it."""

    batch: int
    step: str
    site: str
    at: str


@dataclass
class RunReport:
    """The report of a run. `shipped` covers all batches it worked on, `sent` only its own shipments.

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
