"""Publish one decided batch: from the files of its decision to Delta tables and aggregates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import Schema

from etl.adapters.delta.data_files import write_arrow
from etl.adapters.delta.log import DeltaLog
from etl.adapters.mart import read_parts
from etl.contract.tables import quarantine_schema
from etl.correlate import aggregate
from etl.errors import TerminalError
from etl.pipeline.process_state import process_state
from etl.streams import views
from etl.streams.adhoc.publish import ROOT, publish_queries
from etl.streams.declared import compiled, result_schema
from etl.streams.documents.results import results_schema
from etl.streams.ledger import NAME, BatchRecord
from etl.streams.recovery.notes import Notes
from etl.streams.tasks.plan import LATE, LATE_SCHEMA, QUARANTINE, RESULTS, BatchPlan, Places

if TYPE_CHECKING:
    from etl.streams.decision import Gathered
    from etl.streams.microbatch import MicroBatch


def delta_log(places: Places, root: str) -> DeltaLog:
    """The Delta tables of one stream or correlation: `streams/NAME` or `correlations/NAME`."""
    kind, _, name = root.partition("/")
    folder = (places.streams if kind == "streams" else places.correlations) / name
    return process_state().delta_log(folder, f"frontstage-{NAME}")


def prepare(run: MicroBatch, plan: BatchPlan) -> None:
    """Create the tables that a batch may write to. A process does so once per declaration."""
    state, key = process_state(), (run.places.correlations, NAME, "")
    declared = (
        plan.declared_streams,
        tuple(one.declared for one in plan.correlations),
        tuple(one.declared for one in plan.documents),
        plan.queries and plan.queries.streams,
    )
    if state.prepared.get(key) == (declared, None):
        return
    for stream in plan.streams:
        delta = delta_log(run.places, f"streams/{stream.name}")
        delta.create(QUARANTINE, quarantine_schema())
        if plan.queries is not None and stream.name in plan.queries.streams:
            delta.create(LATE, LATE_SCHEMA)
    for one in plan.correlations:
        query = compiled(one.declared, plan.declared_streams)
        delta = delta_log(run.places, f"correlations/{one.name}")
        delta.create(LATE, LATE_SCHEMA)
        if query.grouping is None:
            wanted = pa.schema(list(result_schema(query).items()))
            require_alike(one.name, delta, wanted)
            delta.create(RESULTS, wanted)
        else:
            views.prepare(run.dsn, one.name, query.grouping)
    for over in plan.documents:
        delta, wanted = delta_log(run.places, f"correlations/{over.name}"), results_schema(over.declared)
        delta.create(LATE, LATE_SCHEMA)
        require_alike(over.name, delta, wanted)
        delta.create(RESULTS, wanted)
    state.prepared[key] = (declared, None)


class ResultsTaken(TerminalError):
    """A table of results exists with columns that differ from the correlation's."""

    exit_code = 78

    def __init__(self, correlation: str, table: str) -> None:
        super().__init__(correlation, table)
        self.correlation, self.table = correlation, table

    def __str__(self) -> str:
        return (
            f"{self.table} exists and has other columns than correlation {self.correlation!r} returns now; "
            "give the correlation another name, or move the table away"
        )


def require_alike(name: str, delta: DeltaLog, wanted: pa.Schema) -> None:
    """Raise if the table has other columns, as after a reset with changed SQL."""
    if not (delta.folder(RESULTS) / "_delta_log").exists():
        return
    held = Schema.from_arrow(wanted.remove_metadata()).fields
    have = {one.name: one.type for one in delta.table(RESULTS).schema().fields}
    if have != {one.name: one.type for one in held}:
        raise ResultsTaken(name, str(delta.folder(RESULTS)))


def write_views(run: MicroBatch, plan: BatchPlan, gathered: Gathered) -> dict[str, str]:
    """Write changes of groups, merged over all tasks, to files that the decision names."""
    written = {}
    for index, one in enumerate(plan.correlations):
        grouping = compiled(one.declared, plan.declared_streams).grouping
        parts = gathered.of(index).views
        if grouping is None or not parts:
            continue
        groups = views.rows(grouping, aggregate.merge(grouping, parts))
        name = f"{one.name}-{plan.batch:09d}-{plan.attempt}.arrow"
        write_arrow(run.places.views / name, groups)
        gathered.of(index).sums["groups"] = groups.num_rows
        written[one.name] = name
    return written


def publish(run: MicroBatch, record: BatchRecord) -> None:
    """Write the note, add the files to the Delta logs, then merge aggregates and close the batch in one transaction."""
    decision, touched = record.decided, []
    run.checkpoint("before the note")
    Notes(run.places.notes).write(record, run.ledger, run.writer.epoch)
    run.checkpoint("after the note")
    by_table = decision.by_table()
    of_queries = {
        root.removeprefix(ROOT): by_table.pop((root, t)) for root, t in list(by_table) if root.startswith(ROOT)
    }
    publish_queries(run, record, of_queries)
    for (root, table), files in by_table.items():
        run.checkpoint(f"before {table} of {root} is published")
        delta_log(run.places, root).add(table, files, record.batch)
        run.checkpoint(f"after {table} of {root} is published")
        touched.append(f"{root}/{table}")
    groups = {}
    for name, file in decision.views.items():
        path = run.places.views / file
        if not path.exists():
            raise TerminalError(
                f"batch {record.batch} cannot be loaded into correlation.{name}: {file} is gone; "
                "restore Postgres and the warehouse from the same time"
            )
        groups[name] = pa.concat_tables(read_parts([path]))
    run.checkpoint("before the aggregates are loaded")
    views.load(run.dsn, run.writer, record.batch, run.clock(), groups, touched)
    run.checkpoint("after the aggregates are loaded")
