"""The joins on a data frame, outside a pipeline's batches: one struct and one hit flag for every master.

    rows ──▶ mapInArrow ──▶ rows + master struct, master_hit … + shed
                 │
                 └─ accumulator ──▶ driver: key frequencies and join metrics

There is no shuffle by key: every task maps the same pages and the same front stage, so a hot key cannot overload one
task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_type
from pyspark.sql.types import BooleanType, StructField, StructType

from etl.columnar.gather import MasterRows, stable_argsort
from etl.columnar.keys import same_kind
from etl.enrich.batch import SHED
from etl.pipeline.tasks.enrich import EnrichPlan, MasterJoin, MasterRun, join_keys
from etl.spark.engine_notes import Notes

__all__ = ["SHED_FLAG", "EnrichPlan", "MasterJoin", "enrich"]

SHED_FLAG = "shed"

_JOINED_ROWS, _JOINED_BYTES = 262_144, 2**28
_SENT_ROWS = 8_192  # about a megabyte: still in the CPU cache when the JVM converts it to rows


def enrich(rows: DataFrame, plan: EnrichPlan, notes: Accumulator[Notes] | None = None) -> DataFrame:
    """Add one struct and one hit flag per master; then `shed`."""
    fields = list(rows.schema.fields)
    for join in plan.joins:
        master, schema = join.pinned.master, join.pinned.schema
        same_kind(to_arrow_type(rows.schema[master.stream_columns[0]].dataType), schema.field(0).type, master.name)
        columns = pa.schema([schema.field(name) for name in master.columns])
        fields.append(StructField(master.name, from_arrow_schema(columns)))
        fields.append(StructField(f"{master.name}_hit", BooleanType()))
    fields.append(StructField(SHED_FLAG, BooleanType()))
    return rows.mapInArrow(partial(_enrich_partition, plan, notes), StructType(fields))


def _enrich_partition(
    plan: EnrichPlan, notes: Accumulator[Notes] | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    with ExitStack() as opened:
        runs: dict[str, MasterRun] = {}
        for batch in _gathered(batches):
            if not runs:  # an empty partition opens nothing
                runs = {join.pinned.master.name: MasterRun(plan, join, opened) for join in plan.joins}
            yield from _enrich_batch(runs, batch)
        if notes is not None and runs:
            notes.add({name: run.notes() for name, run in runs.items()})


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Combine batches: the more tuples are joined at once, the fewer master rows are read per tuple."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _JOINED_ROWS or size >= _JOINED_BYTES:
            yield _as_one(waiting)
            waiting, rows, size = [], 0, 0
    if rows:
        yield _as_one(waiting)


def _as_one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _enrich_batch(runs: Mapping[str, MasterRun], batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows with their masters' columns, in the order of the first master's rows, in small batches."""
    answers = [_Answer.of(run, batch) for run in runs.values()]
    shed = np.logical_or.reduce([answer.position == SHED for answer in answers])
    order = stable_argsort(answers[0].position)
    rest = [answer.rows.compact(answer.position) for answer in answers[1:]]
    in_order = [pa.array(flag[order]) for flag in (*(answer.hit for answer in answers), shed)]
    for start in range(0, len(order), _SENT_ROWS):
        part = order[start : start + _SENT_ROWS]
        masters = [answers[0].rows.take(answers[0].position[part])]
        masters += [rows.take(pa.array(code[part])) for rows, code in rest]
        hits_and_shed = [flag.slice(start, len(part)) for flag in in_order]
        found = [column for pair in zip(masters, hits_and_shed, strict=False) for column in pair]
        yield pa.RecordBatch.from_arrays(
            [*batch.take(pa.array(part)).columns, *found, hits_and_shed[-1]],
            [*batch.schema.names, *(name for run in runs for name in (run, f"{run}_hit")), SHED_FLAG],
        )


@dataclass(frozen=True, slots=True)
class _Answer:
    """The answers of one master's join for all rows of a batch."""

    rows: MasterRows
    position: npt.NDArray[np.int64]
    hit: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, run: MasterRun, batch: pa.RecordBatch) -> _Answer:
        master = run.pinned.master
        result = run.answer(join_keys(batch, master))
        return cls(MasterRows(result.master, master.columns), result.position, result.hit)
