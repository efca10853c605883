"""Decisions on refused lines: the part shared by the command and the form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, Literal

from etl.adapters import ledger
from etl.adapters.ledger import Ledger
from etl.errors import TerminalError
from etl.pipeline.prepare import Preparer, places_of
from etl.pipeline.review.days import Days
from etl.pipeline.review.quarantine import Quarantine, Selection
from etl.pipeline.review.release import Checkpoint, Outcome, Person, reject, release
from etl.pipeline.review.reprocess import Reprocessed, reprocess
from etl.pipeline.writer_lock import writing
from etl.settings import Settings

Action = Literal["list", "release", "reject"]
_PATIENCE_S = 60.0  # longer than a batch


def _no_fault(_: str) -> None:
    """The default checkpoint: injects no fault."""


class NoteMissing(TerminalError):
    """A rejection without a reason."""

    exit_code = 64

    def __str__(self) -> str:
        return "a rejection is final and needs a note that says why"


@dataclass(frozen=True)
class Desk:
    """The refused lines of one pipeline or stream, and the actions on them."""

    settings: Settings
    dsn: str = field(repr=False)
    ledger: Ledger
    look: Callable[[Ledger], Quarantine]
    checkpoint: Callable[[str], None] = _no_fault

    @cached_property
    def quarantine(self) -> Quarantine:
        return self.look(self.ledger)

    def release(self, wanted: Selection, person: Person, patience_s: float = _PATIENCE_S) -> Outcome:
        """Release lines; waits for a running batch."""
        book, holder = self.ledger.pipeline, f"release by {person.by}"
        with writing(self.settings, self.dsn, book, holder, patience_s) as writer:
            return release(self.look(writer.ledger), writer, wanted, person, self.checkpoint)

    def reprocess(self, days: Days, person: Person, patience_s: float = _PATIENCE_S) -> Reprocessed:
        """Reprocess days; waits for a running batch."""
        book, holder = self.ledger.pipeline, f"reprocess by {person.by}"
        with writing(self.settings, self.dsn, book, holder, patience_s) as writer:
            return reprocess(self.look(writer.ledger), writer, days, person, self.checkpoint)

    def reject(self, wanted: Selection, person: Person) -> Outcome:
        """Keep lines out for good."""
        if not person.note.strip():
            raise NoteMissing
        return reject(self.quarantine, self.ledger, wanted, person)

    def act(self, action: Action, wanted: Selection, person: Person, limit: int) -> dict[str, Any]:
        """Perform a form's action; returns plain values."""
        if action == "list":
            found = islice(self.quarantine.find(wanted), limit)
            return {"action": action, "lines": [self.quarantine.shown(line) for line in found]}
        outcome = self.release(wanted, person) if action == "release" else self.reject(wanted, person)
        return {"action": action, **outcome.as_json()}


@contextmanager
def open_desk(settings: Settings, dsn: str, pipeline: str, checkpoint: Checkpoint = _no_fault) -> Iterator[Desk]:
    """The desk of one pipeline."""
    declared = Preparer(settings, dsn).declared(pipeline)
    places = places_of(settings, declared)
    with ledger.reading(dsn, pipeline) as book:
        yield Desk(settings, dsn, book, lambda book: Quarantine(declared, places, book), checkpoint)
