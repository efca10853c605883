"""Reprocess days: refused and waiting events are tried again with today's rules and masters (ADR 99).

    refused, without a verdict       ──▶ released: the lines land again, and the next batches read them
    waiting for a master row         ──▶ marked: the next batch looks them up, whether or not a master has changed
    in the fact with unknown members ──▶ marked as well, and corrected where their rows have come

Only verdicts and marks are written here, by the pipeline's one writer; ordinary batches do the rest. A second call
finds nothing: a line that is refused again counts as refused today. Facts, duplicates, rejected lines and events that
wait for a person stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from etl.adapters.ledger import Ledger, Writer
from etl.pipeline.review.aside import REJECTED
from etl.pipeline.review.days import Days
from etl.pipeline.review.quarantine import Quarantine, Selection
from etl.pipeline.review.release import Checkpoint, Person, release
from etl.pipeline.tasks.line_choice import POISON

LEFT_OUT = frozenset({REJECTED, POISON})
"""Reasons of lines that are not reprocessed: a person rejected their batch, or they are poison."""


@dataclass(frozen=True, slots=True)
class Reprocessed:
    """What was requested, in numbers."""

    days: Days
    lines: int  # land again
    impossible: int  # refused lines whose bytes were not kept completely
    waiting: int  # events that are looked up again
    unknown: int  # events in the fact whose unknown members are

    def as_json(self) -> dict[str, object]:
        return {
            "first": self.days.first.isoformat(),
            "last": self.days.last.isoformat(),
            "lines": self.lines,
            "impossible": self.impossible,
            "waiting": self.waiting,
            "unknown": self.unknown,
        }

    def sentences(self) -> Iterator[str]:
        yield f"{self.days}: {self.lines:,} refused lines land again"
        yield f"{self.waiting:,} events that wait and {self.unknown:,} with unknown members are looked up again"
        if self.impossible:
            yield f"{self.impossible:,} refused lines were not kept whole; they stay"


def reprocess(
    quarantine: Quarantine, writer: Writer, days: Days, person: Person, checkpoint: Checkpoint
) -> Reprocessed:
    """Request that days are reprocessed. The caller holds the pipeline's lock."""
    waiting, unknown = writer.ledger.retry_waiting(days.begin, days.end, writer.epoch)
    checkpoint("after events are marked")
    outcome = release(quarantine, writer, refused_in(days), person, checkpoint)
    return Reprocessed(days, len(outcome.done), len(outcome.impossible), waiting, unknown)


def preview(quarantine: Quarantine, ledger: Ledger, days: Days) -> Reprocessed:
    """What would be requested; nothing is written."""
    lines = sum(1 for _ in quarantine.find(refused_in(days)))
    return Reprocessed(days, lines, 0, *ledger.waiting_since(days.begin, days.end))


def refused_in(days: Days) -> Selection:
    """Lines without a verdict that batches have refused on these days."""
    return Selection(decided=days, without=LEFT_OUT)
