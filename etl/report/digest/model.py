"""The content of a digest, as frozen values: per pipeline the day, the days before it, reasons and examples."""

from __future__ import annotations

from datetime import date

from pydantic import BaseModel, ConfigDict, computed_field

from etl.report.fields import Age, Moment, Rows, Text
from etl.report.figures import counted
from etl.report.model import JoinReport, Sample, Unusual

TREND_DAYS = 14
TOP_REASONS = 10
EXAMPLES_PER_REASON = 3


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True)


class Day(_Value):
    """One day of one pipeline."""

    day: date
    batches: Rows = 0
    landed: Rows = 0
    accepted: Rows = 0
    quarantined: Rows = 0
    duplicates: Rows = 0
    freshness_p95_s: Age | None = None

    @property
    def refused_share(self) -> float | None:
        return self.quarantined / self.landed if self.landed else None


class Reason(_Value):
    """A reason of refused events, with their number and a few examples."""

    reason: Text
    events: Rows
    examples: tuple[Sample, ...] = ()


class UnusualBatch(Unusual):
    """A figure of a batch that differs from the batches before it."""

    batch: Rows


class PipelineDigest(_Value):
    """One pipeline's day."""

    pipeline: Text
    today: Day
    trend: tuple[Day, ...] = ()  # oldest first, the day itself last
    reasons: tuple[Reason, ...] = ()
    joins: tuple[JoinReport, ...] = ()
    unusual: tuple[UnusualBatch, ...] = ()
    held: tuple[Rows, ...] = ()
    backlog_open: Rows = 0
    quarantine_open: Rows = 0

    @property
    def tone(self) -> str:
        """The tone of the day, for its colour on pages."""
        if self.held:
            return "bad"
        return "warn" if any(one.acknowledged is None for one in self.unusual) else "good"


class Digest(_Value):
    """A day of all pipelines."""

    day: date
    made_at: Moment
    pipelines: tuple[PipelineDigest, ...] = ()

    @computed_field  # type: ignore[prop-decorator]
    @property
    def headline(self) -> str:
        """The day in one sentence."""
        landed = sum(one.today.landed for one in self.pipelines)
        held = sum(len(one.held) for one in self.pipelines)
        open_warnings = sum(1 for one in self.pipelines for seen in one.unusual if seen.acknowledged is None)
        parts = [
            f"{counted(landed, 'event', 'events')} landed in {counted(len(self.pipelines), 'pipeline', 'pipelines')}"
        ]
        if held:
            parts.append("1 batch is held" if held == 1 else f"{held} batches are held")
        if open_warnings:
            parts.append(f"{open_warnings} unusual figures nobody has acknowledged")
        return "; ".join(parts)
