"""The join engine between batches: pins master versions and trains the front stages from the tasks' notes.

    pinned ─▶ plan ─▶ enrich (workers) ─▶ notes ─▶ learn_later ─▶ the next batch starts warmer

Learning runs in the background, beside the audit and publish of its batch, and ends when the next batch plans (ADR 25).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from etl.enrich.front_stage.stage import FrontStageConfig
from etl.enrich.spec import JoinSpec
from etl.enrich.step import UNBOUNDED, BatchBudget
from etl.masters.driver_state import driver_state
from etl.masters.front_stage.keeper import FrontStageKeeper, FrontStageStats, divided
from etl.masters.masters import Masters, PinnedMaster
from etl.model import Progress
from etl.pipeline.input.deadline import Control
from etl.pipeline.process_state import process_state
from etl.pipeline.tasks.enrich import EnrichPlan, MasterJoin
from etl.pipeline.tasks.join_notes import Notes
from etl.settings import Settings


@dataclass(frozen=True, slots=True)
class Engine:
    """The joins of one pipeline."""

    pipeline: str
    masters: Masters
    settings: Settings
    folder: Path = field(kw_only=True)  # of the front stages

    def pinned(self, owner: str, now: datetime, progress: Progress) -> AbstractContextManager[tuple[PinnedMaster, ...]]:
        """Pin every master at one version until the block ends; a retried batch gets the same versions."""
        return self.masters.pinned(owner, now, progress)

    def plan(self, pinned: Sequence[PinnedMaster], control: Control, tasks: int, progress: Progress) -> EnrichPlan:
        """The plan for workers; front stages are first brought to the pinned versions."""
        wrong = process_state().finish_learning(self.pipeline, hurry=True)
        if wrong is not None:  # not fatal: learning only makes a batch faster
            progress(f"the front stages of {self.pipeline} have not learned from the last batch: {wrong}")
        own = self.settings
        return EnrichPlan(
            tuple(
                MasterJoin(one, self._front_stage(one, len(pinned)), self._budget(one, control), own.read_rule)
                for one in pinned
            ),
            own.tactic,
            divided(own.budget_bytes, max(1, len(pinned)), JoinSpec.named(own.tactic))[1],
            None if control.first is None else max(1, control.first // tasks),
        )

    def learn(
        self,
        pinned: Sequence[PinnedMaster],
        notes: Notes,
        batch_s: float,
        going_on: Callable[[], bool] = lambda: True,
    ) -> dict[str, FrontStageStats]:
        """Update the front stages from the key frequencies of a batch, within a share of the batch's duration."""
        stats = {}
        for one in pinned:
            wanted = notes[one.master.name].learned if one.master.name in notes else None
            account = driver_state().account(self._path(one))
            account.earn(batch_s / len(pinned))
            due = None if wanted is None else account.gather(wanted)
            if due is not None:
                began = time.perf_counter()
                with one.open() as reader:
                    paid = account.paid(time.perf_counter, began, going_on)
                    stats[one.master.name] = self._keeper(one, len(pinned)).learn(due, reader, paid)
                account.spend(time.perf_counter, began)
        return stats

    def learn_later(self, pinned: Sequence[PinnedMaster], notes: Notes, batch_s: float, pins: ExitStack) -> None:
        """The same in the background; releases the pins when it is done."""

        def work(going_on: Callable[[], bool]) -> None:
            with pins:
                self.learn(pinned, notes, batch_s, going_on)

        process_state().learn(self.pipeline, work)

    def _front_stage(self, pinned: PinnedMaster, masters: int) -> Path | None:
        if not JoinSpec.named(self.settings.tactic).front_stage:
            return None
        with pinned.open() as ports:
            return self._keeper(pinned, masters).ready(ports, pinned.rows_id, pinned.schema)

    def _budget(self, pinned: PinnedMaster, control: Control) -> BatchBudget:
        """How much of a master a task may read: limited by the batch's deadline and by the settings."""
        fixed = BatchBudget(self.settings.task_pages, self.settings.task_lookups)
        return fixed.within(control.budgets.get(pinned.master.name, UNBOUNDED))

    def _keeper(self, pinned: PinnedMaster, masters: int) -> FrontStageKeeper:
        budget, _ = divided(self.settings.budget_bytes, masters, JoinSpec.named(self.settings.tactic))
        config = FrontStageConfig(budget, self.settings.policy)
        return driver_state().keeper(self._path(pinned), config)

    def _path(self, pinned: PinnedMaster) -> Path:
        return self.folder / self.pipeline / f"{pinned.master.name}.front-stage"
