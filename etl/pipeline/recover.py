"""Reconcile ledger and Delta after one of them was restored from a backup.

    Delta ahead     the ledger is older: missing batches are restored from the notes beside the data
    ledger ahead    Delta is older: the files of its decisions are added again

Either direction handles every batch in between or raises; none is skipped. A note is a copy of a decision, written
before the ledger commits it; the note of a commit that failed is overwritten by the next decision.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from etl.adapters.durable import write_durably
from etl.adapters.landing import Slice
from etl.adapters.ledger import RESTORED, BatchRecord, Decision
from etl.errors import TerminalError
from etl.pipeline.loading import publishing
from etl.pipeline.review import release
from etl.pipeline.review.quarantine import Quarantine
from etl.pipeline.tasks.plan import BACKLOG, CORRECTIONS, FACT, QUARANTINE, BatchPlan, Places

if TYPE_CHECKING:
    from etl.pipeline.microbatch import MicroBatch

TABLES = (FACT, QUARANTINE, BACKLOG)


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
    if ahead > known:
        _finish(run, ahead)
        _put_back(run, known, ahead)
    release.settle(refused)


def _add_again(run: MicroBatch, table: str, held: int) -> None:
    """Delta is older: add the files of every later batch again."""
    oldest = run.ledger.oldest()
    if oldest is not None and oldest > held + 1:
        raise HistoryForgotten(run.name, table, held, oldest)
    for record in run.ledger.loaded_after(held):
        files = record.decided.of_table(table)
        if files and run.delta.add(table, files, record.batch):
            run.progress(f"batch {record.batch} was missing in {table} and has been added again")


def _correct_again(run: MicroBatch, fixed: int) -> None:
    """The same for corrections of unknown members."""
    for record in run.ledger.loaded_after(fixed):
        if publishing.correct(run, record):
            run.progress(f"what batch {record.batch} had corrected has been corrected again")


def _finish(run: MicroBatch, ahead: int) -> None:
    """The ledger was restored to the middle of a batch; Delta holds later batches, so that batch's outcome is known."""
    begun = run.ledger.oldest_unloaded()
    if begun is None or begun.batch > ahead:
        return
    if begun.state == "reading":
        run.ledger.abandon(begun.batch)  # its note has the decision; a new try would write other files
        return
    run.ledger.record_audit(begun.batch, "passed", RESTORED)
    run.publish(begun.batch)


def _put_back(run: MicroBatch, known: int, ahead: int) -> None:
    """The ledger is older: restore every batch that Delta holds from its note."""
    for batch in range(known + 1, ahead + 1):
        path = _note_path(run.places, batch)
        try:
            note = json.loads(path.read_bytes())
        except FileNotFoundError:
            raise NoteMissing(run.name, batch, known) from None
        run.ledger.restore(batch, note, [Slice.from_json(one) for one in note["slices"]], run.writer.epoch)
        run.progress(f"batch {batch} was missing in the ledger and has been put back from its note")
        run.publish(batch)


def write_note(places: Places, began: BatchRecord, plan: BatchPlan, decision: Decision, decided_at: datetime) -> None:
    """A copy of the decision beside the data, synced before the ledger commits."""
    note = {
        "batch": plan.batch,
        "run_id": began.run_id,
        "started_at": began.started_at.isoformat(),
        "decided_at": decided_at.isoformat(),
        "decision": decision.as_json(),
        "slices": [one.as_json() for one in plan.slices],
    }
    write_durably(_note_path(places, plan.batch), json.dumps(note).encode())


def revise_note(places: Places, batch: int, decision: Decision) -> None:
    """Rewrite the note of a decision that has changed before it is published."""
    note = json.loads(_note_path(places, batch).read_bytes())
    write_durably(_note_path(places, batch), json.dumps({**note, "decision": decision.as_json()}).encode())


def _note_path(places: Places, batch: int) -> Path:
    return places.notes / f"{batch:09d}.json"
