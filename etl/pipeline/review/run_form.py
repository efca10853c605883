"""What somebody asks of one run, in the place of what settings and the pipeline's file say. The next run forgets it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from etl.contract.model import Shedding
from etl.contract.resolve import ResolvedPipeline
from etl.pipeline.review.days import Days
from etl.settings import Settings, Tactic


class RunForm(BaseModel):
    """What is left out stays as declared. It changes when an event is served and at what cost, not what it means.

    `reprocess` lets what was refused or waits since these days be tried again, with what is declared now.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    tactic: Tactic | None = None
    budget_bytes: int | None = Field(None, ge=2**20)
    deadline_s: float | None = Field(None, gt=0)
    shedding: Shedding | None = None
    reprocess: Days | None = None

    def settings(self, own: Settings) -> Settings:
        """The settings of the run."""
        asked = {name: value for name in ("tactic", "budget_bytes") if (value := getattr(self, name)) is not None}
        return own.model_copy(update=asked) if asked else own

    def resolved(self, declared: ResolvedPipeline) -> ResolvedPipeline:
        """The pipeline as the run takes it; what the ledger remembers is the declared one."""
        asked: dict[str, Any] = {}
        if self.deadline_s is not None:
            asked["deadline"] = timedelta(seconds=self.deadline_s)
        if self.shedding is not None:
            asked["shedding"] = self.shedding
        return replace(declared, pipeline=replace(declared.pipeline, **asked)) if asked else declared


DECLARED = RunForm()
"""The empty form: everything as declared."""
