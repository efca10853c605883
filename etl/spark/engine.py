"""The join engine between batches: pins master versions, keeps the front stages, learns from what tasks tell.

pinned ─▶ plan ─▶ enrich (workers) ─▶ notes ─▶ learn ─▶ the next batch starts warmer
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from etl.enrich.front_stage.stage import FrontStageConfig
from etl.enrich.spec import JoinSpec
from etl.masters.driver_state import driver_state
from etl.masters.front_stage.keeper import FrontStageKeeper, FrontStageStats, divided
from etl.masters.masters import Masters, PinnedMaster
from etl.model import Progress
from etl.settings import Settings
from etl.spark.engine_notes import Notes
from etl.spark.enrich import EnrichPlan, MasterJoin


@dataclass(frozen=True, slots=True)
class Engine:
    """The joins of one site."""

    masters: Masters
    settings: Settings
    folder: Path = field(kw_only=True)  # of the front stages

    def pinned(self, batch: str, now: datetime, say: Progress) -> AbstractContextManager[tuple[PinnedMaster, ...]]:
        """Every master at one version, for as long as the block lasts; a repeated batch gets the same."""
        return self.masters.pinned(f"batch {batch}", now, say)

    def plan(self, pinned: Sequence[PinnedMaster]) -> EnrichPlan:
        """What workers need, front stages made good for these versions."""
        own = self.settings
        return EnrichPlan(
            tuple(MasterJoin(one, self._front_stage(one, len(pinned))) for one in pinned),
            own.tactic,
            divided(own.budget_bytes, len(pinned), JoinSpec.named(own.tactic))[1],
            lookups=own.task_lookups,
            pages=own.task_pages,
        )

    def learn(self, pinned: Sequence[PinnedMaster], notes: Notes) -> dict[str, FrontStageStats]:
        """Let front stages learn from what the tasks wanted. Tells how each stands then, by master."""
        kept = {}
        for one in pinned:
            learned = notes[one.master.name].learned if one.master.name in notes else None
            if learned is not None:
                with one.open() as ports:
                    kept[one.master.name] = self._keeper(one, len(pinned)).learn(learned, ports)
        return kept

    def _front_stage(self, pinned: PinnedMaster, masters: int) -> Path | None:
        if not JoinSpec.named(self.settings.tactic).front_stage:
            return None
        with pinned.open() as ports:
            return self._keeper(pinned, masters).ready(ports, pinned.rows_id, pinned.schema)

    def _keeper(self, pinned: PinnedMaster, masters: int) -> FrontStageKeeper:
        budget, _ = divided(self.settings.budget_bytes, masters, JoinSpec.named(self.settings.tactic))
        config = FrontStageConfig(budget, self.settings.policy)
        path = self.folder / f"{pinned.master.name}.front-stage"
        return driver_state().keeper(path, config)
