"""Publish a batch's results of ad-hoc queries: one Delta table per query, created with its first rows.

If a table cannot be written, its query is suspended with the reason; the batch is loaded, the others go on. Tables are
independent of each other, so several are committed concurrently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from deltalake.exceptions import DeltaError

from etl.adapters import postgres
from etl.adapters.delta.append import DeltaAppender
from etl.adapters.ledger import DataFile
from etl.correlate.adhoc.optimize.decisions import Decision
from etl.errors import TerminalError
from etl.pipeline.process_state import process_state
from etl.streams.adhoc.registry import QueryRegistry
from etl.streams.tasks.plan import RESULTS, Places

if TYPE_CHECKING:
    from etl.streams.ledger import BatchRecord
    from etl.streams.microbatch import MicroBatch

ROOT = "queries/"
APPLICATION = "frontstage-queries"
UNUSABLE = (DeltaError, OSError)  # errors that mean a table is unusable
_AT_A_TIME = 16  # the time is spent waiting for the disk


def query_table(places: Places, folder: str) -> DeltaAppender:
    """The table of one query."""
    return process_state().delta_appender(places.queries / folder / RESULTS, APPLICATION)


def publish_queries(run: MicroBatch, record: BatchRecord, files: Mapping[str, Sequence[DataFile]]) -> None:
    """Add a decided batch's files to the tables of their queries; `files` are by the tables' folders."""
    if not files:
        return
    failed: dict[str, str] = {}

    def publish(folder: str) -> None:
        run.checkpoint(f"before results of queries/{folder} is published")
        try:
            query_table(run.places, folder).add(files[folder], record.batch)
        except (*UNUSABLE, TerminalError) as error:
            failed[folder] = f"its table cannot be written: {str(error).splitlines()[0]}"
        run.checkpoint(f"after results of queries/{folder} is published")

    if len(files) == 1:
        publish(next(iter(files)))
    else:
        with ThreadPoolExecutor(_AT_A_TIME, "publish-queries") as pool:
            list(pool.map(publish, files))
    if failed:
        suspend(run, record.batch, failed)


def suspend(run: MicroBatch, batch: int, failed: Mapping[str, str]) -> None:
    """Suspend queries until they are resumed; `failed` has the reasons, by table folder."""
    reasons = {int(folder.rpartition("-")[2]): reason for folder, reason in failed.items()}
    with postgres.connect(run.dsn) as connection:
        registry = QueryRegistry(connection)
        registry.suspend(reasons)
        names = {folder.rpartition("-")[0]: reason for folder, reason in failed.items()}
        registry.log(run.clock(), batch, [Decision(batch, "suspend", name, why) for name, why in names.items()])
        connection.commit()
    for name, why in names.items():
        run.progress(f"query {name} is suspended: {why}")
