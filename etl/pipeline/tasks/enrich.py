"""Enrich rows from every master of a pipeline: one semi-stream join each, the answers as columns `master.column`.

    rows ──▶ join keys ──▶ SemiStreamJoin (front stage, then pages) ──▶ positions ──▶ columns, found, shed

Every task maps the same pages and the same front stage: no shuffle by master key is needed, and a hot key cannot
overload one task. Pure except for the master ports: no Spark.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etl.columnar.gather import MasterRows, stable_argsort
from etl.columnar.keys import same_kind
from etl.contract.model import Master
from etl.enrich.batch import SHED, BatchBudget, BatchResult, build, join_batch
from etl.enrich.build import LOOKUP_TUPLES
from etl.enrich.front_stage.shared import SharedFrontStage
from etl.enrich.join import SemiStreamJoin
from etl.enrich.planning.auto import AutoTactic
from etl.enrich.shedding import ReadRule
from etl.enrich.spec import JoinName, JoinSpec
from etl.enrich.step import UNBOUNDED
from etl.enrich.tactics.hybrid import TUNED_POSITION
from etl.masters.masters import PinnedMaster, received
from etl.masters.worker_cache import StoreName, worker_cache
from etl.pipeline.tasks.join_notes import MasterNotes

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class MasterJoin:
    """One master and its front stage."""

    pinned: PinnedMaster
    front_stage: Path | None = None
    budget: BatchBudget = UNBOUNDED  # of one task
    rule: ReadRule = "best_first"  # which keys to read first when reading is bounded

    @property
    def best_first(self) -> bool:
        return self.budget.bounded and self.rule == "best_first"

    @property
    def position(self) -> float:
        """Position in the queue of the tuple that selects the next page: the oldest, unless tuples will be shed."""
        return TUNED_POSITION if self.budget.bounded else 1.0


@dataclass(frozen=True, slots=True)
class EnrichPlan:
    """Everything a worker needs. It is sent inside the serialized function and never logged."""

    joins: tuple[MasterJoin, ...]
    tactic: JoinName
    budget_bytes: int  # of one worker, for each master
    first: int | None = None  # events that one task joins; it sheds the others without a probe
    lookup_tuples: int = LOOKUP_TUPLES  # at most, if the budget allows it

    def __repr__(self) -> str:
        return f"EnrichPlan({self.tactic}, {[join.pinned.master.name for join in self.joins]})"


class MasterRun:
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
            best_first=join.best_first,
            lookup_position=join.position,
            feedback=worker_cache().feedback.get(self._store),
            clock=time.perf_counter,
        )
        self._left = join.budget
        self._notes = MasterNotes()

    def answer(self, keys: pa.Array) -> BatchResult:
        """The answer for each key."""
        began = time.monotonic()
        result = join_batch(self.join, keys, now=began, budget=self._left)
        self._left = self._left.after(result.metrics.cost)
        self._notes = self._notes.after(result.metrics, self._chosen(), time.monotonic() - began)
        return result

    def notes(self) -> MasterNotes:
        """The task's notes for the driver."""
        if isinstance(self.join.tactic, AutoTactic):
            worker_cache().feedback[self._store] = self.join.tactic.feedback
        return self._notes.with_learned(None if self._front is None else self._front.snapshot())

    def _chosen(self) -> str:
        tactic = self.join.tactic
        chosen = tactic.choice if isinstance(tactic, AutoTactic) else None
        return self._plan.tactic if chosen is None else chosen.name


def join_keys(rows: pa.RecordBatch | pa.Table, master: Master) -> pa.Array:
    """The keys by which rows meet a master: the column itself, or a struct in the order of the master's key."""
    parts = [_whole(rows.column(name)) for name in master.stream_columns]
    return parts[0] if len(parts) == 1 else pa.StructArray.from_arrays(parts, names=list(master.key_columns))


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


@dataclass(frozen=True, slots=True)
class Enriched:
    """Rows with the columns of their masters, in the order of the first master's rows."""

    rows: pa.Table
    found: Mapping[str, Flags]  # by master
    hit: Mapping[str, Flags]  # answered by the front stage
    shed: Flags

    def where(self, flags: Flags) -> Enriched:
        """Some of the rows."""
        found, hit = ({name: one[flags] for name, one in of.items()} for of in (self.found, self.hit))
        return Enriched(self.rows.filter(pa.array(flags)), found, hit, self.shed[flags])


class Enricher:
    """The joins of one task, open as long as it runs."""

    def __init__(self, runs: tuple[MasterRun, ...], first: int | None = None) -> None:
        self._runs, self._first = runs, first

    def enrich(self, rows: pa.Table) -> Enriched:
        """Join rows with every master. Reorders them: copying from ascending positions is much faster."""
        answers, shed = self._answers(rows)
        order = stable_argsort(answers[0].position) if answers else np.arange(rows.num_rows)
        rows = rows.take(pa.array(order))
        for run, answer in zip(self._runs, answers, strict=True):
            rows = _with_columns(rows, run.pinned.master, answer, order)
        positions = [answer.position[order] for answer in answers]
        names = [run.pinned.master.name for run in self._runs]
        return Enriched(
            rows,
            dict(zip(names, (position >= 0 for position in positions), strict=True)),
            dict(zip(names, (answer.hit[order] for answer in answers), strict=True)),
            shed[order],
        )

    def _answers(self, rows: pa.Table) -> tuple[list[BatchResult], Flags]:
        """The answers of every master, and the shed rows. A row shed by one master is not joined with the next."""
        answers, shed = [], np.arange(rows.num_rows) >= (rows.num_rows if self._first is None else self._first)
        for run in self._runs:
            keys = join_keys(rows, run.pinned.master)
            if shed.any():
                keys = keys.take(pa.array(np.arange(len(keys)), mask=shed))  # a NULL key is not looked up
            answers.append(run.answer(keys))
            shed = shed | (answers[-1].position == SHED)
        return answers, shed

    def notes(self) -> dict[str, MasterNotes]:
        return {run.pinned.master.name: run.notes() for run in self._runs}


def _with_columns(rows: pa.Table, master: Master, answer: BatchResult, order: npt.NDArray[np.int64]) -> pa.Table:
    columns = [name for name in answer.master.column_names if name in received(master)]
    found, code = MasterRows(answer.master, columns).compact(answer.position)
    spread = found.take(pa.array(code[order]))
    for name, column in zip(columns, spread.flatten(), strict=True):
        rows = rows.append_column(f"{master.name}.{name}", column)
    return rows


@contextmanager
def enricher(plan: EnrichPlan, stream: pa.Schema) -> Iterator[Enricher]:
    """Open the joins of a task; raises if a stream key's type can never match the master's."""
    with ExitStack() as opened:
        for join in plan.joins:
            given = join_keys(stream.empty_table(), join.pinned.master).type
            same_kind(given, join.pinned.schema.field(0).type, join.pinned.master.name)
        yield Enricher(tuple(MasterRun(plan, join, opened) for join in plan.joins), plan.first)
