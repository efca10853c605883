"""Counts of generated lines, with which a demo or a test compares the warehouse."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from etl.samples.plan import Kind


@dataclass(frozen=True, slots=True)
class Tally:
    """Lines by kind (`clean`, `duplicate`, …), and the malformed and out-of-range ones also by variety."""

    lines: int = 0
    files: int = 0
    size_bytes: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    varieties: dict[str, int] = field(default_factory=dict)

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.lines + other.lines,
            self.files + other.files,
            self.size_bytes + other.size_bytes,
            dict(Counter(self.kinds) + Counter(other.kinds)),
            dict(Counter(self.varieties) + Counter(other.varieties)),
        )

    def of(self, *kinds: Kind) -> int:
        """How many lines are of these kinds."""
        return sum(self.kinds.get(kind.name.lower(), 0) for kind in kinds)

    @property
    def fact(self) -> int:
        """Orders that end in the fact table once the late customers have arrived."""
        return self.of(Kind.CLEAN, Kind.LATE_CUSTOMER)

    @property
    def backlog(self) -> int:
        """Orders that wait for a customer who never arrives."""
        return self.of(Kind.UNKNOWN_CUSTOMER)

    @property
    def quarantine(self) -> int:
        """Lines that end in quarantine, whatever happens."""
        return self.of(Kind.MALFORMED, Kind.OUT_OF_RANGE, Kind.CONFLICT)

    @property
    def duplicates(self) -> int:
        """Lines that are counted and dropped."""
        return self.of(Kind.DUPLICATE)
