"""What the tasks of a batch need to know about ad-hoc queries: little, for the queries themselves are in a file."""

from __future__ import annotations

from dataclasses import dataclass

from etl.streams.adhoc.state import LiveSegment


@dataclass(frozen=True, slots=True)
class QueriesPlan:
    """All queries in one batch."""

    version: str  # the file of queries and plan
    streams: frozenset[str]  # that some query reads
    slot_us: int
    first_slot: int | None  # tuples of earlier slots are late; None: nothing has come yet
    segments: tuple[LiveSegment, ...]  # of earlier batches
    shares: int  # in so many parts keys are dealt out to tasks
    rows_most: int  # of one query in a batch

    def shares_of(self, task: int, tasks: int) -> list[int]:
        """The shares of keys that a task has."""
        return [share for share in range(self.shares) if share % tasks == task]
