"""Audit and publish one decided batch: from the files of its decision to Delta tables and mart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.adapters.delta.data_files import read_parts
from etl.adapters.durable import renew
from etl.adapters.great_expectations.audit import Audit
from etl.adapters.ledger import BatchRecord, DataFile, Decision
from etl.adapters.mart import Replaced
from etl.contract.resolve import ResolvedPipeline
from etl.errors import TerminalError
from etl.pipeline.inspection.comparison import compare
from etl.pipeline.loading.copying import Copying
from etl.pipeline.tasks.plan import BACKLOG, CORRECTIONS, FACT, QUARANTINE, Places, notes_of
from etl.validate.distribution import Profile

if TYPE_CHECKING:
    from etl.pipeline.microbatch import MicroBatch

TABLES = (FACT, QUARANTINE, BACKLOG)
_A_WHILE = timedelta(hours=1)
"""How much older than its load a batch's files may be; more would shorten the time for which they are kept."""


def ask_audit(
    audit: Audit, places: Places, resolved: ResolvedPipeline, record: BatchRecord, past: Sequence[Profile]
) -> dict[str, Any]:
    """The suite's verdict on the events that the batch itself accepted, and the comparison with earlier batches.

    A batch that accepted nothing passes.
    """
    released = record.decided.released_files  # a person has approved those
    files = tuple(file for file in record.decided.of_table(FACT) if file.path not in released)
    verdict: dict[str, Any] = {"success": True, "expectations": []}
    rows = read_parts(places.tables, files) if files else None
    if rows is not None:
        verdict = audit.check(
            rows, resolved.pipeline, record.started_at, record.batch, sum(file.rows for file in files)
        )
    return compare(verdict, past, record, rows, resolved.pipeline)


def publish(run: MicroBatch, record: BatchRecord, rows: Copying) -> None:
    """Add the files to the Delta logs, then load the mart and close the batch in one transaction."""
    if record.state not in ("passed", "released"):
        raise TerminalError(f"batch {record.batch} of {run.name} is {record.state}; only one that passed is published")
    first = run.ledger.oldest_unloaded()
    if first is not None and first.batch != record.batch:
        raise TerminalError(f"batch {first.batch} of {run.name} was decided before {record.batch} and goes first")
    decision = record.decided
    touched = entered(decision)
    for table in touched:
        run.checkpoint(f"before {table} is published")
        run.ledger.fence(run.writer.epoch)  # a Delta log has no fence of its own
        run.delta.add(table, decision.of_table(table), record.batch)
        run.checkpoint(f"after {table} is published")
    if correct(run, record):
        touched.append(CORRECTIONS)
    loading = rows.done()
    loaded_at = run.clock()
    if record.decided_at is None or loaded_at - record.decided_at > _A_WHILE:
        renew(_needed(run, record))
    freshness = _freshness(run, decision.of_table(FACT), loaded_at.timestamp())
    run.checkpoint("before the mart is loaded")
    loading.finish(run.writer, loaded_at, rows.aggregates, freshness, touched, _replaced(run, record))
    run.checkpoint("after the mart is loaded")


def entered(decision: Decision) -> list[str]:
    """The tables whose logs get an entry of a batch.

    There is always one: a ledger that was restored learns from the logs which batches it has forgotten. The fact's
    entry has no files where a batch brought duplicates only, or all that it accepted was set aside (ADR 130).
    """
    tables = [table for table in TABLES if decision.of_table(table)]
    return tables if tables or decision.of_table(CORRECTIONS) else [FACT]


def _needed(run: MicroBatch, record: BatchRecord) -> Iterator[Path]:
    """What loading a batch again takes. However long it was held, a ledger from before its load finds it (ADR 131)."""
    decision, places = record.decided, run.places
    yield from notes_of(places, record.batch)[-1:]
    yield from (places.tables / CORRECTIONS / one.path for one in decision.of_table(CORRECTIONS))
    for files in (*decision.mart.values(), *decision.replaced.values()):
        yield from (places.mart / name for name in files)


def correct(run: MicroBatch, record: BatchRecord) -> bool:
    """Correct facts with unknown members whose master rows have come; false when there are none."""
    files = record.decided.of_table(CORRECTIONS)
    if files:
        run.checkpoint("before the fact is corrected")
        run.delta.correct(FACT, files, run.resolved.pipeline.stream.key, record.batch)
        run.checkpoint("after the fact is corrected")
    return bool(files)


def _replaced(run: MicroBatch, record: BatchRecord) -> list[Replaced]:
    """Rows of the mart that replace earlier ones, table by table."""
    decision = record.decided
    if not decision.replaced:
        return []
    keys = read_parts(run.places.tables, decision.of_table(CORRECTIONS), list(run.resolved.pipeline.stream.key))
    return [Replaced(table, [run.places.mart / name for name in names], keys)
            for table, names in decision.replaced.items()]  # fmt: skip


def _freshness(run: MicroBatch, files: tuple[DataFile, ...], loaded_at_s: float) -> Mapping[str, float] | None:
    """Age of events when they became visible."""
    if not files:
        return None
    landed = read_parts(run.places.tables, files, ["landed_at"])["landed_at"]
    ages = loaded_at_s - pc.cast(landed, pa.int64()).to_numpy() / 1e6
    p50, p95 = np.percentile(ages, [50, 95])
    return {"p50": round(float(p50), 3), "p95": round(float(p95), 3)}
