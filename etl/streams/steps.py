"""The visible steps of a run of all correlations. Each takes the lock, does its part, and can be repeated at any time.

    ingest ─▶ correlate ─▶ load ─▶ sites ─▶ report        sites: follow ─ work, at each of them ─ gather

A run that finds an unfinished batch continues it: batches are loaded in the order they were decided.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from etl.adapters import postgres
from etl.adapters.landing import Limits
from etl.contract.errors import PipelineFileError
from etl.errors import TerminalError
from etl.model import Progress
from etl.pipeline.microbatch import Checkpoint, no_fault
from etl.pipeline.upkeep.maintenance import Keep, Tables
from etl.pipeline.writer_lock import writing
from etl.settings import Settings
from etl.streams import maintenance
from etl.streams.adhoc.state import EventClock
from etl.streams.declared import Catalog, catalog, unreachable_sites
from etl.streams.inspection import explain as explanation
from etl.streams.ledger import NAME, BatchRecord, StreamLedger, ledger_of
from etl.streams.microbatch import Executor, MicroBatch
from etl.streams.sites.explain import of_batch
from etl.streams.sites.ledger import SiteLedger
from etl.streams.sites.work import SiteWork
from etl.streams.tasks.plan import Places

CorrelationStep = Literal["micro_batch", "streams", "ingest", "correlate", "load", "gather", "report"]


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class CorrelationSteps:
    """The steps of all correlations on one executor."""

    settings: Settings
    dsn: str = field(repr=False)
    executor: Executor
    clock: Callable[[], datetime] = _now
    checkpoint: Checkpoint = no_fault

    def prepare(self) -> None:
        """Migrate Postgres to the newest schema. A correlation's own tables are created at its first run."""
        postgres.migrate(self.dsn)

    def run(self, step: CorrelationStep, run_id: str, batch: int | None, progress: Progress) -> dict[str, Any]:
        """Run one step by name, or all steps up to the tables."""
        if step in ("micro_batch", "streams"):
            return self.micro_batch(run_id, progress, at_sites=step == "micro_batch")
        if step == "gather":
            return self.gather(run_id, progress)
        if step == "ingest":
            return self.ingest(run_id, progress)
        if step == "report":
            return self.report(batch)
        if batch is None:
            raise TerminalError(f"step {step} of correlations needs a batch")
        return self.correlate(batch, progress) if step == "correlate" else self.load(batch, progress)

    def ingest(self, run_id: str, progress: Progress) -> dict[str, Any]:
        """Fix the input of the next batch, or find the unfinished one."""
        with self._writing(run_id, progress) as run:
            return summary(self._ingest(run, run_id), run.ledger)

    def correlate(self, batch: int, progress: Progress) -> dict[str, Any]:
        """Read, join, and decide; no-op when it is decided already."""
        with self._writing(f"correlate {batch}", progress) as run:
            return summary(self._correlate(run, batch), run.ledger)

    def load(self, batch: int, progress: Progress) -> dict[str, Any]:
        """Publish the results, then archive the batch's input."""
        with self._writing(f"load {batch}", progress) as run:
            return summary(self._load(run, batch), run.ledger)

    def micro_batch(self, run_id: str, progress: Progress, *, at_sites: bool = True) -> dict[str, Any]:
        """One micro-batch from landing to tables, under one lock; work at sites may be left to separate tasks."""
        with self._writing(run_id, progress) as run:
            record = self._ingest(run, run_id)
            record = None if record is None else self._correlate(run, record.batch)
            record = None if record is None else self._load(run, record.batch)
            waits = self._at_sites(run, work=at_sites)
            return summary(record, run.ledger) | ({"sites_wait": waits} if run.catalog.over_sites else {})

    def _at_sites(self, run: MicroBatch, *, work: bool) -> bool:
        """Begin decided batches and do their work; returns whether work at sites is left."""
        if not run.catalog.over_sites:
            run.sites.forget_undeclared()
            return False
        sites = run.sites
        sites.follow()
        if work:
            sites.work()
            sites.gather()
        return sites.unfinished()

    def work_at(
        self, site: str, progress: Progress, *, correlation: str | None = None, patience_s: float = 30.0
    ) -> dict[str, Any]:
        """Do all work at one site; waits up to this time for other sites that have to work first.

        Needs only the site's lock: every site writes its own files.
        """
        declared = self.catalog()
        places = Places.of(self.settings, declared.segments_elsewhere())
        with postgres.connect(self.dsn, autocommit=True) as connection:
            work = SiteWork(declared, places, SiteLedger(connection), progress, self.checkpoint)
            return work.work_until_done(site, correlation, patience_s)

    def gather(self, run_id: str, progress: Progress) -> dict[str, Any]:
        """Do the work that the tasks of sites have left, and publish the results of finished batches."""
        with self._writing(run_id, progress, patience_s=60.0) as run:
            sites = run.sites
            left = sites.work()
            return {"gathered": sites.gather(), **left, "sites_wait": sites.unfinished()}

    def _ingest(self, run: MicroBatch, run_id: str) -> BatchRecord | None:
        began = time.monotonic()
        record = run.fix(run_id)
        if record is None:
            run.progress("nothing new has landed in any stream")
        elif "ingest" not in record.seconds:
            run.ledger.record_duration(record.batch, "ingest", time.monotonic() - began)
        return record

    def _correlate(self, run: MicroBatch, batch: int) -> BatchRecord | None:
        began = time.monotonic()
        record = run.correlate(batch)
        if record is None:
            run.progress(f"batch {batch} turned out to have nothing to read")
            return None
        if "correlate" not in record.seconds:
            run.ledger.record_duration(batch, "correlate", time.monotonic() - began)
        run.progress(f"batch {batch}: {sentence(record)}")
        return record

    def _load(self, run: MicroBatch, batch: int) -> BatchRecord:
        began = time.monotonic()
        fresh = run.ledger.get(batch).state != "loaded"
        record = run.publish(batch)
        if fresh:
            run.ledger.record_duration(batch, "load", time.monotonic() - began)
        run.progress(f"batch {batch} is loaded")
        return record

    # ── looking ────────────────────────────────────────────────────────────────────────────────────────────────

    def report(self, batch: int | None) -> dict[str, Any]:
        """Everything about one batch, by default the newest."""
        with self._reading() as ledger:
            record = ledger.last() if batch is None else ledger.get(batch)
            return summary(record, ledger)

    def history(self, limit: int = 20) -> list[dict[str, Any]]:
        """The newest batches, oldest first."""
        with self._reading() as ledger:
            return [summary(record, ledger) for record in ledger.history(limit)]

    def status(self) -> dict[str, Any]:
        """The status of all declared correlations, whether or not they have run."""
        with self._reading() as ledger:
            return explanation.status(self.catalog(), ledger)

    def explain(self, name: str) -> dict[str, Any]:
        """The plan of one correlation: steps, routing, units, expected and measured cost."""
        with self._reading() as ledger:
            declared = self.catalog()
            places = Places.of(self.settings, declared.segments_elsewhere())
            return explanation.explain(declared, name, ledger, places)

    def check(self) -> tuple[PipelineFileError, ...]:
        """Errors in the files of streams and correlations, and unreachable sites."""
        found = self.catalog()
        return (*found.errors, *unreachable_sites(found.sites))

    def catalog(self) -> Catalog:
        return catalog(self.settings)

    # ── upkeep ─────────────────────────────────────────────────────────────────────────────────────────────────

    def maintain(self, keep: Keep, progress: Progress, tables: Tables | None = None) -> dict[str, Any]:
        """One round of maintenance; `tables` is Delta's own, if there is a Spark for it."""
        with self._writing("maintenance", progress) as run:
            return maintenance.maintain(run, tables, keep, self.clock())

    def reset(self, name: str, progress: Progress) -> None:
        """Reset a correlation from the next batch on: delete its state, keep its tables."""
        with self._writing(f"reset {name}", progress) as run:
            if run.ledger.oldest_unloaded() is not None:
                raise TerminalError("a batch is open; run it to its end before a correlation is reset")
            run.ledger.forget_correlation(name, run.writer.epoch)
            run.sites.ledger.remove(name)
            progress(f"{name} starts anew with the next batch")

    @contextmanager
    def _reading(self) -> Iterator[StreamLedger]:
        with postgres.connect(self.dsn, autocommit=True) as connection:
            yield StreamLedger(connection)

    @contextmanager
    def _writing(self, holder: str, progress: Progress, patience_s: float = 0.0) -> Iterator[MicroBatch]:
        declared = self.catalog()
        for error in declared.errors:
            progress(str(error))
        with writing(self.settings, self.dsn, NAME, holder, patience_s) as writer:
            yield MicroBatch(
                catalog=declared,
                places=Places.of(self.settings, declared.segments_elsewhere()),
                writer=writer,
                ledger=ledger_of(writer),
                dsn=self.dsn,
                executor=self.executor,
                clock=self.clock,
                progress=progress,
                limits=Limits(batch_bytes=self.settings.batch_bytes),
                checkpoint=self.checkpoint,
                event_clock=EventClock.of(self.settings),
                query_rows_most=self.settings.query_rows_most,
            )


