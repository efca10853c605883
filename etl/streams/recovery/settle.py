"""Reconcile ledger and warehouse before a batch, after one of them was restored from a backup.

    ledger ahead       Delta is older: the files of its decisions are added again
    warehouse ahead    the ledger is older: missing batches are restored from the notes, with state and segments

Either direction handles every batch in between or raises; none is skipped (ADR 93).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from etl.errors import TerminalError
from etl.pipeline.process_state import process_state
from etl.pipeline.review import release
from etl.pipeline.review.quarantine import Quarantine
from etl.streams import views
from etl.streams.adhoc.registry import QueryRegistry
from etl.streams.adhoc.settle import settle_queries
from etl.streams.declared import compiled
from etl.streams.publishing import delta_log
from etl.streams.recovery.notes import Notes, Snapshot
from etl.streams.refused import refused_lines
from etl.streams.storage.log import newest_number
from etl.streams.tasks.plan import LATE, QUARANTINE, RESULTS

if TYPE_CHECKING:
    from etl.streams.microbatch import MicroBatch


class TablesAhead(TerminalError):
    """A table holds a batch that neither the ledger nor a note knows."""

    def __init__(self, table: str, held: int, last: int) -> None:
        super().__init__(table, held, last)
        self.table, self.held, self.last = table, held, last

    def __str__(self) -> str:
        return (
            f"table {self.table} holds batch {self.held}, ledger and notes end with batch {self.last}; "
            "restore Postgres and the warehouse from the same time"
        )


class NoteMissing(TerminalError):
    """A published batch is missing in the ledger, and so is its note."""

    def __init__(self, batch: int, newest: int) -> None:
        super().__init__(batch, newest)
        self.batch, self.newest = batch, newest

    def __str__(self) -> str:
        return (
            f"correlations were published up to batch {self.newest}, the ledger lacks batch {self.batch} and no note "
            "of it is left; restore Postgres and the warehouse from the same time"
        )


class TablesBehind(TerminalError):
    """A table lacks batches whose decisions are no longer in the ledger."""

    def __init__(self, table: str, held: int, published: int) -> None:
        super().__init__(table, held, published)
        self.table, self.held, self.published = table, held, published

    def __str__(self) -> str:
        return (
            f"table {self.table} ends with batch {self.held}, batch {self.published} was published to it and decisions "
            "in between are forgotten; restore Postgres and the warehouse from the same time"
        )


def settle(run: MicroBatch) -> None:
    """Reconcile. When they agree, this only lists notes, and reads one and the newest log entry of every table."""
    notes = Notes(run.places.notes)
    newest = notes.newest()
    for one in _quarantines(run):
        release.put_back(one, run.ledger.book)  # first: nothing else tells the next run that verdicts are missing
    if newest is not None and newest.batch > _known(run):
        _finish(run, newest.batch)
        _put_back(run, notes, newest)
    for one in _quarantines(run):
        release.settle(one)
    known, published = _known(run), run.ledger.book.published()
    for root, table in _tables(run):
        name, delta = f"{root}/{table}", delta_log(run.places, root)
        held = delta.newest_batch(table) if (delta.folder(table) / "_delta_log").exists() else 0
        if held > known:
            raise TablesAhead(name, held, known)
        if published.get(name, 0) > held:
            _add_again(run, root, table, held, published[name])
    settle_queries(run, known)


def _quarantines(run: MicroBatch) -> Iterator[Quarantine]:
    return (refused_lines(stream, run.places, run.ledger.book) for stream in run.catalog.streams)


def _known(run: MicroBatch) -> int:
    """The newest batch that the ledger has decided."""
    last = run.ledger.last()
    return 0 if last is None else last.batch if last.decision is not None else last.batch - 1


def _tables(run: MicroBatch) -> list[tuple[str, str]]:
    streams = [(f"streams/{one.name}", table) for one in run.catalog.streams for table in (QUARANTINE, LATE)]
    names = [f"correlations/{name}" for name in sorted(run.catalog.names)]
    return streams + [(name, table) for name in names for table in (RESULTS, LATE)]


def _add_again(run: MicroBatch, root: str, table: str, held: int, published: int) -> None:
    added = 0
    delta = delta_log(run.places, root)
    for record in run.ledger.loaded_after(held):
        files = record.decided.by_table().get((root, table))
        if files:
            delta.add(table, files, record.batch)
            added = record.batch
    if added != published:
        raise TablesBehind(f"{root}/{table}", held, published)
    run.progress(f"{root}/{table} was older than the ledger; its batches are there again")


def _finish(run: MicroBatch, newest: int) -> None:
    """The ledger was restored to the middle of a batch whose outcome is known."""
    begun = run.ledger.oldest_unloaded()
    if begun is None or begun.batch > newest:
        return
    if begun.state == "reading":
        run.ledger.book.abandon(begun.batch)  # its note has the decision
    else:
        run.publish(begun.batch)


def _put_back(run: MicroBatch, notes: Notes, newest: Snapshot) -> None:
    """The ledger is older: restore every published batch from its note."""
    run.ledger.skip_segment_numbers(newest_number(run.places.store))
    process_state().prepared.clear()  # tables of aggregates may be younger than the backup
    for batch in range(_known(run) + 1, newest.batch + 1):
        note = notes.of(batch)
        if note is None:
            raise NoteMissing(batch, newest.batch)
        run.ledger.restore(note, newest.correlations, run.writer.epoch)
        _prepare_views(run, note["decision"]["views"])
        run.progress(f"batch {batch} was missing in the ledger and has been put back from its note")
        run.publish(batch)
    if newest.queries is not None:
        QueryRegistry(run.ledger.connection).restore(newest.queries)


def _prepare_views(run: MicroBatch, names: dict[str, str]) -> None:
    """Create the tables into which a batch loads aggregates."""
    for one in run.catalog.correlations:
        grouping = compiled(one, run.catalog.streams).grouping
        if one.name in names and grouping is not None:
            views.prepare(run.dsn, one.name, grouping)
