"""The input of a batch's tasks about ad-hoc queries; the queries themselves are in a file."""

from __future__ import annotations

from dataclasses import dataclass

from etl.streams.adhoc.state import LiveSegment


@dataclass(frozen=True, slots=True)
class QueriesPlan:
    """All queries in one batch."""

    version: str  # the file of queries and plan
    streams: frozenset[str]  # that some query reads
    slot_us: int
    first_slot: int | None  # tuples of earlier slots are late; None: no tuples yet
    segments: tuple[LiveSegment, ...]  # of earlier batches
    shares: int  # parts into which keys are hashed for tasks
    rows_most: int  # limit per query and batch

    def shares_of(self, task: int, tasks: int) -> list[int]:
        """The key shares of a task."""
        return [share for share in range(self.shares) if share % tasks == task]
