"""HYBRIDJOIN: the queue selects the pages to read.

    Q   newest … … … oldest
                       │ its key
                       ▼ index
    R   the pages holding that key ──► disk buffer ──► probe H_S ──► all tuples of their rows leave, anywhere in Q

Why it pays: one index lookup brings a page that answers all pending tuples of its keys; with skew those are many. A key
that is not in the index leaves with all of its tuples as unmatched.

`lookup_position` is the queue element that selects pages: 1 is the oldest (no starvation); less while shedding, because
the oldest tuples will be shed anyway and reading for them would be wasted (0.15 is the paper's optimum). `lookups` lets
several elements select at once, for finite batches. With `best_first` a batch with a read budget reads for the keys
with the most pending tuples, at any position.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from etl.columnar.keys import Keys, encode, match_rows, same_kind
from etl.enrich.errors import BudgetTooSmall
from etl.enrich.ports import MasterIndex
from etl.enrich.step import UNBOUNDED, BatchBudget, Cost, StreamTuples, TacticStep
from etl.enrich.tactics.mesh import used_rows
from etl.enrich.tactics.pending import PendingTuples

TUNED_POSITION = 0.15


@dataclass(frozen=True, slots=True)
class HybridConfig:
    """The number of pending tuples (h_S), and which of them select the pages."""

    capacity: int
    lookups: int = 1
    lookup_position: float = 1.0
    shedding_position: float = TUNED_POSITION
    best_first: bool = False

    def __post_init__(self) -> None:
        if self.capacity < 1 or self.lookups < 1:
            raise BudgetTooSmall("one pending tuple", 0, 1)
        for name in ("lookup_position", "shedding_position"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name}={getattr(self, name)} is not a share of the queue between 0 and 1")


@dataclass(slots=True)
class HybridState:
    """The pending tuples and the position of the last read."""

    pending: PendingTuples


class HybridJoin:
    """The tactic for sources with an index from keys to pages."""

    def __init__(self, index: MasterIndex, config: HybridConfig) -> None:
        self._index = index
        self.config = config
        self.state = HybridState(PendingTuples(config.capacity))

    @property
    def room(self) -> int:
        return self.config.capacity - self.state.pending.size

    @property
    def pending(self) -> int:
        return self.state.pending.size

    @property
    def nbytes(self) -> int:
        return self.state.pending.nbytes

    def load(self, tuples: StreamTuples) -> None:
        self.state.pending.load(tuples)

    def advance(self, *, draining: bool, shedding: bool = False, most: BatchBudget = UNBOUNDED) -> TacticStep:  # noqa: ARG002
        pending = self.state.pending
        if not pending.size:
            return TacticStep()
        wanted = self._wanted(shedding, most)
        rows, pages = self._index.pages_holding(wanted.arrow())
        same_kind(wanted.type, rows.schema.field(0).type)
        keys = encode(rows.column(0))
        held = pending.size
        found = pending.match(keys, remove=True)
        lost = self._absent(wanted, keys)
        matched, frequency = used_rows(rows, found)
        cost = Cost(
            pages=pages, seeks=pages, lookups=len(wanted), rows=rows.num_rows, bytes=rows.nbytes,
            probes=found.probes, moved=held - pending.size,
        )  # fmt: skip
        return TacticStep(matched, lost, cost, frequency)

    def _wanted(self, shedding: bool, most: BatchBudget) -> Keys:
        """The keys whose pages are read in this round."""
        count = most.pages_of(most.lookups_of(self.config.lookups))
        if self.config.best_first:
            return self.state.pending.most_wanted(count)
        position = self.config.shedding_position if shedding else self.config.lookup_position
        return self.state.pending.at(position, count)

    def shed(self, count: int) -> StreamTuples | None:
        """Shed the oldest tuples: no page read since they came was theirs, so their pages are rarely wanted."""
        pending = self.state.pending
        return pending.shed(count) if pending.size and count > 0 else None

    def shed_all(self) -> StreamTuples | None:
        return self.shed(self.state.pending.size)

    def schema(self, key_type: pa.DataType) -> pa.Schema:
        rows, _ = self._index.pages_holding(pa.array([], key_type))
        same_kind(key_type, rows.schema.field(0).type)
        return rows.schema

    def _absent(self, wanted: Keys, keys: Keys) -> StreamTuples | None:
        """The tuples of selected keys that are on none of the pages read for them."""
        missing = wanted.take(np.flatnonzero(match_rows(keys, wanted) < 0))
        if not len(missing):
            return None
        found = self.state.pending.match(missing, remove=True)
        return StreamTuples(found.tickets, missing.take(found.row))
