"""Settle the tables of ad-hoc queries with the ledger: either may have been restored from another time.

Hundreds of tables are looked at once per process, not with every batch: adding a batch's files asks the table anyway
which batch it ended with. A query that was suspended and runs again is looked at once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from etl.errors import TerminalError
from etl.pipeline.process_state import process_state
from etl.streams.adhoc.publish import ROOT, add, query_log
from etl.streams.adhoc.registry import QueryRegistry
from etl.streams.plan import RESULTS

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
    """Batches that a table lacks are added again from the decisions; a table that is ahead is refused."""
    key = (run.places.queries, "queries", "settled")
    settled = process_state().prepared.get(key) is not None
    for record in QueryRegistry(run.ledger.connection).active():
        if settled and record.created_batch is not None:
            continue
        delta = query_log(run.places, record.folder)
        there = (delta.folder(RESULTS) / "_delta_log").exists()
        held = delta.newest_batch(RESULTS) if there else 0
        if held > newest:
            raise QueryTablesAhead(record.name, held, newest)
        for batch in run.ledger.loaded_after(max(held, (record.created_batch or 1) - 1)):
            files = batch.decided.by_table().get((f"{ROOT}{record.folder}", RESULTS))
            if files:
                add(run.places, record.folder, files, batch.batch)
                run.progress(
                    f"the table of query {record.name} was older than the ledger; batch {batch.batch} is there"
                )
    process_state().prepared[key] = (True, None)
