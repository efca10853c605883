"""The four visible steps of a run. Each takes the writer's lock, does its part, and can be repeated at any time.

    ingest_enrich ─▶ validate ─▶ load ─▶ report

A run that finds a batch staged but not loaded goes on with that one: batches are loaded in the order they were
decided, so a held batch holds the line and nothing overtakes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from etl.adapters import ledger, postgres
from etl.adapters.delta import Warehouse, only_writer
from etl.adapters.gate import Gate
from etl.adapters.ledger import BatchRecord, Writer
from etl.errors import GateFailed, TerminalError
from etl.ingest import landing
from etl.masters.wiring import masters_of
from etl.model import BatchId, Progress, Step
from etl.report.folder import history, write
from etl.report.model import Sample
from etl.settings import Settings
from etl.spark import load as loading
from etl.spark.engine import Engine
from etl.spark.microbatch import MicroBatch, bounds
from etl.spark.report import compose
from warehouse import contract as contracts
from warehouse import star

_SAMPLES = 20
_GATED = (
    *("order_id", "customer_id", "product_id", "quantity", "unit_price", "ordered_at"),
    *("customer.name as customer_name", "product.name as product_name"),
)


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps on one Spark session. `prepare` makes the schemas; the rest is per batch."""

    spark: SparkSession
    settings: Settings
    dsn: str = field(repr=False)
    clock: Callable[[], datetime] = _now

    def prepare(self) -> None:
        """Bring Postgres and Delta to the newest schema."""
        postgres.migrate(self.dsn)
        with only_writer(self.settings.warehouse):
            self._warehouse.create()

    def run(self, step: Step, run_id: str, batch: str | None, release: str | None, say: Progress) -> dict[str, Any]:
        """Run one step by its name; all but the first need the batch. `release` lets a held batch pass."""
        if step == "ingest_enrich":
            return self.ingest_enrich(run_id, say, release)
        if batch is None:
            raise TerminalError(f"step {step} needs a batch")
        follow: dict[str, Callable[[BatchId, Progress], dict[str, Any]]] = {
            "validate": self.validate,
            "load": self.load,
            "report": self.report,
        }
        return follow[step](BatchId.parse(batch), say)

    def ingest_enrich(self, run_id: str, say: Progress, release: str | None = None) -> dict[str, Any]:
        """Decide the next batch, or find the one that still waits to be loaded."""
        began = time.monotonic()
        with self._writing(run_id) as writer:
            work = self._micro_batch(writer, run_id, say)
            work.settle()
            if release:
                writer.ledger.release(BatchId.parse(release))
                say(f"batch {release} is released: the gate will not be asked again")
            pending = writer.ledger.pending()
            if pending is not None:
                say(f"batch {pending.batch} was {pending.state} before and is taken up again")
                return _told(pending)
            batch = work.next()
            if batch is None:
                say("no new orders have landed and none of the waiting ones can go on: nothing to do")
                return {"batch": None, "message": "no new orders"}
            writer.ledger.took(batch, "ingest_enrich", time.monotonic() - began)
            record = writer.ledger.get(batch)
        say(f"batch {batch}: {_sentence(record)}")
        return _told(record)

    def _micro_batch(self, writer: Writer, run_id: str, say: Progress) -> MicroBatch:
        contract, own = contracts.load(), self.settings
        engine = Engine(masters_of(own, contract.masters, self.dsn), own, folder=own.var / "front-stage")
        return MicroBatch(self._warehouse, writer.ledger, own, contract, engine, self.dsn, run_id, self.clock, say)

    def validate(self, batch: BatchId, say: Progress) -> dict[str, Any]:
        """Hold the batch unless the gate passes it or a person has released it."""
        began = time.monotonic()
        with self._writing(f"validate {batch}") as writer:
            record = writer.ledger.get(batch)
            if record.state in ("loaded", "released"):
                say(f"batch {batch} is {record.state}; the gate is not asked again")
                return _told(record)
            verdict = self._ask_gate(record)
            writer.ledger.gated(batch, "passed" if verdict["success"] else "held", verdict)
            writer.ledger.took(batch, "validate", time.monotonic() - began)
        failed = tuple(one["name"] for one in verdict["expectations"] if not one["success"])
        if failed:
            raise GateFailed(str(batch), failed, str(self.settings.data_docs / "index.html"))
        say(f"batch {batch}: {len(verdict['expectations'])} expectations hold on {record.counts.accepted} orders")
        return _told(record)

    def _ask_gate(self, record: BatchRecord) -> dict[str, Any]:
        gate = Gate(self.settings.var / "gate", self.settings.data_docs, self.settings.reports_kept)
        within = bounds(self.settings, record.started_at)
        rows = loading.staged(self._warehouse, record.batch).where("route = 'accepted'")
        accepted = rows.selectExpr(*_GATED).cache()
        try:
            return gate.check(accepted, contracts.load(), within, record.batch, record.counts.accepted)
        finally:
            accepted.unpersist()

    def load(self, batch: BatchId, say: Progress) -> dict[str, Any]:
        """Load the star and the mart, then put the batch's files away."""
        began = time.monotonic()
        with self._writing(f"load {batch}") as writer:
            if writer.ledger.get(batch).state != "loaded":
                loading.load(self._warehouse, self.dsn, writer, contracts.load(), batch, self.clock)
                writer.ledger.took(batch, "load", time.monotonic() - began)
            files = writer.ledger.files_of(batch)
            landing.archive(self.settings.landing, self.settings.archive / str(batch), files)
            record = writer.ledger.get(batch)
        say(f"batch {batch}: {record.counts.accepted} orders are in the warehouse and the mart")
        return _told(record)

    def report(self, batch: BatchId, say: Progress) -> dict[str, Any]:
        """Write the run report of a batch, in whatever state it is."""
        with ledger.reading(self.dsn) as book:
            record, totals = book.get(batch), book.totals()
        earlier = history(self.settings.reports)
        page = compose(record, totals, earlier, self._samples(batch), self.settings.tactic)
        written = write(page, self.settings.reports, self.settings.reports_kept)
        say(f"batch {batch}: report {written.html}")
        return {**_told(record), "report": str(written.html)}

    def count_orders(self) -> dict[str, int]:
        """Where every order is, counted in the Delta tables themselves."""
        tables = self._warehouse
        fact, refused = tables.read(star.FACT_ORDERS), tables.read(star.QUARANTINE)
        # Only an order that gave up waiting was refused after it had been in the backlog.
        gave_up = refused.where("exists(reasons, reason -> reason like 'unknown_%')")
        last_time = gave_up.groupBy("order_id").agg(F.max("batch").alias("gave_up_in"))
        waiting = (
            tables.read(star.BACKLOG)
            .join(fact, "order_id", "left_anti")
            .join(last_time, "order_id", "left")
            .where("gave_up_in is null or batch > gave_up_in")
        )
        return {
            "fact": fact.count(),
            "quarantine": refused.count(),
            "backlog_open": waiting.select("order_id").distinct().count(),
            "duplicates": tables.read(star.STAGING).where("route = 'duplicate'").count(),
        }

    def _samples(self, batch: BatchId) -> list[Sample]:
        rows = loading.staged(self._warehouse, batch).where("route = 'quarantined'").limit(_SAMPLES)
        return [
            Sample(
                reason=", ".join(row.reasons),
                raw=bytes(row.raw).decode("utf-8", "replace"),
                source_file=row.source_file,
            )
            for row in rows.select("reasons", "raw", "source_file").collect()
        ]

    @property
    def _warehouse(self) -> Warehouse:
        return Warehouse(self.spark, self.settings.warehouse)

    @contextmanager
    def _writing(self, holder: str) -> Iterator[Writer]:
        with only_writer(self.settings.warehouse), ledger.writing(self.dsn, holder) as writer:
            yield writer


def _told(record: BatchRecord) -> dict[str, Any]:
    counts = record.counts.as_json()
    return {
        "batch": str(record.batch),
        "state": record.state,
        **{k: v for k, v in counts.items() if k != "joins"},
    }


def _sentence(record: BatchRecord) -> str:
    counts = record.counts
    return (
        f"{counts.landed} orders landed; {counts.accepted} accepted, {counts.quarantined} quarantined, "
        f"{counts.duplicates} duplicates, {counts.backlog_added} wait, {counts.backlog_resolved} waited no longer"
    )
