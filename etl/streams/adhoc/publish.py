"""Publish what a batch has for ad-hoc queries: a Delta table each, made with its first rows, written once per batch.

A table that cannot be written suspends its query with the reason; the batch is loaded, the others go on. Tables are
independent of each other, so several are committed at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from etl.adapters import postgres
from etl.adapters.delta_log import DeltaLog
from etl.adapters.ledger import DataFile
from etl.correlate.adhoc.optimize.decisions import Decision
from etl.errors import TerminalError
from etl.pipeline.process_state import process_state
from etl.streams.adhoc.registry import QueryRegistry
from etl.streams.plan import RESULTS, Places

if TYPE_CHECKING:
    from etl.streams.ledger import BatchRecord
    from etl.streams.microbatch import MicroBatch

ROOT = "queries/"
_AT_A_TIME = 4


def query_log(places: Places, folder: str) -> DeltaLog:
    """The table of one query."""
    return process_state().delta_log(places.queries / folder, "frontstage-queries")


def publish_queries(run: MicroBatch, record: BatchRecord, files: Mapping[str, Sequence[DataFile]]) -> None:
    """Add a decided batch's files to the tables of their queries; `files` are by the tables' folders."""
    if not files:
        return
    failed: dict[str, str] = {}

    def publish(folder: str) -> None:
        run.checkpoint(f"before results of queries/{folder} is published")
        try:
            add(run.places, folder, files[folder], record.batch)
        except (DeltaError, OSError, TerminalError) as error:
            failed[folder] = f"its table cannot be written: {str(error).splitlines()[0]}"
        run.checkpoint(f"after results of queries/{folder} is published")

    if len(files) == 1:
        publish(next(iter(files)))
    else:
        with ThreadPoolExecutor(_AT_A_TIME, "publish-queries") as pool:
            list(pool.map(publish, files))
    if failed:
        _suspend(run, record.batch, failed)


def add(places: Places, folder: str, files: Sequence[DataFile], batch: int) -> None:
    """Make the files part of a query's table, once."""
    delta = query_log(places, folder)
    if not (delta.folder(RESULTS) / "_delta_log").exists():
        delta.create(RESULTS, pq.read_schema(delta.folder(RESULTS) / files[0].path))
    delta.add(RESULTS, files, batch)


def _suspend(run: MicroBatch, batch: int, failed: Mapping[str, str]) -> None:
    reasons = {int(folder.rpartition("-")[2]): reason for folder, reason in failed.items()}
    with postgres.connect(run.dsn) as connection:
        registry = QueryRegistry(connection)
        registry.suspend(reasons)
        names = {folder.rpartition("-")[0]: reason for folder, reason in failed.items()}
        registry.log(run.clock(), batch, [Decision(batch, "suspend", name, why) for name, why in names.items()])
        connection.commit()
    for name, why in names.items():
        run.progress(f"query {name} is suspended: {why}")
