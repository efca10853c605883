"""Audit and publish one decided batch: from the files of its decision to tables that people read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.adapters import mart
from etl.adapters.data_files import read_parts
from etl.adapters.great_expectations import Audit
from etl.adapters.ledger import BatchRecord, DataFile
from etl.contract.expressions import aggregate
from etl.contract.resolve import ResolvedPipeline
from etl.errors import TerminalError
from etl.pipeline.mart_rows import merge
from etl.pipeline.plan import BACKLOG, FACT, QUARANTINE, Places

if TYPE_CHECKING:
    from etl.pipeline.microbatch import MicroBatch

TABLES = (FACT, QUARANTINE, BACKLOG)


def ask_audit(
    audit: Audit, places: Places, resolved: ResolvedPipeline, record: BatchRecord, files: tuple[DataFile, ...]
) -> dict[str, Any]:
    """The verdict of the suite on a batch's accepted rows. A batch without any has nothing to prove."""
    if not files:
        return {"success": True, "expectations": []}
    rows = read_parts(places.tables, files)
    return audit.check(rows, resolved.pipeline, record.started_at, record.batch, record.counts.accepted)


def publish(run: MicroBatch, record: BatchRecord) -> None:
    """Add the files to the Delta logs, then load the mart and close the batch in one transaction."""
    if record.state not in ("passed", "released"):
        raise TerminalError(f"batch {record.batch} of {run.name} is {record.state}; only one that passed is published")
    first = run.ledger.oldest_unloaded()
    if first is not None and first.batch != record.batch:
        raise TerminalError(f"batch {first.batch} of {run.name} was decided before {record.batch} and goes first")
    decision = record.decided
    touched = [table for table in TABLES if decision.of_table(table)]
    for table in touched:
        run.checkpoint(f"before {table} is published")
        run.delta.add(table, decision.of_table(table), record.batch)
        run.checkpoint(f"after {table} is published")
    loaded_at = run.clock()
    rows, aggregates, expected = _for_the_mart(run, record)
    mart.load(
        run.dsn,
        run.writer,
        record.batch,
        loaded_at,
        rows=rows,
        aggregates=aggregates,
        expected=expected,
        freshness=_freshness(run, decision.of_table(FACT), loaded_at.timestamp()),
        published=touched,
    )
    run.checkpoint("after the mart is loaded")


def _for_the_mart(run: MicroBatch, record: BatchRecord) -> tuple[dict[str, Any], dict[str, Any], dict[str, int]]:
    rows, aggregates, expected = {}, {}, {}
    for table in run.resolved.pipeline.mart:
        names = record.decided.mart.get(table.name, ())
        if not names:
            continue  # nothing was accepted, or the table was declared after the decision
        paths = [run.places.mart / name for name in names]
        missing = [path.name for path in paths if not path.exists()]
        if missing:
            raise TerminalError(
                f"batch {record.batch} of {run.name} cannot be loaded into mart.{table.name}: {missing[0]} is gone; "
                "restore Postgres and the warehouse from the same time"
            )
        if table.is_aggregate:
            parts = list(mart.read_parts(paths))
            if parts:
                functions = {name: aggregate(text).function for name, text in table.values.items()}
                aggregates[table.name] = (table, merge(parts, table), functions)
        else:
            rows[table.name] = paths
            expected[table.name] = record.counts.accepted
    return rows, aggregates, expected


def _freshness(run: MicroBatch, files: tuple[DataFile, ...], loaded_at_s: float) -> Mapping[str, float] | None:
    """How old events were when they became visible."""
    if not files:
        return None
    landed = read_parts(run.places.tables, files, ["landed_at"])["landed_at"]
    ages = loaded_at_s - pc.cast(landed, pa.int64()).to_numpy() / 1e6
    p50, p95 = np.percentile(ages, [50, 95])
    return {"p50": round(float(p50), 3), "p95": round(float(p95), 3)}