def summary(record: BatchRecord | None, ledger: StreamLedger) -> dict[str, Any]:
    """A batch for people and programs: plain values."""
    if record is None:
        return {"batch": None}
    moments = {name: getattr(record, name) for name in ("started_at", "decided_at", "loaded_at")}
    result: dict[str, Any] = {
        "batch": record.batch,
        "run_id": record.run_id,
        "state": record.state,
        **{name: None if value is None else value.isoformat() for name, value in moments.items()},
        "seconds": dict(ledger.get(record.batch).seconds),
        "shut": dict((record.control or {}).get("shut", {})),
    }
    if record.decision is None:
        slices = [one for many in ledger.slices(record.batch).values() for one in many]
        files = {(one.file.name, one.file.inode) for one in slices}
        return {**result, "files": len(files), "bytes": sum(one.last - one.first for one in slices)}
    decided = record.decision
    result |= {"streams": decided.streams, "correlations": decided.correlations, "queries": decided.queries}
    over_sites = of_batch(SiteLedger(ledger.connection), record.batch)
    return result | ({"sites": over_sites} if over_sites else {})


def sentence(record: BatchRecord) -> str:
    """The outcome of a batch in one line."""
    decided = record.decided
    accepted = sum(one["accepted"] for one in decided.streams.values())
    refused = sum(one["quarantined"] for one in decided.streams.values())
    pairs = ", ".join(f"{name} {one['pairs']}" for name, one in decided.correlations.items())
    asked = decided.queries.get("running", 0)
    rows = f"; {sum(decided.queries['rows'].values())} rows of {asked} queries" if asked else ""
    return f"{accepted} tuples, {refused} quarantined{f'; pairs: {pairs}' if pairs else ''}{rows}"
