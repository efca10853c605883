"""The ledger in Postgres: input, decision and state of every batch; and the writer's lock.

    writing(dsn, pipeline, holder) ── advisory lock + rising epoch ──▶ Writer ── commits only under its own epoch

    fix      the slices of landed files or topics that a batch reads           state reading
    decide   ONE commit: files, counts, master versions, claims, backlog       state decided
    record…  the audit's verdict, durations of steps
    load     in the mart's transaction: totals, published tables               state loaded

Progress is stored nowhere else. One row per batch carries its state and figures, so a run can be resumed,
reported and counted without reading the warehouse again.

    ledger         the commits that touch several tables; reading, writing
    pipeline_row   the pipeline: declaration, writer, published batches
    batches, held  batches: state, figures; those that wait for a person (batch_rows: finding any)
    inputs         slices of landed files and topics, the archive
    open_events    claims, backlog, unknown members
    records        the rows as plain values
"""

from etl.adapters.ledger.errors import Fenced, NotHeld
from etl.adapters.ledger.ledger import Ledger, Writer, reading, writing
from etl.adapters.ledger.records import (
    RESTORED,
    Aside,
    BacklogFile,
    BatchRecord,
    Cause,
    DataFile,
    Decision,
    TakenUp,
)

__all__ = [
    "RESTORED",
    "Aside",
    "BacklogFile",
    "BatchRecord",
    "Cause",
    "DataFile",
    "Decision",
    "Fenced",
    "Ledger",
    "NotHeld",
    "TakenUp",
    "Writer",
    "reading",
    "writing",
]
