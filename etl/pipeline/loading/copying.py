"""COPY a batch's rows into the mart while its audit runs.

    decided ─┬─ COPY into the mart's tables: a thread, its own open transaction, rows still invisible ─┐
             └─ audit ─ Delta logs ────────────────────────────────────────────────────────────────────┴─ finish

A COPY waits for Postgres and an audit for Python, so side by side they cost little more than the longer of the two.
Only publishing ends the transaction; a batch that is held and a driver that dies leave it to be rolled back.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from etl.adapters import mart
from etl.adapters.lease import session_name
from etl.adapters.ledger import BatchRecord
from etl.contract.model import MartTable
from etl.contract.words.expressions import aggregate
from etl.errors import TerminalError
from etl.pipeline.tasks import unknown
from etl.pipeline.tasks.mart_rows import merge

if TYPE_CHECKING:
    from etl.pipeline.microbatch import MicroBatch

_CANCEL_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class Copying:
    """Rows that are being copied, and the batch's additions to aggregates."""

    loading: mart.Loading
    copied: Future[None] = field(repr=False)
    aggregates: tuple[mart.Groups, ...] = ()

    def done(self) -> mart.Loading:
        """Wait until all rows are copied; raises the error of the copy."""
        self.copied.result()
        return self.loading


@contextmanager
def copying(run: MicroBatch, record: BatchRecord) -> Iterator[Copying]:
    """Start copying the rows of a decided batch; leaving the block without finishing rolls back."""
    files = [(table, _files(run, record, table)) for table in run.resolved.pipeline.mart]
    rows = {table.name: paths for table, paths in files if paths and not table.is_aggregate}
    corrects = bool(record.decided.corrected)
    groups = (_groups(table, paths, corrects=corrects) for table, paths in files if table.is_aggregate)
    aggregates = tuple(found for found in groups if found is not None)
    session = session_name(run.name, run.writer.epoch)  # ended by the server if the writer goes silent
    with mart.loading(run.dsn, record.batch, session) as loading, ThreadPoolExecutor(1, "copy") as pool:
        copied = pool.submit(loading.copy, rows, {name: _expected(record, name) for name in rows})
        try:
            yield Copying(loading, copied, aggregates)
        finally:
            while wait([copied], _CANCEL_EVERY_S if copied.running() else 0).not_done:
                loading.cancel()


def _expected(record: BatchRecord, table: str) -> int:
    """How many rows a table gets: none of set-aside events if the table was declared after them."""
    taken = record.decided.taken_up
    without = sum(one.events for one in taken if one.word == "released" and table not in one.mart)
    return record.counts.accepted - without


def _files(run: MicroBatch, record: BatchRecord, table: MartTable) -> list[Path]:
    """Files that tasks wrote for a table; none if nothing was accepted or the table was declared after the decision."""
    paths = [run.places.mart / name for name in record.decided.mart.get(table.name, ())]
    missing = [path.name for path in paths if not path.exists()]
    if missing:
        raise TerminalError(
            f"batch {record.batch} of {run.name} cannot be loaded into mart.{table.name}: {missing[0]} is gone; "
            "restore Postgres and the warehouse from the same time"
        )
    return paths


def _groups(table: MartTable, paths: list[Path], *, corrects: bool) -> mart.Groups | None:
    parts = list(mart.read_parts(paths))
    if not parts:
        return None
    functions = {name: aggregate(text).function for name, text in table.values.items()}
    return mart.Groups(table, merge(parts, table), functions, unknown.counter(table) if corrects else None)
