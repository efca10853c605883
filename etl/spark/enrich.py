"""The partition runner: hands a partition's Arrow batches to the join engine, one join per master.

    rows ──▶ mapInArrow ──▶ rows + customer struct, customer_hit + product struct, product_hit + shed
                 │
                 └─ accumulator ──▶ driver: what was wanted, and how the joins fared

Only candidates are joined; refused lines and duplicates pass through untouched. There is no shuffle by key: every
task maps the same pages and the same front stage, so a hot key cannot overload one task.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_type
from pyspark.sql.types import BooleanType, StructField, StructType

from etl.columnar.gather import MasterRows, stable_argsort
from etl.columnar.keys import same_kind
from etl.enrich.batch import ABSENT, SHED, BatchBudget, BatchResult, build, join_batch
from etl.enrich.build import LOOKUP_TUPLES
from etl.enrich.front_stage.shared import SharedFrontStage
from etl.enrich.join import SemiStreamJoin
from etl.enrich.planning.auto import AutoTactic
from etl.enrich.spec import JoinName, JoinSpec
from etl.masters.masters import PinnedMaster
from etl.masters.worker_cache import StoreName, worker_cache
from etl.spark.crossing import packed
from etl.spark.engine_notes import MasterNotes, Notes

SHED_FLAG = "shed"

_JOINED_ROWS, _JOINED_BYTES = 262_144, 2**28
_SENT_ROWS = 8_192  # a megabyte or so: still in the cores' caches when the JVM turns it into rows


@dataclass(frozen=True, slots=True)
class MasterJoin:
    """One master, and the front stage that stands before it."""

    pinned: PinnedMaster
    front_stage: Path | None = None


@dataclass(frozen=True, slots=True)
class EnrichPlan:
    """All a worker needs to know. It travels inside the serialized function, never through logs."""

    joins: tuple[MasterJoin, ...]
    tactic: JoinName
    budget_bytes: int  # of one worker, for each master
    lookups: int | None = None  # that one task may make per master; None: as many as it takes
    pages: int | None = None
    lookup_tuples: int = LOOKUP_TUPLES  # at most, if the budget allows it

    def __repr__(self) -> str:
        return f"EnrichPlan({self.tactic}, {[join.pinned.master.name for join in self.joins]})"


def enrich(rows: DataFrame, plan: EnrichPlan, notes: Accumulator[Notes] | None = None) -> DataFrame:
    """Add one struct and one hit flag per master; both NULL for rows that are not candidates. Then `shed`."""
    fields = list(rows.schema.fields)
    for join in plan.joins:
        master, schema = join.pinned.master, join.pinned.schema
        same_kind(to_arrow_type(rows.schema[master.key].dataType), schema.field(0).type, master.name)
        columns = pa.schema([schema.field(name) for name in master.columns])
        fields.append(StructField(master.name, from_arrow_schema(columns)))
        fields.append(StructField(f"{master.name}_hit", BooleanType()))
    fields.append(StructField(SHED_FLAG, BooleanType()))
    return rows.mapInArrow(partial(_enrich_packed, plan, notes), StructType(fields))


def _enrich_packed(
    plan: EnrichPlan, notes: Accumulator[Notes] | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    return packed(_enrich_partition(plan, notes, batches))


def _enrich_partition(
    plan: EnrichPlan, notes: Accumulator[Notes] | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    with ExitStack() as opened:
        runs: dict[str, _Run] = {}
        for batch in _gathered(batches):
            if not runs:  # an empty partition opens nothing
                runs = {join.pinned.master.name: _Run(plan, join, opened) for join in plan.joins}
            yield from _enrich_batch(runs, batch)
        if notes is not None and runs:
            notes.add({name: run.notes() for name, run in runs.items()})


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Several batches as one: the more tuples are joined at once, the fewer master rows are read for each."""
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


class _Run:
    """One master's join in one task."""

    def __init__(self, plan: EnrichPlan, join: MasterJoin, opened: ExitStack) -> None:
        self.pinned, self._plan = join.pinned, plan
        reader = opened.enter_context(join.pinned.open())
        self._store = StoreName(join.pinned.master.table, type(join.pinned.place).__name__)
        hot = worker_cache().hot_rows(join.front_stage, join.pinned.rows_id)
        self._front = SharedFrontStage(hot) if JoinSpec.named(plan.tactic).front_stage else None
        self.join: SemiStreamJoin = build(
            plan.tactic,
            reader=reader,
            budget_bytes=plan.budget_bytes,
            front_stage=self._front,
            lookup_tuples=plan.lookup_tuples,
            front_elsewhere=True,
            feedback=worker_cache().feedback.get(self._store),
            clock=time.perf_counter,
        )
        self._left = BatchBudget(plan.pages, plan.lookups)
        self._notes = MasterNotes()

    def answer(self, keys: pa.Array) -> BatchResult:
        result = join_batch(self.join, keys, now=time.monotonic(), budget=self._left)
        self._left = self._left.after(result.metrics.cost)
        self._notes = self._notes.after(result.metrics, self._chosen())
        return result

    def notes(self) -> MasterNotes:
        """What the driver should know, once the partition is done."""
        if isinstance(self.join.tactic, AutoTactic):
            worker_cache().feedback[self._store] = self.join.tactic.feedback
        return self._notes.with_learned(None if self._front is None else self._front.snapshot())

    def _chosen(self) -> str:
        tactic = self.join.tactic
        chosen = tactic.choice if isinstance(tactic, AutoTactic) else None
        return self._plan.tactic if chosen is None else chosen.name


def _enrich_batch(runs: Mapping[str, _Run], batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows with what was found for them, in the order of the first master's rows, a few at a time."""
    candidate = _candidates(batch)
    answers = [_Answer.of(run, batch, candidate) for run in runs.values()]
    shed = np.logical_or.reduce([answer.position == SHED for answer in answers])
    flags = [*(answer.hit for answer in answers), shed]
    order = stable_argsort(answers[0].position)
    rest = [answer.rows.compact(answer.position) for answer in answers[1:]]
    untouched = None if candidate is None else ~candidate[order]
    in_order = [pa.array(flag[order], mask=untouched) for flag in flags]
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
    """What one master's join said about all rows of a batch."""

    rows: MasterRows
    position: npt.NDArray[np.int64]
    hit: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, run: _Run, batch: pa.RecordBatch, candidate: npt.NDArray[np.bool_] | None) -> _Answer:
        keys, master = batch.column(run.pinned.master.key), run.pinned.master
        result = run.answer(keys if candidate is None else keys.filter(pa.array(candidate)))
        return cls(
            MasterRows(result.master, master.columns),
            _spread(result.position, candidate, ABSENT),
            _spread(result.hit, candidate, False),
        )


def _candidates(batch: pa.RecordBatch) -> npt.NDArray[np.bool_] | None:
    """Which rows are joined; None: all of them."""
    if "verdict" not in batch.schema.names:
        return None
    candidate = pc.equal(batch.column("verdict"), "candidate").to_numpy(zero_copy_only=False)
    return None if candidate.all() else candidate


def _spread(values: npt.NDArray[Any], candidate: npt.NDArray[np.bool_] | None, rest: object) -> npt.NDArray[Any]:
    """Values of the candidates, in the places of all rows."""
    if candidate is None:
        return values
    spread = np.full(len(candidate), rest, values.dtype)
    spread[candidate] = values
    return spread
