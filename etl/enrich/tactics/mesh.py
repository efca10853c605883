"""MESHJOIN: cyclic scans of the master; every tuple waits for one full pass (ADR 12).

    R  [p0][p1][p2][p3]…   read k pages per step, in order, cyclically: no index, no seek
              │
              ▼ disk buffer
    H_S   probed with every row of the buffer; matches leave as output, tuples stay
    Q     chunk ◄ chunk ◄ chunk      the oldest chunk has met all of R and expires; its unmatched tuples are absent

Why it pays: the cost of a pass is shared by all pending tuples, whatever their distribution.

A chunk has `chunk_tuples` tuples. Staggered chunks (capacity ÷ steps per pass) let tuples leave steadily, as in the
paper; one chunk as large as H_S answers a finite batch in a single pass. When the master grows, the count of pages
restarts.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from etl.columnar.keys import I64, encode, same_kind
from etl.enrich.errors import BudgetTooSmall
from etl.enrich.ports import MasterScan
from etl.enrich.step import UNBOUNDED, BatchBudget, Cost, Matches, StreamTuples, TacticStep
from etl.enrich.tactics.pending import Found, PendingTuples


@dataclass(frozen=True, slots=True)
class MeshConfig:
    """Pending tuples (h_S), tuples per step (w), pages in the disk buffer (k)."""

    capacity: int
    chunk_tuples: int
    pages_per_step: int = 1

    def __post_init__(self) -> None:
        if self.capacity < 1 or self.chunk_tuples < 1 or self.pages_per_step < 1:
            raise BudgetTooSmall("one pending tuple and one page", 0, 1)

    @classmethod
    def staggered(cls, capacity: int, page_count: int, pages_per_step: int) -> MeshConfig:
        """As in the paper: as many chunks as a pass has steps."""
        steps = max(1, -(-page_count // pages_per_step))
        return cls(capacity, max(1, capacity // steps), pages_per_step)


@dataclass(slots=True)
class _Chunk:
    runs: int
    pages_left: int


@dataclass(slots=True)
class MeshState:
    """Pending tuples, the position of the scan, and the pages each chunk still has to meet."""

    pending: PendingTuples
    cursor: int = 0
    page_count: int = -1
    chunks: deque[_Chunk] = field(default_factory=deque)
    seek: bool = True


class MeshJoin:
    """The tactic for sources that can only be scanned."""

    def __init__(self, scan: MasterScan, config: MeshConfig) -> None:
        self._scan = scan
        self.config = config
        self.state = MeshState(PendingTuples(config.capacity))

    @property
    def room(self) -> int:
        return min(self.config.chunk_tuples, self.config.capacity - self.state.pending.size)

    @property
    def pending(self) -> int:
        """Unanswered tuples. Answered ones still occupy their place until their chunk expires."""
        return self.state.pending.unmatched

    @property
    def nbytes(self) -> int:
        return self.state.pending.nbytes

    def load(self, tuples: StreamTuples) -> None:
        runs = self.state.pending.load(tuples)
        if runs:
            self.state.chunks.append(_Chunk(runs, self._pages()))

    def advance(self, *, draining: bool, shedding: bool = False, most: BatchBudget = UNBOUNDED) -> TacticStep:  # noqa: ARG002
        state = self.state
        pages = self._pages()
        if draining and not state.pending.unmatched:
            self._expire(0, everything=True)  # the remaining tuples are answered or absent
        if not state.pending.size:
            state.seek = True
            return TacticStep()
        if not pages:
            return TacticStep(unmatched=self._expire(0, everything=True))
        count = most.pages_of(min(self.config.pages_per_step, pages - state.cursor))
        rows = self._scan.read_pages(state.cursor, count)
        seeks = int(state.seek or state.cursor == 0)
        state.cursor, state.seek = (state.cursor + count) % pages, False
        same_kind(state.pending.key_type, rows.schema.field(0).type)
        keys = encode(rows.column(0))
        found = state.pending.match(keys, remove=False)
        held = state.pending.size
        lost = self._expire(count, everything=draining and not state.pending.unmatched)
        cost = Cost(
            pages=count, seeks=seeks, rows=rows.num_rows, bytes=rows.nbytes, probes=found.probes,
            moved=held - state.pending.size,
        )  # fmt: skip
        matched, frequency = used_rows(rows, found)
        return TacticStep(matched, lost, cost, frequency)

    def shed(self, count: int) -> StreamTuples | None:  # noqa: ARG002
        """Sheds nothing: every tuple costs the same, and the oldest have completed most of their pass."""
        return None

    def shed_all(self) -> StreamTuples | None:
        return self._expire(0, everything=True)

    def schema(self, key_type: pa.DataType) -> pa.Schema:
        rows = self._scan.read_pages(0, min(1, self._scan.page_count()))
        same_kind(key_type, rows.schema.field(0).type)
        return rows.schema

    def _pages(self) -> int:
        """The length of a pass; after a change, every chunk has to meet all pages again."""
        count = self._scan.page_count()
        if count != self.state.page_count:
            self.state.page_count = count
            self.state.cursor = self.state.cursor % count if count else 0
            for chunk in self.state.chunks:
                chunk.pages_left = count
        return count

    def _expire(self, pages: int, *, everything: bool) -> StreamTuples | None:
        """Remove the oldest chunks that have met every page."""
        chunks = self.state.chunks
        runs = 0
        for chunk in chunks:
            chunk.pages_left -= pages
        while chunks and (everything or chunks[0].pages_left <= 0):
            runs += chunks.popleft().runs
        return self.state.pending.expire(runs) if runs else None


def used_rows(rows: pa.Table, found: Found) -> tuple[Matches, I64]:
    """Only the rows that matched, renumbered, with the number of tuples each matched."""
    frequency = np.bincount(found.row, minlength=rows.num_rows)
    used = np.flatnonzero(frequency)
    number = np.cumsum(frequency > 0) - 1
    return Matches(found.tickets, number[found.row], rows.take(pa.array(used))), frequency[used]
