"""The rows of a batch for each table of the Postgres mart: plain rows, and aggregates as partial sums.

    accepted rows ─┬─ columns by SQL ──────────────▶ rows, COPY
                   └─ group_by and values by SQL ──▶ one row per group and task ──▶ merged ──▶ upsert

Partial results are merged over tasks and batches: count and sum add up, min and max are compared. So a mart table is
never scanned to load a batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from etl.columnar.expression import compile_expression
from etl.contract.model import MartTable
from etl.contract.tables import mart_schema, primary_key
from etl.contract.words.expressions import Aggregate, aggregate
from etl.pipeline.tasks import wire
from etl.pipeline.tasks.plan import BatchPlan

_MERGE = {"count": "sum", "sum": "sum", "min": "min", "max": "max"}
LANDED_AT, BATCH, LOADED_AT = "landed_at", "batch", "loaded_at"


def mart_rows(accepted: pa.Table, table: MartTable, plan: BatchPlan, batch: pa.Array | None = None) -> pa.Table:
    """The rows that a task adds to a table of rows. `batch`: each row's batch, if it is not the current one."""
    columns = _evaluated(accepted, table.columns)
    columns[LANDED_AT] = accepted[wire.LANDED].combine_chunks()
    own = pa.repeat(pa.scalar(plan.batch, pa.int64()), accepted.num_rows)
    columns[BATCH] = own if batch is None else batch
    schema = _nullable(mart_schema(plan.resolved, table))
    names = [name for name in schema.names if name != LOADED_AT]  # the load adds its own time
    rows = pa.table([columns[name] for name in names], names).cast(pa.schema([schema.field(name) for name in names]))
    return _by_key(rows, primary_key(plan.pipeline, table))


def _by_key(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Sort rows like the table's index, so that inserts touch few of its pages."""
    if not all(name in rows.column_names for name in key):
        return rows
    return rows.sort_by([(name, "ascending") for name in key])


def mart_groups(accepted: pa.Table, table: MartTable, plan: BatchPlan) -> pa.Table:
    """The partial sums that a task adds to an aggregate."""
    groups = _evaluated(accepted, table.group_by)
    calls = {name: aggregate(sql) for name, sql in table.values.items()}
    schema = _nullable(mart_schema(plan.resolved, table))
    inputs = {f"${name}": _argument(accepted, call, schema.field(name).type) for name, call in calls.items()}
    grouped = pa.table({**groups, **inputs}).group_by(list(groups), use_threads=False)
    summed = grouped.aggregate([(f"${name}", "sum" if call.argument is None else call.function)
                                for name, call in calls.items()])  # fmt: skip
    return _named(summed, table, schema, prefix="$")


def merge(parts: list[pa.Table], table: MartTable) -> pa.Table:
    """Partial sums of several tasks as one row per group."""
    rows = pa.concat_tables(parts)
    calls = {name: aggregate(sql) for name, sql in table.values.items()}
    grouped = rows.group_by(list(table.group_by), use_threads=False)
    merged = grouped.aggregate([(name, _MERGE[call.function]) for name, call in calls.items()])
    return _named(merged, table, rows.schema, prefix="")


def _named(summed: pa.Table, table: MartTable, schema: pa.Schema, prefix: str) -> pa.Table:
    names = list(table.group_by)
    columns: dict[str, pa.ChunkedArray] = {name: summed[name] for name in names}
    for name in table.values:
        (found,) = [one for one in summed.column_names if one.startswith(f"{prefix}{name}_") and one not in names
                    and one.removeprefix(f"{prefix}{name}_") in ("sum", "count", "min", "max")]  # fmt: skip
        columns[name] = summed[found]
    return pa.table(columns).cast(schema)


def _argument(accepted: pa.Table, call: Aggregate, kind: pa.DataType) -> pa.Array:
    if call.argument is None:
        return pa.repeat(pa.scalar(1, pa.int64()), accepted.num_rows)
    values = compile_expression(call.argument, accepted.schema).evaluate(accepted)
    return values if call.function == "count" else pc.cast(values, kind)


def _evaluated(accepted: pa.Table, columns: Mapping[str, str]) -> dict[str, pa.Array]:
    return {name: compile_expression(sql, accepted.schema).evaluate(accepted) for name, sql in columns.items()}


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])
