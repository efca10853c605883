"""Reconcile the tables of ad-hoc queries with the ledger after one of them was restored from a backup.

There may be hundreds of tables, so each is checked once per process, not with every batch: adding a batch's files reads
the table's last batch anyway. A resumed query is checked again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from etl.errors import TerminalError
from etl.pipeline.process_state import process_state
from etl.streams.adhoc.publish import ROOT, UNUSABLE, query_table, suspend
from etl.streams.adhoc.registry import QueryRegistry, Record
from etl.streams.tasks.plan import RESULTS

if TYPE_CHECKING:
    from etl.streams.microbatch import MicroBatch


class QueryTablesAhead(TerminalError):
    """A query's table holds a batch that the ledger does not know."""

    def __init__(self, query: str, held: int, last: int) -> None:
        super().__init__(query, held, last)
        self.query, self.held, self.last = query, held, last

    def __str__(self) -> str:
        return (
            f"the table of query {self.query!r} holds batch {self.held} and the ledger ends with batch {self.last}; "
            "restore Postgres and the warehouse from the same time"
        )


def settle_queries(run: MicroBatch, newest: int) -> None:
    """Add batches that a table lacks again from the decisions; raises for a table that is ahead.

    If a table is unreadable, its query is suspended.
    """
    key = (run.places.queries, "queries", "settled")
    settled = process_state().prepared.get(key) is not None
    failed: dict[str, str] = {}
    for record in QueryRegistry(run.ledger.connection).active():
        if settled and record.created_batch is not None:
            continue
        try:
            _settle(run, record, newest)
        except UNUSABLE as error:
            failed[record.folder] = f"its table cannot be read: {str(error).splitlines()[0]}"
    if failed:
        suspend(run, newest, failed)
    process_state().prepared[key] = (True, None)


def _settle(run: MicroBatch, record: Record, newest: int) -> None:
    table = query_table(run.places, record.folder)
    if not table.folder.exists():
        return  # no batch has written anything for it
    held = table.newest_batch()
    if held > newest:
        raise QueryTablesAhead(record.name, held, newest)
    for batch in run.ledger.loaded_after(max(held, (record.created_batch or 1) - 1)):
        files = batch.decided.by_table().get((f"{ROOT}{record.folder}", RESULTS))
        if files:
            table.add(files, batch.batch)
            run.progress(f"the table of query {record.name} was older than the ledger; batch {batch.batch} is there")
