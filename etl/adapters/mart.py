"""The Postgres mart: executors copy a batch into a stage of its own, one transaction makes it visible.

    partition ──COPY──▶ etl.load_<batch> ─┐
    partition ──COPY──▶ etl.load_<batch> ─┴─▶ one transaction: claims, mart.orders, mart.daily_sales, ledger row

The transaction commits only under the epoch of the writer that began it, and only if the batch is not loaded yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pyarrow as pa
from psycopg2 import sql

from etl.adapters import postgres
from etl.adapters.ledger import Writer
from etl.errors import Busy, TerminalError
from etl.model import BatchId


def stage_of(batch: BatchId) -> str:
    """The name of the batch's stage."""
    return f"etl.load_{batch.number}"


def make_stage(dsn: str, batch: BatchId) -> None:
    """An empty stage for the batch, whatever an earlier try left behind."""
    name = postgres.identifier(stage_of(batch))
    with postgres.connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(sql.SQL("drop table if exists {}").format(name))
        cursor.execute(sql.SQL(postgres.statement("load_stage")).format(stage=name))


def copy_partition(dsn: str, stage: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Copy one partition; runs on an executor. All of it or, when the task fails, nothing."""
    rows = 0
    with postgres.connect(dsn) as connection:
        for batch in batches:
            rows += postgres.copy_in(connection, stage, pa.Table.from_batches([batch]))
        connection.commit()
    yield pa.RecordBatch.from_pydict({"rows": pa.array([rows], pa.int64())})


def commit(dsn: str, writer: Writer, batch: BatchId, loaded_at: datetime, expected_rows: int) -> bool:
    """Make the batch visible; False when an earlier try had done so already."""
    stage = postgres.identifier(stage_of(batch))
    values = {"batch": batch.number, "loaded_at": loaded_at}
    with postgres.connect(dsn) as connection, connection.cursor() as cursor:
        _fence(cursor, writer)
        cursor.execute("select state from etl.batch where batch = %(batch)s for update", values)
        (state,) = cursor.fetchone() or (None,)
        if state == "loaded":
            return False
        if state not in ("passed", "released"):
            raise TerminalError(f"batch {batch} is {state or 'unknown'}; only a batch that passed the gate is loaded")
        cursor.execute(sql.SQL("select count(*) from {}").format(stage))
        (copied,) = cursor.fetchone() or (0,)
        assert copied == expected_rows, f"{copied} rows were copied, {expected_rows} were staged"
        for name in ("load_claims", "load_mart", "batch_loaded"):
            cursor.execute(sql.SQL(postgres.statement(name)).format(stage=stage), values)
        cursor.execute(sql.SQL("drop table {}").format(stage))
        connection.commit()
    return True


def _fence(cursor: postgres.Cursor, writer: Writer) -> None:
    """Hold the epoch until we commit; a newer writer has taken over when it differs."""
    cursor.execute("select epoch, holder from etl.writer for share")
    epoch, holder = cursor.fetchone() or (None, "nobody")
    if epoch != writer.epoch:
        raise Busy(holder)
