"""One micro-batch of all correlations, top-down.

    1 fix input   which bytes of which files of every stream, in the ledger, before anything is read
    2 run         read → parse → rules → segment → select → route │ shuffle by unit │ join → … → results    (the tasks)
    3 decide      ONE Postgres commit: segments, state, result, late and quarantine files, watermarks, routers
    4 publish     files into the Delta logs, then aggregates and ledger in one Postgres transaction

A decision in the ledger is never recomputed: every later step derives from it by idempotent writes. Files of an
undecided try are garbage, which maintenance removes (ADR 50).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from etl.adapters import landing, unreadable
from etl.adapters.landing import Limits, Slice
from etl.adapters.ledger import Writer
from etl.adapters.losses import LossBook
from etl.adapters.unlistable import LandingAway, LandingShut
from etl.contract.correlations.correlation import Correlation
from etl.correlate.query.compile import Query
from etl.model import LinesDoNotAddUp, Progress
from etl.pipeline import isolate
from etl.pipeline.microbatch import Checkpoint, Clock, InputRestless, no_fault
from etl.pipeline.tasks.wire import Message, WorkerFailed
from etl.streams import publishing
from etl.streams.adhoc import evolve as queries
from etl.streams.adhoc.planning import Planned, QueryPlanner
from etl.streams.adhoc.registry import QueryRegistry
from etl.streams.adhoc.state import EventClock
from etl.streams.decision import Decision, Evolved, Gathered, TableFile
from etl.streams.declared import Catalog, compiled
from etl.streams.documents.evolve import EvolvedDocuments, evolve_documents
from etl.streams.documents.figures import of_documents
from etl.streams.documents.state import DocumentPlan
from etl.streams.inspection import figures
from etl.streams.inspection.shut_input import ShutInput
from etl.streams.ledger import BatchRecord, KnownDocuments, StreamLedger
from etl.streams.recovery import settle
from etl.streams.sites.ledger import SiteLedger
from etl.streams.sites.work import SiteWork
from etl.streams.state.change import declaration, document_declaration
from etl.streams.state.evolve import evolve
from etl.streams.state.known import known_correlations, known_documents
from etl.streams.state.rebuild import rebuild_damaged
from etl.streams.tasks.plan import BatchPlan, CorrelationPlan, Places
from etl.streams.trial import BatchTrial

_TASK_BYTES = 2 * 2**20  # least input per task: with less, another task costs more than it saves
_TRIES_WHILE_INPUT_CHANGES = 50


class Executor(Protocol):
    """Runs the tasks of a batch: on Spark, or in this process."""

    @property
    def slots(self) -> int:
        """How many tasks run concurrently."""
        ...

    def run(self, plan: BatchPlan) -> list[Message]:
        """Run all stages; returns all messages of the tasks."""
        ...


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Everything that batches of correlations need while the writer's lock is held."""

    catalog: Catalog
    places: Places
    writer: Writer
    ledger: StreamLedger
    dsn: str = field(repr=False)
    executor: Executor
    clock: Clock
    progress: Progress
    limits: Limits = field(default_factory=Limits)
    checkpoint: Checkpoint = no_fault
    event_clock: EventClock = field(default_factory=EventClock)
    query_rows_most: int = 5_000_000

    @property
    def sites(self) -> SiteWork:
        """The work at sites after a decision."""
        ledger = SiteLedger(self.ledger.connection)
        return SiteWork(self.catalog, self.places, ledger, self.progress, self.checkpoint)

    # ── 1. fix input ───────────────────────────────────────────────────────────────────────────────────────────

    def fix(self, run_id: str) -> BatchRecord | None:
        """The batch to work on: an unfinished one, else a new one of landed input. None: no input."""
        settle.settle(self)
        begun = self.ledger.oldest_unloaded()
        if begun is not None:
            self.progress(f"batch {begun.batch} was {begun.state} before and is taken up again")
            return begun
        slices, shut = self._unread()
        if not slices:
            self._put_away()
            return None
        last = self.ledger.last()
        batch = 1 if last is None else last.batch + 1
        self.checkpoint("before input is fixed")
        self.ledger.fix(batch, run_id, self.clock(), slices, shut)
        self.checkpoint("after input is fixed")
        return self.ledger.get(batch)

    def _unread(self) -> tuple[dict[str, list[Slice]], list[ShutInput]]:
        """Unread landed input, by stream, and what cannot be read; every stream has its share of a batch."""
        now, found, shut, ordinal = self.clock(), dict[str, list[Slice]](), list[ShutInput](), 0
        share = max(1, self.limits.batch_bytes // max(1, len(self.catalog.streams)))
        away = self.sites.absent()
        for stream in self.catalog.streams:
            if stream.site in away:
                self.progress(f"stream {stream.name} waits in its landing folder: site {stream.site!r} is away")
                continue
            source = stream.stream.source
            try:
                files = landing.scan(source.landing, source.format)
            except (LandingAway, LandingShut) as error:
                self.progress(f"stream {stream.name} waits: {error}")
                shut.append(ShutInput(stream.name, folder=error))
                continue
            consumed = self.ledger.consumed(stream.name, [file.name for file in files])
            if closed := unreadable.find(source.landing, files, consumed):
                self.progress(f"stream {stream.name}: {unreadable.waiting_sentence(closed)}")
                shut.append(ShutInput(stream.name, closed))
            limits = replace(self.limits, batch_bytes=share)
            slices = landing.fix_slices(source.landing, files, consumed, source.format, now, limits)
            if slices:
                found[stream.name] = [replace(one, ordinal=ordinal + one.ordinal) for one in slices]
                ordinal += len(slices)
        return found, shut

    # ── 2. run the tasks, 3. decide ────────────────────────────────────────────────────────────────────────────

    def correlate(self, batch: int) -> BatchRecord | None:
        """Decide a batch whose input is fixed. None when that input turned out to be empty."""
        began = self.ledger.get(batch)
        if began.state != "reading":
            return began
        try:
            return self._decided(began)
        except WorkerFailed:
            if not rebuild_damaged(self, self.ledger.known()):
                raise
            return self._decided(began)

    def _decided(self, began: BatchRecord) -> BatchRecord | None:
        batch = began.batch
        known, documents = known_correlations(self), known_documents(self)
        for _ in range(_TRIES_WHILE_INPUT_CHANGES):
            slices = self.ledger.slices(batch)
            if not any(slices.values()):
                self.ledger.book.abandon(batch)
                return None
            trial = BatchTrial(self, began, slices, known, documents)
            tried = isolate.survive(trial, LossBook(self.ledger.book, batch), self.progress)
            if tried is None:  # some of the input was left for a later batch
                continue
            if not tried.changed:
                self._commit(tried.plan, tried.gathered, documents, tried.asked)
                return self.ledger.get(batch)
            self._leave_out(batch, slices, tried.gathered)
        raise InputRestless("correlations", tuple(one.file.label for many in slices.values() for one in many))

    def query(self, declared: Correlation) -> Query:
        """A correlation's SQL, compiled against the declared streams."""
        return compiled(declared, self.catalog.streams)

    def tasks_for(self, size_bytes: int) -> int:
        """The number of tasks for input of this size."""
        return max(1, min(self.executor.slots, -(-size_bytes // _TASK_BYTES)))

    def queries(self, plan: BatchPlan) -> Planned:
        """Plan the current ad-hoc queries; changes take effect for all tasks of this batch."""
        registry = QueryRegistry(self.ledger.connection)
        planner = QueryPlanner(registry, self.places.store, plan.declared_streams, self.event_clock)
        return planner.plan(plan.batch, plan.attempt, self.clock(), plan.tasks)

    def _leave_out(self, batch: int, slices: Mapping[str, list[Slice]], gathered: Gathered) -> None:
        """Files that changed while they were read belong to the next batch, with all of their slices."""
        every = [(stream, one) for stream, many in slices.items() for one in many]
        files = {(stream, one.file) for stream, one in every if one.ordinal in gathered.changed}
        self.ledger.book.exclude(batch, [one.ordinal for stream, one in every if (stream, one.file) in files])
        landed = [one for _, one in every]
        self.progress(unreadable.left_out_sentence(landed, gathered.changed, gathered.unreadable))

    def _commit(self, plan: BatchPlan, gathered: Gathered, known: Mapping[str, KnownDocuments], asked: Planned) -> None:
        for stream, lines in gathered.lines.items():
            counts = gathered.streams[stream]
            if lines != counts["accepted"] + counts["quarantined"]:
                raise LinesDoNotAddUp(stream, plan.batch, lines, counts["accepted"] + counts["quarantined"])
        evolved = {one.name: self._evolved(one, gathered, index) for index, one in enumerate(plan.correlations)}
        documents = {one.name: self._evolved_documents(plan.batch, one, gathered, known) for one in plan.documents}
        views = publishing.write_views(self, plan, gathered)
        queries.give_up_too_many(plan, gathered.queries)
        queries.write_aggregates(plan, asked, gathered.queries)
        gathered.files += [TableFile(root, file) for root, file in queries.files_of(gathered.queries, asked)]
        decision = Decision(
            files=tuple(gathered.files),
            views=views,
            slices=tuple(sorted(gathered.slices)),
            segments=tuple(gathered.segments),
            streams=figures.of_streams(plan, gathered),
            correlations={
                one.name: figures.of_correlation(one, self.query(one.declared), gathered.of(index), evolved[one.name])
                for index, one in enumerate(plan.correlations)
            }
            | {
                one.name: of_documents(one, gathered.of_documents(one.name), documents[one.name])
                for one in plan.documents
            },
            queries=queries.figures(asked, gathered.queries),
        )
        streams = frozenset(one.name for one in plan.declared_streams if one.flattening is None)
        left = queries.evolve_queries(plan.batch, asked, gathered.queries, gathered.segments, self.event_clock, streams)
        self.checkpoint("before the decision")
        self.ledger.decide(plan.batch, self.clock(), decision, {**evolved, **documents}, self.writer.epoch, left)
        self.checkpoint("after the decision")

    def _evolved(self, one: CorrelationPlan, gathered: Gathered, index: int) -> Evolved:
        query = self.query(one.declared)
        return evolve(one, declaration(one.declared, query), query, gathered.of(index), gathered.segments)

    def _evolved_documents(
        self, batch: int, one: DocumentPlan, gathered: Gathered, known: Mapping[str, KnownDocuments]
    ) -> EvolvedDocuments:
        declared = document_declaration(one.declared, self.catalog.stream(one.declared.stream))
        runs = known[one.name].state.runs if one.name in known else ()
        own = gathered.of_documents(one.name)
        return evolve_documents(self.places.store, batch, one, declared, own, gathered.segments, runs)

    # ── 4. publish ─────────────────────────────────────────────────────────────────────────────────────────────

    def publish(self, batch: int) -> BatchRecord:
        """Make a decided batch visible everywhere, then archive its input."""
        record = self.ledger.get(batch)
        if record.state != "loaded":
            publishing.publish(self, record)
        self._put_away()
        return self.ledger.get(batch)

    def _put_away(self) -> None:
        now = self.clock()
        for stream in self.catalog.streams:
            source = stream.stream.source
            try:
                files = landing.scan(source.landing, source.format)
            except (LandingAway, LandingShut):  # the next look at its input says so
                continue
            consumed = self.ledger.consumed(stream.name, [file.name for file in files])
            folder = self.places.archive / stream.name / f"{now:%Y-%m-%d}"
            moved = landing.put_away(source.landing, folder, consumed, now)
            if moved:
                self.ledger.put_away(stream.name, moved)
