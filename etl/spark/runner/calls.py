"""The requests to the resident driver, shared by client and service.

POST /steps/{step}               StepCall             POST /maintenance                MaintenanceCall
POST /correlations/{step}        CorrelationCall      POST /correlations-maintenance   CorrelationMaintenanceCall
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from etl.model import Operation, Progress
from etl.pipeline.review.run_form import DECLARED, RunForm

if TYPE_CHECKING:
    from etl.pipeline.steps import Steps
    from etl.pipeline.upkeep.maintenance import Keep


class StepCall(BaseModel):
    """One step of a pipeline."""

    pipeline: str
    run_id: str
    batch: int | None = None
    release: int | None = None
    form: RunForm = DECLARED

    def run(self, steps: Steps, step: Operation, progress: Progress) -> dict[str, Any]:
        return steps.asked(self.form).run(step, self.pipeline, self.run_id, self.batch, self.release, progress)


class CorrelationCall(BaseModel):
    """One step of all correlations."""

    run_id: str
    batch: int | None = None


class CorrelationMaintenanceCall(BaseModel):
    """A round of maintenance of correlations, with the days of history to keep."""

    days: int
    dry_run: bool = False

    @property
    def keep(self) -> Keep:
        from etl.pipeline.upkeep.maintenance import Keep

        return Keep(timedelta(days=self.days), self.dry_run)


class MaintenanceCall(CorrelationMaintenanceCall):
    """A round of maintenance of one pipeline."""

    pipeline: str
