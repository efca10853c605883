"""Settle ledger and Delta with each other before a batch: either may have been restored from another time.

ledger ahead    Delta is older: the files of its decisions are added again
Delta ahead     refused: the ledger does not know which state and segments those batches left
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from etl.errors import TerminalError
from etl.streams.plan import LATE, QUARANTINE, RESULTS
from etl.streams.publishing import delta_log

if TYPE_CHECKING:
    from etl.streams.microbatch import MicroBatch


class TablesAhead(TerminalError):
    """A table holds a batch that the ledger does not know."""

    def __init__(self, table: str, held: int, last: int) -> None:
        super().__init__(table, held, last)
        self.table, self.held, self.last = table, held, last

    def __str__(self) -> str:
        return (
            f"table {self.table} holds batch {self.held} and the ledger ends with batch {self.last}; "
            "restore Postgres and the warehouse from the same time"
        )


class TablesBehind(TerminalError):
    """A table lacks batches whose decisions are forgotten."""

    def __init__(self, table: str, held: int, published: int) -> None:
        super().__init__(table, held, published)
        self.table, self.held, self.published = table, held, published

    def __str__(self) -> str:
        return (
            f"table {self.table} ends with batch {self.held}, batch {self.published} was published to it and decisions "
            "in between are forgotten; restore Postgres and the warehouse from the same time"
        )


def settle(run: MicroBatch) -> None:
    """Costs a look at the newest log entry of every table when they agree."""
    last = run.ledger.last()
    newest = 0 if last is None else last.batch if last.decision is not None else last.batch - 1
    published = run.ledger.book.published()
    for root, table in _tables(run):
        name, delta = f"{root}/{table}", delta_log(run.places, root)
        held = delta.newest_batch(table) if (delta.folder(table) / "_delta_log").exists() else 0
        if held > newest:
            raise TablesAhead(name, held, newest)
        if published.get(name, 0) > held:
            _add_again(run, root, table, held, published[name])


def _tables(run: MicroBatch) -> list[tuple[str, str]]:
    streams = [(f"streams/{one.name}", QUARANTINE) for one in run.catalog.streams]
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
