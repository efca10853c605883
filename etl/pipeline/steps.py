"""The visible steps of a run. Each takes the pipeline's lock, does its part, and can be repeated at any time.

    ingest ─▶ audit ─▶ publish ─▶ report

A run that finds an unfinished batch continues it: batches are loaded in the order they were decided, so a held batch
blocks all later ones of its pipeline. Pipelines do not wait for each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from etl.adapters import ledger, postgres
from etl.adapters.landing import Limits
from etl.adapters.ledger import BatchRecord, Writer
from etl.contract.model import Pipeline
from etl.errors import TerminalError
from etl.model import Operation, Progress
from etl.observe.facts import BatchFacts
from etl.pipeline.input.topic_input import topic_input
from etl.pipeline.inspection import reporting
from etl.pipeline.loading.copying import Copying, copying
from etl.pipeline.microbatch import Checkpoint, Executor, MicroBatch, no_fault
from etl.pipeline.prepare import Prepared, Preparer, audit_of
from etl.pipeline.review.days import Days
from etl.pipeline.review.quarantine import Quarantine
from etl.pipeline.review.release import Person
from etl.pipeline.review.reprocess import reprocess
from etl.pipeline.review.run_form import DECLARED, RunForm
from etl.pipeline.upkeep import maintenance
from etl.pipeline.upkeep.maintenance import Keep, Tables
from etl.pipeline.writer_lock import writing
from etl.settings import Settings

Observe = Callable[[BatchFacts, Pipeline], None]
"""Called for every batch whose report is written: loaded or held."""


def unobserved(_: BatchFacts, __: Pipeline) -> None:
    """The default observer: does nothing."""


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of all pipelines on one executor."""

    settings: Settings
    dsn: str = field(repr=False)
    executor: Executor
    clock: Callable[[], datetime] = _now
    checkpoint: Checkpoint = no_fault
    form: RunForm = DECLARED
    observe: Observe = unobserved

    def asked(self, form: RunForm) -> Steps:
        """The steps of one run with the settings that its form overrides."""
        return replace(self, settings=form.settings(self.settings), form=form)

    def prepare(self) -> None:
        """Migrate Postgres to the newest schema. A pipeline's own tables are created at its first run."""
        postgres.migrate(self.dsn)

    def run(
        self, step: Operation, pipeline: str, run_id: str, batch: int | None, release: int | None, progress: Progress
    ) -> dict[str, Any]:
        """Run one step by name, or all steps up to the mart. `release` lets this held batch pass."""
        if step == "micro_batch":
            return self.whole(pipeline, run_id, progress, release)
        if step == "ingest":
            return self.ingest(pipeline, run_id, progress, release)
        if step == "report":
            return self.report(pipeline, batch, progress)
        if batch is None:
            raise TerminalError(f"step {step} of {pipeline} needs a batch")
        follow: dict[str, Callable[[str, int, Progress], dict[str, Any]]] = {
            "audit": self.audit,
            "publish": self.publish,
        }
        return follow[step](pipeline, batch, progress)

    def ingest(self, pipeline: str, run_id: str, progress: Progress, release: int | None = None) -> dict[str, Any]:
        """Decide the next batch, or find the one that still waits to be published."""
        began = time.monotonic()
        with self._writing(pipeline, run_id, progress) as run:
            record = self._ingest(run, run_id, release, began)
        return {"pipeline": pipeline, "batch": None} if record is None else summary(record)

    def _ingest(self, run: MicroBatch, run_id: str, release: int | None, began: float) -> BatchRecord | None:
        if release is not None:
            word = {"word": "released", "by": run_id, "at": self.clock().isoformat(), "note": ""}
            run.ledger.judge(release, word)
            run.progress(f"batch {release} is released: the audit will not be asked again")
        if self.form.reprocess is not None:
            self._reprocess(run, run_id, self.form.reprocess)
        record = run.next(run_id)
        if record is None:
            run.progress("nothing new has landed and nothing that waits can go on")
            return None
        if record.state == "decided" and "ingest" not in record.seconds:
            run.ledger.record_duration(record.batch, "ingest", time.monotonic() - began)
        run.progress(f"batch {record.batch}: {sentence(record)}")
        return record

    def _reprocess(self, run: MicroBatch, run_id: str, days: Days) -> None:
        person = Person(run_id, self.clock(), f"{days} are processed again")
        lines = Quarantine(run.resolved.pipeline, run.places, run.ledger)
        for one in reprocess(lines, run.writer, days, person, run.checkpoint).sentences():
            run.progress(one)

    def audit(self, pipeline: str, batch: int, progress: Progress) -> dict[str, Any]:
        """Hold the batch unless the suite passes it or a person has released it."""
        with self._writing(pipeline, f"audit {batch}", progress) as run:
            return summary(self._audit(run, batch))

    def _audit(self, run: MicroBatch, batch: int) -> BatchRecord:
        began = time.monotonic()
        try:
            record = run.audit(batch)
        finally:
            run.ledger.record_duration(batch, "audit", time.monotonic() - began)
        run.progress(f"batch {batch} is {record.state}: {record.counts.accepted} events")
        return record

    def publish(self, pipeline: str, batch: int, progress: Progress) -> dict[str, Any]:
        """Publish the tables and the mart, then archive the batch's input."""
        with self._writing(pipeline, f"publish {batch}", progress) as run:
            return summary(self._publish(run, batch))

    def _publish(self, run: MicroBatch, batch: int, rows: Copying | None = None) -> BatchRecord:
        began = time.monotonic()
        record = run.publish(batch, rows)
        run.ledger.record_duration(batch, "publish", time.monotonic() - began)
        run.progress(f"batch {batch}: {record.counts.accepted} events are in the warehouse and the mart")
        maintenance.merge_claims(run)
        return record

    def report(self, pipeline: str, batch: int | None, progress: Progress) -> dict[str, Any]:
        """Write the run report of a batch in any state; by default of the batch that the next run continues."""
        declared = Preparer(self.settings, self.dsn).declared(pipeline)
        with ledger.reading(self.dsn, pipeline) as book:
            record = (book.oldest_unloaded() or book.last()) if batch is None else book.get(batch)
            if record is None or record.decision is None:
                progress("no batch is decided, so there is nothing to report")
                return {"pipeline": pipeline, "batch": None}
            audit_of(self.settings).build_docs(pipeline, record.batch)
            written = reporting.report(self.settings, book, record, declared)
            waiting = book.totals().get("backlog_open", 0)
        self.observe(BatchFacts.of(record, waiting, self.clock()), declared)
        progress(f"batch {record.batch}: report {written.html}")
        return {**summary(record), "report": str(written.html), "run_id": record.run_id}

    def whole(self, pipeline: str, run_id: str, progress: Progress, release: int | None = None) -> dict[str, Any]:
        """One micro-batch from landing to mart, under one lock; an audit that fails leaves it held."""
        began = time.monotonic()
        with self._writing(pipeline, run_id, progress) as run:
            record = self._ingest(run, run_id, release, began)
            if record is None:
                return {"pipeline": pipeline, "batch": None}
            with copying(run, record) as rows:
                if not self._audit(run, record.batch).aside:
                    return summary(self._publish(run, record.batch, rows))
            published = self._publish(run, record.batch)  # without the rows that were being copied
            if published.verdict is None:
                raise run.audit_failed(published)  # loaded, but its accepted events wait for a person
            return summary(published)

    def maintain(self, pipeline: str, keep: Keep, tables: Tables | None, progress: Progress) -> dict[str, Any]:
        """One round of maintenance; nothing for a pipeline that has not run."""
        Preparer(self.settings, self.dsn).declared(pipeline)
        with ledger.reading(self.dsn, pipeline) as book:
            if not book.declared():
                progress(f"{pipeline} has not run yet")
                return {"pipeline": pipeline, "dry_run": keep.dry_run}
        own = self.settings
        roots = (own.reports / pipeline, *audit_of(own).folders(pipeline))
        with self._writing(pipeline, "maintenance", progress) as run:
            return maintenance.maintain(run, tables, keep, self.clock(), roots)

    @contextmanager
    def _writing(self, pipeline: str, holder: str, progress: Progress) -> Iterator[MicroBatch]:
        preparer = Preparer(self.settings, self.dsn)
        declared = preparer.declared(pipeline)
        with writing(self.settings, self.dsn, pipeline, holder) as writer:
            yield self._batch(preparer.prepare(declared, writer, self.clock(), progress), writer, progress)

    def _batch(self, prepared: Prepared, writer: Writer, progress: Progress) -> MicroBatch:
        source = prepared.resolved.pipeline.stream.source
        return MicroBatch(
            resolved=self.form.resolved(prepared.resolved),
            places=prepared.places,
            writer=writer,
            dsn=self.dsn,
            delta=prepared.delta,
            engine=prepared.engine,
            dimensions=prepared.dimensions,
            audits=prepared.audits,
            executor=self.executor,
            clock=self.clock,
            progress=progress,
            topic=topic_input(self.settings, source.topic, prepared.places.archive),
            limits=Limits(batch_bytes=self.settings.batch_bytes),
            checkpoint=self.checkpoint,
        )


def summary(record: BatchRecord) -> dict[str, Any]:
    """A batch for people and programs: plain values without secrets."""
    facts: dict[str, Any] = {"pipeline": record.pipeline, "batch": record.batch, "state": record.state}
    if record.decision is not None:
        counts = record.counts.as_json()
        facts |= {name: value for name, value in counts.items() if name != "joins"}
        facts["master_versions"] = dict(record.master_versions)
        facts["verdict"] = None if record.verdict is None else record.verdict["word"]
    return facts


def sentence(record: BatchRecord) -> str:
    counts = record.counts
    return (
        f"{counts.lines} lines read; {counts.accepted} accepted, {counts.quarantined} quarantined, "
        f"{counts.duplicates} duplicates, {counts.backlog_added} wait, {counts.backlog_resolved} waited no longer"
    )
