"""Decisions on batches whose audit failed: list them, show what failed, release or reject.

questions   open decisions: held batches, and events that were set aside while other batches went on
answer      the verdict, final; the next run of the pipeline applies it (etl.pipeline.review.aside)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from etl.adapters import ledger
from etl.adapters.ledger import BatchRecord
from etl.contract.model import Pipeline
from etl.errors import TerminalError
from etl.pipeline.review.release import Person
from etl.pipeline.writer_lock import writing
from etl.settings import Settings

Word = Literal["released", "rejected"]
_PATIENCE_S = 60.0  # longer than a batch


class ReasonMissing(TerminalError):
    """A rejection without a reason."""

    exit_code = 64

    def __str__(self) -> str:
        return "to reject a batch puts all that it accepted into quarantine, and needs a note that says why"


@dataclass(frozen=True, slots=True)
class Question:
    """A batch that waits for a person's decision."""

    pipeline: str
    batch: int
    events: int
    failed: tuple[dict[str, Any], ...]  # expectations, with what was observed
    since: datetime | None
    others_wait: bool

    @classmethod
    def of(cls, record: BatchRecord) -> Question:
        expectations = (record.audit or {}).get("expectations", ())
        failed = tuple(one for one in expectations if not one["success"])
        events = record.aside or record.counts.accepted
        return cls(record.pipeline, record.batch, events, failed, record.decided_at, record.state == "held")

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "since": None if self.since is None else self.since.isoformat()}

    def sentences(self) -> list[str]:
        """A summary for the decision."""
        others = "later batches wait for it" if self.others_wait else "later batches go on without them"
        yet = [f"{self.events} accepted events of batch {self.batch} of {self.pipeline} are held; {others}."]
        return yet + [_failure(one) for one in self.failed]


def _failure(one: dict[str, Any]) -> str:
    column = f" of {one['column']}" if one["column"] else ""
    observed = f", observed {one['observed']}" if one["observed"] else ""
    return f"{one['name']}{column} failed: {one['unexpected']} unexpected values{observed}."


def questions(dsn: str, pipelines: Sequence[Pipeline]) -> list[Question]:
    """All open decisions, pipeline by pipeline, oldest first."""
    found = []
    for pipeline in pipelines:
        with ledger.reading(dsn, pipeline.name) as book:
            found += [Question.of(record) for record in book.unjudged()]
    return found


def answer(settings: Settings, dsn: str, pipeline: str, batch: int, word: Word, person: Person) -> bool:
    """Decide on a batch; waits for an active run. False when a decision exists already."""
    if word == "rejected" and not person.note.strip():
        raise ReasonMissing
    verdict = {"word": word, "by": person.by, "at": person.at.isoformat(), "note": person.note}
    with writing(settings, dsn, pipeline, f"{word} by {person.by}", _PATIENCE_S) as writer:
        return writer.ledger.judge(batch, verdict)
