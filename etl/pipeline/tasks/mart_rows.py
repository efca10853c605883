"""The rows of a batch for each table of the Postgres mart: plain rows, and aggregates as partial sums.

    accepted rows ─┬─ columns by SQL ──────────────▶ rows, COPY
                   └─ group_by and values by SQL ──▶ one row per group and task ──▶ merged ──▶ upsert

Partial results are merged over tasks and batches: count and sum add up, min and max are compared. So a mart table is
never scanned to load a batch. Partial sums of integers are decimals of 38 digits, which cannot overflow; only the load
finds out whether a sum fits the mart's column (ADR 121).
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
_WIDE = pa.decimal128(38, 0)
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
    schema = _partial(mart_schema(plan.resolved, table), calls)
    inputs = {name: _argument(accepted, call, schema.field(name).type) for name, call in calls.items()}
    functions = {name: "sum" if call.argument is None else call.function for name, call in calls.items()}
    return _aggregated(pa.table(groups), pa.table(inputs), functions).cast(schema)


def merge(parts: list[pa.Table], table: MartTable) -> pa.Table:
    """Partial sums of several tasks as one row per group."""
    calls = {name: aggregate(sql) for name, sql in table.values.items()}
    functions = {name: _MERGE[call.function] for name, call in calls.items()}
    rows = pa.concat_tables(part.cast(_partial(part.schema, calls)) for part in parts)
    return _aggregated(rows.select(list(table.group_by)), rows.select(list(calls)), functions).cast(rows.schema)


def _aggregated(groups: pa.Table, values: pa.Table, functions: Mapping[str, str]) -> pa.Table:
    """One row per group: its columns, then one per function. Arrow appends to the names of values, which may make a
    group's name, so values are named by numbers, which no column of a mart is."""
    numbered = {str(number): values[name] for number, name in enumerate(functions)}
    rows = pa.table({**{name: groups[name] for name in groups.column_names}, **numbered})
    wanted = [(str(number), function) for number, function in enumerate(functions.values())]
    summed = rows.group_by(groups.column_names, use_threads=False).aggregate(wanted)
    found = {name: summed[f"{number}_{function}"] for name, (number, function) in zip(functions, wanted, strict=True)}
    return pa.table({**{name: summed[name] for name in groups.column_names}, **found})


def _partial(schema: pa.Schema, calls: Mapping[str, Aggregate]) -> pa.Schema:
    """The columns of an aggregate, nullable and with sums of integers as wide as they need be."""
    sums = {name for name, call in calls.items() if call.function == "sum"}
    return pa.schema(
        field.with_type(_WIDE) if field.name in sums and pa.types.is_integer(field.type) else field
        for field in _nullable(schema)
    )


def _argument(accepted: pa.Table, call: Aggregate, kind: pa.DataType) -> pa.Array:
    if call.argument is None:
        return pa.repeat(pa.scalar(1, pa.int64()), accepted.num_rows)
    values = compile_expression(call.argument, accepted.schema).evaluate(accepted)
    return values if call.function == "count" else pc.cast(values, kind)


def _evaluated(accepted: pa.Table, columns: Mapping[str, str]) -> dict[str, pa.Array]:
    return {name: compile_expression(sql, accepted.schema).evaluate(accepted) for name, sql in columns.items()}


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])
