"""The partition runner: hands a partition's Arrow batches to the join engine, one join per master.

    rows ──▶ mapInArrow ──▶ rows + customer struct, customer_hit + product struct, product_hit

Only candidates are joined; refused lines and duplicates pass through untouched. There is no shuffle by key: every
task reads the same pinned master version. Front stages outlive the task, because Python workers are reused; they are
keyed by master, version and configuration, so a worker can never answer from an older master.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BooleanType, StructField, StructType

from etl.adapters.postgres_lookup import PinnedMaster, PostgresLookup
from etl.enrich.batch import BatchResult, build, join_batch
from etl.enrich.front_stage import FrontStage
from etl.enrich.join import SemiStreamJoin
from etl.settings import Tactic

_FRONT_STAGES: dict[str, tuple[tuple[object, ...], FrontStage]] = {}
"""By master table, the newest front stage of this worker and what it was made for."""


@dataclass(frozen=True, slots=True)
class EnrichPlan:
    """All a worker needs to know. It travels inside the serialized function, never through logs."""

    dsn: str
    masters: tuple[PinnedMaster, ...]
    tactic: Tactic
    front_stage_bytes: int
    lookup_rows: int

    def __repr__(self) -> str:
        return f"EnrichPlan({self.tactic}, {[pinned.master.name for pinned in self.masters]})"


def enrich(rows: DataFrame, plan: EnrichPlan) -> DataFrame:
    """Add one struct and one hit flag per master; both NULL for rows that are not candidates."""
    fields = list(rows.schema.fields)
    for pinned in plan.masters:
        columns = pa.schema([pinned.schema.field(name) for name in pinned.master.columns])
        fields.append(StructField(pinned.master.name, from_arrow_schema(columns)))
        fields.append(StructField(f"{pinned.master.name}_hit", BooleanType()))
    return rows.mapInArrow(partial(_enrich_partition, plan), StructType(fields))


def _enrich_partition(plan: EnrichPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with ExitStack() as open_lookups:
        joins: dict[str, SemiStreamJoin] = {}
        for batch in batches:
            if not joins:  # an empty partition opens no connection
                joins = {pinned.master.name: _join(plan, pinned, open_lookups) for pinned in plan.masters}
            yield _enrich_batch(plan, joins, batch)


def _join(plan: EnrichPlan, pinned: PinnedMaster, open_lookups: ExitStack) -> SemiStreamJoin:
    lookup = open_lookups.enter_context(PostgresLookup(plan.dsn, pinned, plan.lookup_rows))
    made_for = (plan.tactic, plan.front_stage_bytes, pinned.version, pinned.schema)
    known, front_stage = _FRONT_STAGES.get(pinned.master.table, (None, None))
    join = build(
        plan.tactic,
        lookup=lookup,
        budget_bytes=plan.front_stage_bytes // len(plan.masters),
        front_stage=front_stage if known == made_for else None,
        lookup_tuples=plan.lookup_rows,
    )
    if join.front_stage is not None:
        _FRONT_STAGES[pinned.master.table] = (made_for, join.front_stage)
    return join


def _enrich_batch(plan: EnrichPlan, joins: Mapping[str, SemiStreamJoin], batch: pa.RecordBatch) -> pa.RecordBatch:
    candidate = pc.equal(batch.column("verdict"), "candidate").to_numpy(zero_copy_only=False)
    for pinned in plan.masters:
        keys = batch.column(pinned.master.key).filter(pa.array(candidate))
        result = join_batch(joins[pinned.master.name], keys)
        batch = batch.append_column(pinned.master.name, _struct(pinned, result, candidate))
        batch = batch.append_column(f"{pinned.master.name}_hit", _hits(result, candidate))
    return batch


def _struct(pinned: PinnedMaster, result: BatchResult, candidate: np.ndarray) -> pa.StructArray:
    position = np.full(len(candidate), -1, dtype=np.int64)
    position[candidate] = result.position
    absent = position < 0
    where = pa.array(position, mask=absent)
    master = result.master if result.master.num_rows else pinned.schema.empty_table()
    names = list(pinned.master.columns)
    columns = [_take(master[name], where) for name in names]
    fields = [pinned.schema.field(name) for name in names]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=pa.array(absent))


def _take(column: pa.ChunkedArray, where: pa.Array) -> pa.Array:
    taken = column.take(where)
    return taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken


def _hits(result: BatchResult, candidate: np.ndarray) -> pa.Array:
    hit = np.zeros(len(candidate), dtype=bool)
    hit[candidate] = result.hit
    return pa.array(hit, mask=~candidate)
