"""The content of a run report, as frozen values.

    RunReport ─┬─ counts     this batch's events by route
               ├─ totals     where every event that ever landed is now (`balanced` says whether the sum holds)
               ├─ reasons, quarantine_samples
               ├─ joins      one line per master
               ├─ gate       findings of the quality gate
               ├─ unreadable landed files that could not be opened, with the reason
               ├─ unusual    figures that differ from the last batches
               └─ history    the batches before it, oldest first

Every value is validated on input (`fields`), so pages and files can trust it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, computed_field

from etl.report.fields import Age, BatchName, Moment, Ratio, RawText, RelativeLink, Rows, Seconds, Text

HISTORY_BATCHES = 60

Outcome = Literal["loaded", "empty", "held", "failed"]


class _Value(BaseModel):
    # Unknown keys are ignored so that a report written by a later version, or with derived keys, still opens.
    model_config = ConfigDict(frozen=True)


class Counts(_Value):
    """Counts of one batch, in events."""

    landed: Rows = 0
    accepted: Rows = 0
    quarantined: Rows = 0
    duplicates: Rows = 0
    backlog_added: Rows = 0
    backlog_resolved: Rows = 0
    shed: Rows = 0


class Totals(_Value):
    """Where every event that ever landed is, after this batch."""

    events_landed: Rows = 0
    fact: Rows = 0
    quarantine: Rows = 0
    duplicates: Rows = 0
    backlog_open: Rows = 0
    unmatched_open: Rows = 0
    shed_open: Rows = 0

    @property
    def missing(self) -> int:
        """Landed events that are unaccounted for; negative when some are counted in two places."""
        return self.events_landed - (self.fact + self.quarantine + self.backlog_open + self.duplicates)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def balanced(self) -> bool:
        """Whether every event is in exactly one place."""
        return self.missing == 0


class Sample(_Value):
    """One quarantined record, as it came."""

    reason: Text
    raw: RawText
    source_file: RawText


class JoinReport(_Value):
    """Metrics of the join with one master. A hit is a probe that the front stage answered."""

    master: Text
    tactic: Text
    master_version: Text
    probes: Rows
    hits: Rows
    unmatched: Rows

    @computed_field  # type: ignore[prop-decorator]
    @property
    def hit_ratio(self) -> float | None:
        """Hits per probe; None when nothing was probed."""
        return min(1.0, self.hits / self.probes) if self.probes else None


class Percentiles(_Value):
    """Freshness in seconds: from the event's landing to its row in the mart."""

    p50: Age
    p95: Age


class ExpectationResult(_Value):
    """The gate's result for one expectation."""

    name: Text
    column: Text | None = None
    success: bool
    unexpected: Rows = 0
    observed: RawText | None = None


class Gate(_Value):
    """The verdict of the quality gate. `data_docs` is relative to the report's own page."""

    success: bool
    expectations: tuple[ExpectationResult, ...] = ()
    data_docs: RelativeLink | None = None


class Unusual(_Value):
    """A figure of the batch outside the bounds learned from the last batches."""

    check: Text
    sentence: Text
    holds: bool = False
    acknowledged: Text | None = None


class HistoryPoint(_Value):
    """One batch as a point of the trends."""

    batch: BatchName
    finished_at: Moment
    accepted: Rows
    quarantined: Rows
    duplicates: Rows
    backlog_open: Rows
    hit_ratio: Ratio | None = None
    freshness_p50_s: Age | None = None
    freshness_p95_s: Age | None = None
    seconds: Seconds


class Summary(HistoryPoint):
    """One line of the list of reports: a point of the trends and the outcome."""

    run_id: Text
    outcome: Outcome
    landed: Rows
    balanced: bool

    def point(self) -> HistoryPoint:
        """Only what the trends need."""
        return HistoryPoint.model_validate(self.model_dump(include=set(HistoryPoint.model_fields)))


class RunReport(_Value):
    """The content of one run report."""

    pipeline: Text = ""
    batch: BatchName
    run_id: Text
    started_at: Moment
    finished_at: Moment
    outcome: Outcome
    message: Text
    seconds: dict[Text, Seconds] = {}
    counts: Counts = Counts()
    totals: Totals = Totals()
    reasons: dict[Text, Rows] = {}
    added_fields: dict[Text, Rows] = {}
    unreadable: dict[RawText, Text] = {}
    quarantine_samples: tuple[Sample, ...] = ()
    joins: tuple[JoinReport, ...] = ()
    freshness_s: Percentiles | None = None
    gate: Gate | None = None
    unusual: tuple[Unusual, ...] = ()
    history: tuple[HistoryPoint, ...] = ()

    @property
    def duration_s(self) -> float:
        """From start to finish; 0 if the clock was set back meanwhile."""
        return max(0.0, (self.finished_at - self.started_at).total_seconds())

    @computed_field  # type: ignore[prop-decorator]
    @property
    def hit_ratio(self) -> float | None:
        """Hits per probe over all masters; None when nothing was probed."""
        probes = sum(join.probes for join in self.joins)
        return min(1.0, sum(join.hits for join in self.joins) / probes) if probes else None

    def summary(self) -> Summary:
        """This report as one line of the list."""
        freshness = self.freshness_s
        return Summary(
            batch=self.batch,
            run_id=self.run_id,
            finished_at=self.finished_at,
            outcome=self.outcome,
            landed=self.counts.landed,
            accepted=self.counts.accepted,
            quarantined=self.counts.quarantined,
            duplicates=self.counts.duplicates,
            backlog_open=self.totals.backlog_open,
            balanced=self.totals.balanced,
            hit_ratio=self.hit_ratio,
            freshness_p50_s=None if freshness is None else freshness.p50,
            freshness_p95_s=None if freshness is None else freshness.p95,
            seconds=self.duration_s,
        )

    def trend(self) -> tuple[HistoryPoint, ...]:
        """The history and this batch as its last point, each batch once, at most `HISTORY_BATCHES`."""
        earlier = {point.batch: point for point in self.history if point.batch != self.batch}
        return (*earlier.values(), self.summary().point())[-HISTORY_BATCHES:]
