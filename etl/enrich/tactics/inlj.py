"""Index nested loop: every key that missed the front stage is looked up, many at once.

    misses ──► distinct keys ──► one lookup ──► rows ──► matches; keys without a row are absent

The textbook version does one lookup per tuple (`batch_tuples=1`); looking up the distinct keys of a whole batch is the
same join at a fraction of the cost, and shows which keys are frequent without an extra buffer. In small batches too few
keys repeat, so the paper adds a temporary buffer of recent keys: `recent_keys` of them here.

A batch with a lookup budget looks up the keys with the most tuples (`best_first`), or, like HYBRIDJOIN, those of the
tuples around `position` of the queue (ADR 70).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from etl.columnar.keys import I64, Distinct, Keys, distinct, encode, in_key_order, match_rows, same_kind
from etl.enrich.errors import BudgetTooSmall
from etl.enrich.ports import MasterLookup
from etl.enrich.step import UNBOUNDED, BatchBudget, Cost, Matches, StreamTuples, TacticStep, stacked


@dataclass(frozen=True, slots=True)
class InljConfig:
    """The number of tuples per round, and of recent keys kept beyond it."""

    batch_tuples: int = 65_536
    recent_keys: int = 4_096
    best_first: bool = True  # of a bounded batch
    position: float = 0.15  # of the queue, 0 is its newest tuple; where a bounded batch begins without `best_first`

    def __post_init__(self) -> None:
        if self.batch_tuples < 1:
            raise BudgetTooSmall("one lookup", 0, 1)
        if not 0.0 <= self.position <= 1.0:
            raise ValueError(f"position={self.position} is not a share of the queue between 0 and 1")


@dataclass(slots=True)
class InljState:
    """Tuples of the round, and keys of earlier rounds (lanes only)."""

    tuples: StreamTuples | None = None
    recent: list[Keys] = field(default_factory=list)


class IndexNestedLoop:
    """The tactic for sources with bulk lookup."""

    def __init__(self, lookup: MasterLookup, config: InljConfig | None = None) -> None:
        self._lookup = lookup
        self.config = config or InljConfig()
        self.state = InljState()

    @property
    def room(self) -> int:
        return self.config.batch_tuples - self.pending

    @property
    def pending(self) -> int:
        return 0 if self.state.tuples is None else len(self.state.tuples)

    @property
    def nbytes(self) -> int:
        tuples = self.state.tuples
        held = 0 if tuples is None else tuples.tickets.nbytes + tuples.keys.nbytes
        return held + sum(keys.nbytes for keys in self.state.recent)

    def load(self, tuples: StreamTuples) -> None:
        if len(tuples):
            held = [] if self.state.tuples is None else [self.state.tuples]
            self.state.tuples = stacked([*held, tuples])

    def advance(self, *, draining: bool, shedding: bool = False, most: BatchBudget = UNBOUNDED) -> TacticStep:  # noqa: ARG002
        if self.state.tuples is None:
            return TacticStep()
        tuples, later = self._chosen(self.state.tuples, most)
        groups = in_key_order(tuples.keys)
        wanted = tuples.keys.take(groups.first)
        rows = self._lookup.lookup(wanted.arrow())
        self.state.tuples = later
        same_kind(wanted.type, rows.schema.field(0).type)
        row_of_key = match_rows(encode(rows.column(0)), wanted) if rows.num_rows else np.full(len(wanted), -1, np.int64)
        row = row_of_key[groups.codes]
        found = row >= 0
        frequency = np.zeros(rows.num_rows, np.int64)
        known = row_of_key >= 0
        frequency[row_of_key[known]] = self._frequency(wanted, groups)[known]
        missing = np.flatnonzero(~found)
        return TacticStep(
            matched=Matches(tuples.tickets[found], row[found], rows),
            unmatched=tuples.take(missing) if len(missing) else None,
            frequency=frequency,
            cost=Cost(seeks=1, lookups=len(wanted), rows=rows.num_rows, bytes=rows.nbytes, probes=len(tuples)),
        )

    def shed(self, count: int) -> StreamTuples | None:  # noqa: ARG002
        return None

    def shed_all(self) -> StreamTuples | None:
        tuples, self.state.tuples = self.state.tuples, None
        return tuples

    def schema(self, key_type: pa.DataType) -> pa.Schema:
        return self._lookup.lookup(pa.array([], key_type)).schema

    def _chosen(self, tuples: StreamTuples, most: BatchBudget) -> tuple[StreamTuples, StreamTuples | None]:
        """The tuples of as many keys as may be looked up, and the other tuples."""
        if most.lookups is None or most.lookups >= len(tuples):
            return tuples, None
        groups = distinct(tuples.keys)
        if self.config.best_first:
            keys = np.argsort(-groups.counts, kind="stable")[: most.lookups]
        else:
            keys = _keys_around(groups, self.config.position, most.lookups)
        asked = np.zeros(len(groups.counts), bool)
        asked[keys] = True
        now = asked[groups.codes]
        later = np.flatnonzero(~now)
        return tuples.take(np.flatnonzero(now)), tuples.take(later) if len(later) else None

    def _frequency(self, wanted: Keys, groups: Distinct) -> I64:
        """The recent frequency of each key: in this round, and in the buffer of earlier ones."""
        if len(groups.codes) >= self.config.recent_keys:
            self.state.recent.clear()
            return groups.counts
        before = self.state.recent
        counts = groups.counts.copy()
        if before:
            old = match_rows(wanted, _joined(before))
            np.add.at(counts, old[old >= 0], 1)
        before.append(Keys(wanted.lo[groups.codes], None if wanted.hi is None else wanted.hi[groups.codes], None, None))
        while sum(len(keys) for keys in before) > self.config.recent_keys:
            before.pop(0)
        return counts


def _keys_around(groups: Distinct, position: float, count: int) -> I64:
    """The keys selected by repeatedly taking the element at `position` out of a queue.

    As elements leave, the position keeps its ratio of older to newer tuples: both sides are used up in proportion, the
    nearest first.
    """
    tuples = len(groups.codes)
    away = np.arange(tuples) - (1.0 - position) * (tuples - 1)  # the oldest stand first
    steps = np.where(away < 0, -away / max(1.0 - position, 1e-9), away / max(position, 1e-9))
    order = np.argsort(steps, kind="stable")
    keys, first = np.unique(groups.codes[order], return_index=True)
    return keys[np.argsort(first, kind="stable")[:count]].astype(np.int64)


def _joined(parts: list[Keys]) -> Keys:
    hi = None if parts[0].hi is None else np.concatenate([part.hi for part in parts if part.hi is not None])
    return Keys(np.concatenate([part.lo for part in parts]), hi, None, None)
