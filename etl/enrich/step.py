"""The values passed between the parts of a join (ADR 10).

    offer ──► StreamTuples ──► front stage ──► tactic ──► Step(matched, unmatched, shed, …) ──► caller

A stream tuple is a ticket (its number in order of offering) and a key. The caller keeps the tuple's other fields and
finds them by ticket.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np
import pyarrow as pa

from etl.columnar.keys import I64, Keys

NO_TICKETS: I64 = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class StreamTuples:
    """Stream tuples in order of arrival."""

    tickets: I64
    keys: Keys

    def __len__(self) -> int:
        return len(self.tickets)

    def take(self, rows: I64 | slice) -> StreamTuples:
        return StreamTuples(self.tickets[rows], self.keys.take(rows))


def stacked(parts: list[StreamTuples]) -> StreamTuples:
    """Concatenate runs of tuples."""
    if len(parts) == 1:
        return parts[0]
    keys = [part.keys for part in parts]
    hi = None if keys[0].hi is None else np.concatenate([k.hi for k in keys if k.hi is not None])
    exact = None if keys[0].exact is None else pa.concat_arrays([k.exact for k in keys])
    lanes = Keys(np.concatenate([k.lo for k in keys]), hi, exact, keys[0].type)
    return StreamTuples(np.concatenate([part.tickets for part in parts]), lanes)


@dataclass(frozen=True, slots=True)
class Matches:
    """Stream tuples with their master rows: tuple `tickets[i]` goes with row `row[i]` of `rows`."""

    tickets: I64
    row: I64
    rows: pa.Table | None = None  # None when there is no match
    front: bool = False  # answered by the front stage

    def __len__(self) -> int:
        return len(self.tickets)


NO_MATCHES = Matches(NO_TICKETS, NO_TICKETS)


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a step, in machine-independent units."""

    pages: int = 0  # master pages read
    seeks: int = 0  # jumps to a page or to keys that did not follow the last read
    lookups: int = 0  # keys looked up in the master
    rows: int = 0  # master rows handled
    bytes: int = 0  # size of those rows
    probes: int = 0  # master rows probed against pending tuples, or the other way round
    front_probes: int = 0  # stream tuples probed against the front stage
    moved: int = 0  # stream tuples removed from the pending ones

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Cost)))


@dataclass(frozen=True, slots=True)
class TacticStep:
    """The result of one round of a tactic."""

    matched: Matches = NO_MATCHES
    unmatched: StreamTuples | None = None  # proven to have no master row
    cost: Cost = Cost()
    frequency: I64 = field(default_factory=lambda: NO_TICKETS)  # tuples matched by each row of `matched.rows`


@dataclass(frozen=True, slots=True)
class BatchBudget:
    """How much of the master one batch may read. Counted, not timed: a retried batch sheds the same tuples."""

    pages: int | None = None
    lookups: int | None = None

    @property
    def bounded(self) -> bool:
        return (self.pages, self.lookups) != (None, None)

    @property
    def spent(self) -> bool:
        return 0 in (self.pages, self.lookups)

    def lookups_of(self, many: int) -> int:
        """How many of `many` keys may still be looked up."""
        return many if self.lookups is None else min(many, self.lookups)

    def pages_of(self, many: int) -> int:
        """How many of `many` pages may still be read."""
        return many if self.pages is None else min(many, self.pages)

    def within(self, other: BatchBudget) -> BatchBudget:
        """The smaller of both."""
        pages = [most for most in (self.pages, other.pages) if most is not None]
        lookups = [most for most in (self.lookups, other.lookups) if most is not None]
        return BatchBudget(min(pages, default=None), min(lookups, default=None))

    def after(self, used: Cost) -> BatchBudget:
        """The budget that is left after this cost."""
        return BatchBudget(
            None if self.pages is None else max(0, self.pages - used.pages),
            None if self.lookups is None else max(0, self.lookups - used.lookups),
        )


UNBOUNDED = BatchBudget()

_GAUGES = frozenset({"threshold", "front_bytes", "front_rows", "pending", "waiting", "state_bytes"})


@dataclass(frozen=True, slots=True)
class Metrics:
    """Counters, and gauges (threshold, bytes, pending) with their last value."""

    tuples: int = 0  # offered
    nulls: int = 0  # without a key
    front_hits: int = 0  # matched by the front stage
    negative_hits: int = 0  # known absent by the front stage
    misses_capacity: int = 0  # the master has the row, the front stage had not
    misses_absent: int = 0  # the master has no such row
    misses_stale: int = 0  # the front stage had an invalidated answer
    matched: int = 0  # by either phase
    unmatched: int = 0
    shed: int = 0
    reloaded: int = 0
    steps: int = 0
    admissions: int = 0
    evictions: int = 0
    cost: Cost = Cost()
    threshold: int = 0
    front_bytes: int = 0
    front_rows: int = 0
    pending: int = 0  # in the tactic
    waiting: int = 0  # in the stream buffers
    state_bytes: int = 0  # all memory of the join

    @property
    def hit_ratio(self) -> float:
        """Share of the answered tuples that the front stage answered."""
        hits = self.front_hits + self.negative_hits
        answered = hits + self.misses_capacity + self.misses_absent + self.misses_stale
        return hits / answered if answered else 0.0

    def __add__(self, other: Metrics) -> Metrics:
        """Combine with later metrics: counters add up, gauges are taken from the later ones."""
        total = {}
        for f in fields(Metrics):
            mine, theirs = getattr(self, f.name), getattr(other, f.name)
            total[f.name] = theirs if f.name in _GAUGES else mine + theirs
        return Metrics(**total)


@dataclass(frozen=True, slots=True)
class Step:
    """The result of one outer iteration of a join, independent of the join's own state."""

    matched: tuple[Matches, ...]  # front stage first, then the tactic
    unmatched: I64  # tickets without a master row
    known_absent: I64  # those of them that the front stage answered
    shed: StreamTuples | None  # to be stored by the caller and offered again
    reload: int  # how many shed tuples may be offered again now
    metrics: Metrics
