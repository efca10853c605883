"""Reconcile ledger and Delta after one of them was restored from a backup.

    Delta ahead     the ledger is older: missing batches are restored from the notes beside the data
    ledger ahead    Delta is older: the files of its decisions are added again

Either direction handles every batch in between or raises; none is skipped. A note is a copy of a decision, written
before the ledger commits it:

    _decisions/000000012-000001.json     batch 12; a try that was not committed is followed by -000002,
                                          and the highest holds

A note is never overwritten. Its number is chosen before the writer's epoch is checked, and must still be free after it:
a writer that is overtaken in between finds its number taken, or has one below that of its successor (ADR 117).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etl.adapters.durable import create_durably
from etl.adapters.landing import Slice
from etl.adapters.ledger import RESTORED, BatchRecord, Decision
from etl.errors import TerminalError, TransientError
from etl.model import BatchState
from etl.pipeline.loading import publishing
from etl.pipeline.review import release
from etl.pipeline.review.quarantine import Quarantine
from etl.pipeline.tasks.plan import BACKLOG, CORRECTIONS, FACT, QUARANTINE, BatchPlan, Places

if TYPE_CHECKING:
    from etl.pipeline.microbatch import MicroBatch

TABLES = (FACT, QUARANTINE, BACKLOG)
_BEFORE_A_VERDICT: tuple[BatchState, ...] = ("decided", "held")
_NOTE = re.compile(r"([0-9]{9,})(?:-([0-9]{6,}))?\.json")  # those of older versions have no number


class NoteMissing(TerminalError):
    """Delta holds a batch that neither the ledger nor a note knows."""

    def __init__(self, pipeline: str, batch: int, last: int) -> None:
        super().__init__(pipeline, batch, last)
        self.pipeline, self.batch, self.last = pipeline, batch, last

    def __str__(self) -> str:
        return (
            f"the tables of {self.pipeline} hold batch {self.batch}, the ledger ends with batch {self.last} and no "
            "note of that batch is left; restore Postgres and the warehouse from the same time"
        )


class NoteTaken(TransientError):
    """Two writers were about to write the same note."""

    def __init__(self, pipeline: str, batch: int) -> None:
        super().__init__(pipeline, batch)
        self.pipeline, self.batch = pipeline, batch

    def __str__(self) -> str:
        return f"another writer has noted batch {self.batch} of {self.pipeline}; the batch will be retried"


class HistoryForgotten(TerminalError):
    """Delta was restored from before the oldest batch that the ledger still knows."""

    def __init__(self, pipeline: str, table: str, held: int, oldest: int) -> None:
        super().__init__(pipeline, table, held, oldest)
        self.pipeline, self.table, self.held, self.oldest = pipeline, table, held, oldest

    def __str__(self) -> str:
        return (
            f"table {self.table} of {self.pipeline} ends with batch {self.held}, but the ledger remembers batches from "
            f"{self.oldest} on; restore Postgres and the warehouse from the same time"
        )


def settle(run: MicroBatch) -> None:
    """Reconcile ledger and Delta. When they agree, this only reads the newest log entries."""
    refused = Quarantine(run.resolved.pipeline, run.places, run.ledger)
    release.put_back(refused, run.ledger)  # first: nothing else tells the next run that verdicts are missing
    published = run.ledger.published()
    held = {table: run.delta.newest_batch(table) for table in TABLES}
    for table in TABLES:
        if held[table] < published.get(table, 0):
            _add_again(run, table, held[table])
    fixed = run.delta.newest_correction(FACT)
    if fixed < published.get(CORRECTIONS, 0):
        _correct_again(run, fixed)
    last = run.ledger.last_decided()
    known = 0 if last is None else last.batch
    ahead = max(fixed, *held.values())
    if ahead > known or _waits_again(last, ahead):
        _finish(run, ahead)
        _put_back(run, known, ahead)
    release.settle(refused)


def _add_again(run: MicroBatch, table: str, held: int) -> None:
    """Delta is older: add the files of every later batch again."""
    oldest = run.ledger.oldest()
    if oldest is not None and oldest > held + 1:
        raise HistoryForgotten(run.name, table, held, oldest)
    for record in run.ledger.loaded_after(held):
        if table not in publishing.entered(record.decided):
            continue
        if run.delta.add(table, record.decided.of_table(table), record.batch):
            run.progress(f"batch {record.batch} was missing in {table} and has been added again")


def _correct_again(run: MicroBatch, fixed: int) -> None:
    """The same for corrections of unknown members."""
    for record in run.ledger.loaded_after(fixed):
        if publishing.correct(run, record):
            run.progress(f"what batch {record.batch} had corrected has been corrected again")


def _waits_again(last: BatchRecord | None, ahead: int) -> bool:
    """Whether the newest batch waits for a verdict and is in a table, where none comes without one."""
    return last is not None and last.batch == ahead and last.state in _BEFORE_A_VERDICT


def _finish(run: MicroBatch, ahead: int) -> None:
    """The ledger was restored to the middle of a batch; Delta holds that batch, so what became of it is known."""
    begun = run.ledger.oldest_unloaded()
    if begun is None or begun.batch > ahead:
        return
    if begun.state == "reading":
        run.ledger.abandon(begun.batch)  # its note has the decision; a new try would write other files
        return
    if begun.state in _BEFORE_A_VERDICT:
        _pass(run, begun)
    run.publish(begun.batch)


def _pass(run: MicroBatch, begun: BatchRecord) -> None:
    """Let a batch pass as it did then: whole, or without the events that its note says were set aside (ADR 130)."""
    noted = Decision.from_json(_read_note(run, begun.batch, begun.batch)["decision"])
    if noted.aside is None:
        run.ledger.record_audit(begun.batch, "passed", RESTORED)
    else:
        run.ledger.set_aside(begun.batch, noted, RESTORED, run.writer.epoch)


def _put_back(run: MicroBatch, known: int, ahead: int) -> None:
    """The ledger is older: restore every batch that Delta holds from its note."""
    for batch in range(known + 1, ahead + 1):
        note = _read_note(run, batch, known)
        run.ledger.restore(batch, note, [Slice.from_json(one) for one in note["slices"]], run.writer.epoch)
        run.progress(f"batch {batch} was missing in the ledger and has been put back from its note")
        run.publish(batch)


def write_note(run: MicroBatch, began: BatchRecord, plan: BatchPlan, decision: Decision, decided_at: datetime) -> None:
    """A copy of the decision beside the data, synced before the ledger commits."""
    _write(run, plan.batch, _note(began, decision, decided_at, plan.slices))


def _note(began: BatchRecord, decision: Decision, decided_at: datetime, slices: Sequence[Slice]) -> dict[str, Any]:
    return {
        "batch": began.batch,
        "run_id": began.run_id,
        "started_at": began.started_at.isoformat(),
        "decided_at": decided_at.isoformat(),
        "decision": decision.as_json(),
        "slices": [one.as_json() for one in slices],
    }


def revise_note(run: MicroBatch, record: BatchRecord, decision: Decision) -> None:
    """Note a decision anew that has changed before it is published: the ledger has all that a note says."""
    assert record.decided_at is not None, "only a decision is revised"
    _write(run, record.batch, _note(record, decision, record.decided_at, run.ledger.slices(record.batch)))


def confirm_note(run: MicroBatch, record: BatchRecord) -> None:
    """Note what is published, if the newest note says otherwise: setting events aside may have ended after its note."""
    second = run.places.notes / f"{record.batch:09d}-000002.json"
    if second.exists():  # nearly always there is one note, and looking for it costs nothing
        noted = Decision.from_json(_read_note(run, record.batch, record.batch)["decision"])
        if noted != record.decided:
            revise_note(run, record, record.decided)


def _write(run: MicroBatch, batch: int, note: dict[str, Any]) -> None:
    numbers = _notes(run.places, batch)  # before the fence: whoever overtakes this writer later chooses no lower one
    path = run.places.notes / f"{batch:09d}-{max(numbers, default=0) + 1:06d}.json"
    run.ledger.fence(run.writer.epoch)
    try:
        create_durably(path, json.dumps(note).encode())
    except FileExistsError:
        raise NoteTaken(run.name, batch) from None


def _read_note(run: MicroBatch, batch: int, known: int) -> dict[str, Any]:
    """The note of a batch that holds. `known`: the newest batch that the ledger has decided."""
    notes = _notes(run.places, batch)
    if not notes:
        raise NoteMissing(run.name, batch, known)
    note: dict[str, Any] = json.loads(notes[max(notes)].read_bytes())
    return note


def _notes(places: Places, batch: int) -> dict[int, Path]:
    """The notes of a batch by their number; that of an older version has 0."""
    prefix = f"{batch:09d}"
    names = os.listdir(places.notes) if places.notes.is_dir() else []  # noqa: PTH208 - many, and names will do
    found = [_NOTE.fullmatch(name) for name in names if name.startswith(prefix)]
    return {int(note[2] or 0): places.notes / note[0] for note in found if note is not None and note[1] == prefix}
