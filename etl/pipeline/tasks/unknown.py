"""Facts with an unknown member: events whose master row did not come within the grace, until it comes (ADR 72).

    grace over ─▶ fact row with key 0, mart row with NULLs, claim UNKNOWN
               └▶ _unknown/part-…          the event, in the backlog's format
                  _unknown/before-part-…   the row as the mart's aggregates have counted it
    row comes ─▶ _corrections/part-…       the fact row with its master columns, merged into the table by key and batch
               └▶ mart: the row is replaced; aggregates subtract the old row and add the new one

The event is always counted in the fact. A corrected row keeps the batch in which it was first loaded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from etl.adapters.delta.data_files import write_part
from etl.adapters.ledger import DataFile
from etl.columnar.keys import I64
from etl.contract.model import MartTable
from etl.contract.words.expressions import aggregate
from etl.pipeline.tasks import wire
from etl.pipeline.tasks.mart_rows import mart_groups
from etl.pipeline.tasks.plan import UNKNOWN, BatchPlan
from etl.pipeline.tasks.rows import backlog_rows

LACKS = "$lacks"
"""Column of accepted rows with the reasons for unknown members; NULL without any."""
_MART = b"mart"


def write(plan: BatchPlan, name: str, lacking: pa.Table) -> DataFile:
    """Write accepted events with unknown members: as events, and as the aggregates have counted them."""
    columns = [one for one in lacking.column_names if one in _expression_inputs(plan, lacking)]
    write_part(plan.places.tables, UNKNOWN, f"before-{name}", lacking.select([*columns, wire.KEY_LO, wire.KEY_HI]))
    events = backlog_rows(lacking, lacking[LACKS].combine_chunks(), plan)
    tables = json.dumps([table.name for table in plan.pipeline.mart])
    return write_part(plan.places.tables, UNKNOWN, name, events.replace_schema_metadata({_MART: tables}))


def _expression_inputs(plan: BatchPlan, rows: pa.Table) -> set[str]:
    """Columns that expressions may name: fields, measures and columns of masters."""
    fields = {one.name for one in plan.pipeline.stream.fields} | set(plan.pipeline.measures)
    masters = tuple(f"{master.name}." for master in plan.pipeline.masters)
    return {name for name in rows.column_names if name in fields or name.startswith(masters)}


@dataclass(frozen=True)
class Corrections:
    """Rows of one task whose master rows have come."""

    plan: BatchPlan
    rows: pa.Table  # with their measures

    @cached_property
    def batch(self) -> I64:
        """The batch in which each row was loaded into the fact."""
        of_file = {file.path: file.batch for file in self.plan.backlog}
        return np.array([of_file[path] for path in self.rows[wire.WAITED_IN].to_pylist()], np.int64)

    def of_table(self, table: MartTable) -> Corrections:
        """The rows that a mart table has; a table declared later lacks earlier ones."""
        paths = self.rows[wire.WAITED_IN].unique().to_pylist()
        having = [path for path in paths if table.name in _tables_of(self.plan, path)]
        inside = pc.is_in(self.rows[wire.WAITED_IN], value_set=pa.array(having, pa.string()))
        return Corrections(self.plan, self.rows.filter(inside))

    def groups(self, table: MartTable) -> pa.Table:
        """The change of an aggregate: the corrected rows less the earlier ones."""
        now = mart_groups(self.rows, table, self.plan)
        before = mart_groups(pa.concat_tables(self._before(), promote_options="default"), table, self.plan)
        return pa.concat_tables([now, _negated(before, table)])

    def _before(self) -> Iterator[pa.Table]:
        keys = {*zip(self.rows[wire.KEY_LO].to_pylist(), self.rows[wire.KEY_HI].to_pylist(), strict=True)}
        for path in self.rows[wire.WAITED_IN].unique().to_pylist():
            rows = pq.read_table(self.plan.places.tables / UNKNOWN / f"before-{path}")
            pairs = zip(rows[wire.KEY_LO].to_pylist(), rows[wire.KEY_HI].to_pylist(), strict=True)
            yield rows.filter(pa.array([pair in keys for pair in pairs], pa.bool_()))


def _tables_of(plan: BatchPlan, path: str) -> list[str]:
    metadata = pq.read_schema(plan.places.tables / UNKNOWN / path).metadata or {}
    names: list[str] = json.loads(metadata.get(_MART, b"[]"))
    return names


def _negated(groups: pa.Table, table: MartTable) -> pa.Table:
    for name in table.values:
        values = pc.negate(groups[name]).cast(groups.schema.field(name).type)
        groups = groups.set_column(groups.schema.get_field_index(name), groups.schema.field(name), values)
    return groups


def counter(table: MartTable) -> str | None:
    """The column of an aggregate that counts its rows: a group is deleted when its count drops to zero."""
    calls = ((name, aggregate(text)) for name, text in table.values.items())
    return next((name for name, call in calls if call.function == "count" and call.argument is None), None)
