"""Daily digest of all pipelines: figures from the ledger, examples from stored run reports (ADR 82).

It does not read the warehouse: a digest costs four aggregates over two weeks of the ledger, and a few small files.
Examples were bounded and masked when their reports were written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta

from etl.adapters import ledger
from etl.adapters.digest_days import Stretch
from etl.adapters.ledger import Ledger
from etl.adapters.verdicts import Verdicts
from etl.contract.model import Pipeline
from etl.pipeline.inspection.comparison import sentence
from etl.report import folder as run_reports
from etl.report.digest import folder
from etl.report.digest.model import (
    EXAMPLES_PER_REASON,
    TOP_REASONS,
    TREND_DAYS,
    Day,
    Digest,
    PipelineDigest,
    Reason,
    UnusualBatch,
)
from etl.report.folder import Written
from etl.report.model import JoinReport, RunReport, Sample
from etl.settings import Settings
from etl.validate.distribution import Finding

_REPORTS_READ = 50


def write(settings: Settings, dsn: str, pipelines: Iterable[Pipeline], day: date, now: datetime) -> Written:
    """Write the digest of a day (UTC) from the ledger."""
    made = Digest(day=day, made_at=now, pipelines=tuple(_all(settings, dsn, pipelines, day)))
    return folder.write(made, settings.digests)


def _all(settings: Settings, dsn: str, pipelines: Iterable[Pipeline], day: date) -> Iterator[PipelineDigest]:
    for pipeline in pipelines:
        with ledger.reading(dsn, pipeline.name) as book:
            if book.totals():
                yield _of(settings, book, pipeline, day)


def _of(settings: Settings, book: Ledger, pipeline: Pipeline, day: date) -> PipelineDigest:
    midnight = datetime.combine(day, time(), UTC)
    until = midnight + timedelta(days=1)
    today = Stretch(book, midnight, until)
    trend = _filled(Stretch(book, until - timedelta(days=TREND_DAYS), until).days(), day)
    totals = book.totals()
    samples = [*_samples(settings, pipeline.name, midnight, until)]
    return PipelineDigest(
        pipeline=pipeline.name,
        today=trend[-1],
        trend=trend,
        reasons=tuple(_reason(row["reason"], row["events"], samples) for row in today.reasons(TOP_REASONS)),
        joins=tuple(JoinReport(tactic="", master_version="", **row) for row in today.joins()),
        unusual=tuple(_unusual(row, pipeline) for row in today.unusual()),
        held=today.held(),
        backlog_open=totals["backlog_open"],
        quarantine_open=max(0, totals["quarantine"] - sum(Verdicts(book).counts().values())),
    )


def _filled(rows: Sequence[dict[str, object]], day: date) -> tuple[Day, ...]:
    """One entry for every day of the trend, including days without events."""
    known = {row["day"]: Day.model_validate(row) for row in rows}
    days = [day - timedelta(days=back) for back in reversed(range(TREND_DAYS))]
    return tuple(known.get(one) or Day(day=one) for one in days)


def _unusual(row: dict[str, object], pipeline: Pipeline) -> UnusualBatch:
    found = Finding.from_json(row["finding"])  # type: ignore[arg-type]  # JSON that the audit has written
    return UnusualBatch.model_validate(
        {
            "batch": row["batch"],
            "check": found.check,
            "sentence": sentence(found),
            "holds": found.kind in pipeline.hold_on,
            "acknowledged": None if row["by"] is None else f"seen by {row['by']}",
        }
    )


def _reason(reason: str, events: int, samples: Sequence[Sample]) -> Reason:
    of_it = [one for one in samples if reason in one.reason.split(", ")]
    return Reason(reason=reason, events=events, examples=tuple(of_it[:EXAMPLES_PER_REASON]))


def _samples(settings: Settings, pipeline: str, since: datetime, until: datetime) -> Iterator[Sample]:
    """Refused events of a time range, from the newest run reports."""
    home = settings.reports / pipeline
    wanted = [one for one in run_reports.summaries(home) if since <= one.finished_at < until and one.quarantined]
    for one in wanted[:_REPORTS_READ]:
        report: RunReport = run_reports.read(home, one.batch)
        yield from report.quarantine_samples
