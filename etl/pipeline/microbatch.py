"""One micro-batch, top-down: write, audit, publish.

    1 fix input   which bytes of which files, in the ledger, before anything is read
                  (of a topic: which offsets of which partitions; then they are copied into the archive)
    2 run         read → parse → rules │ one shuffle by key │ claims → dedupe → enrich → route → write    (the tasks)
    3 decide      ONE Postgres commit: files, counts, sums, master versions, claims
    4 audit       Great Expectations on the accepted files, while rows are copied into the mart's open transaction;
                  a failed audit holds the batch and takes the rows back
    5 publish     files into the Delta logs, then mart and ledger in one Postgres commit

A decision in the ledger is never recomputed: every later step derives from it by idempotent writes. Files of an
undecided try are garbage, which maintenance removes.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from etl.adapters import landing, unreadable
from etl.adapters.delta.log import DeltaLog
from etl.adapters.durable import renew
from etl.adapters.great_expectations.audit import Audit
from etl.adapters.kafka.errors import OffsetsGone, TopicRecreated
from etl.adapters.landing import Consumed, LandedFile, Limits, Slice
from etl.adapters.ledger import BacklogFile, BatchRecord, Ledger, Writer
from etl.adapters.losses import LossBook
from etl.adapters.profiles import Profiles
from etl.adapters.unlistable import LandingAway, LandingShut
from etl.contract.resolve import ResolvedPipeline
from etl.errors import AuditFailed, TransientError
from etl.masters.masters import PinnedMaster, versions_of
from etl.model import LinesDoNotAddUp, Progress
from etl.pipeline import decision as decisions
from etl.pipeline import isolate, recover
from etl.pipeline.engine import Engine
from etl.pipeline.input import deadline, waiting
from etl.pipeline.input.deadline import Control
from etl.pipeline.input.topic_input import Fetch, TopicInput
from etl.pipeline.loading import publishing
from etl.pipeline.loading.copying import Copying, copying
from etl.pipeline.loading.dimensions import Dimensions
from etl.pipeline.review import aside
from etl.pipeline.tasks.plan import BatchPlan, Places
from etl.pipeline.tasks.wire import Message

Clock = Callable[[], datetime]
Checkpoint = Callable[[str], None]
"""Called with the name of every point between two writes; tests end the process there."""

_TASK_BYTES = 4 * 2**20  # least input per task: with less, another task costs more than it saves
_TRIES_WHILE_INPUT_CHANGES = 50
_NAMED = 100  # unreadable files that a batch's record names


class InputRestless(TransientError):
    """Files keep changing while they are read."""

    def __init__(self, pipeline: str, files: tuple[str, ...]) -> None:
        super().__init__(pipeline, files)
        self.pipeline, self.files = pipeline, files

    def __str__(self) -> str:
        return f"files of {self.pipeline} keep changing while they are read: {', '.join(self.files[:3])}"


class Executor(Protocol):
    """Runs the tasks of a batch: on Spark, or in this process."""

    @property
    def slots(self) -> int:
        """How many tasks run concurrently."""
        ...

    def run(self, plan: BatchPlan) -> list[Message]:
        """Run reading and routing tasks; returns all of their messages."""
        ...

    def fetch(self, wanted: Fetch) -> None:
        """Copy offsets of a topic."""
        ...


def no_fault(_: str) -> None:
    """The default checkpoint: injects no fault."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Everything one pipeline's batches need while the writer's lock is held."""

    resolved: ResolvedPipeline
    places: Places
    writer: Writer
    dsn: str = field(repr=False)
    delta: DeltaLog
    engine: Engine
    dimensions: Dimensions
    audits: Audit
    executor: Executor
    clock: Clock
    progress: Progress
    topic: TopicInput | None = None
    limits: Limits = field(default_factory=Limits)
    checkpoint: Checkpoint = no_fault

    @property
    def ledger(self) -> Ledger:
        return self.writer.ledger

    @property
    def name(self) -> str:
        return self.resolved.pipeline.name

    # ── 1. fix input ───────────────────────────────────────────────────────────────────────────────────────────

    def next(self, run_id: str) -> BatchRecord | None:
        """The batch to work on: an unfinished one, else a new one from landed input and backlog. None: no input."""
        recover.settle(self)
        begun = self.ledger.oldest_unloaded()
        if begun is not None and begun.state == "held" and begun.verdict is not None and begun.audit is not None:
            begun = self._set_aside(begun, begun.audit)  # rejected: it must not block the pipeline any longer
        if begun is not None and begun.state != "reading":
            self.progress(f"batch {begun.batch} was {begun.state} before and is taken up again")
            return begun
        batch = self._fix(run_id) if begun is None else begun.batch
        left_out = frozenset[LandedFile]()
        while batch is not None and (changed := self._decide(batch)) is not None:
            left_out |= changed
            batch = self._fix(run_id, left_out)  # every fixed file has changed since: fix what is there now
        if batch is None:
            self._put_away()
            return None
        return self.ledger.get(batch)

    def _fix(self, run_id: str, left_out: Collection[LandedFile] = ()) -> int | None:
        """Fix the input of a new batch. Files that this run has left out wait for the next run, unless they changed."""
        now = self.clock()
        source = self.resolved.pipeline.stream.source
        files = [file for file in landing.scan(self.places.landing, source.format) if file not in left_out]
        consumed = self.ledger.consumed([file.name for file in files]) if files else {}
        shut = unreadable.find(self.places.landing, files, consumed)
        if shut:
            self.progress(unreadable.waiting_sentence(shut))
            named = {one.file for one in shut}
            files = [file for file in files if file not in named]
        offsets = None if self.topic is None else self.topic.waiting(self.ledger)
        control = self._control(files, consumed, 0 if offsets is None else offsets.bytes)
        limits = self.limits.within(control.take_bytes)
        slices = landing.fix_slices(self.places.landing, files, consumed, source.format, now, limits)
        if self.topic is not None and offsets is not None:
            room_bytes = 2**62 if control.take_bytes is None else control.take_bytes
            fixed = self.topic.fix(offsets, self.limits, room_bytes, now, slices)
            slices, control = (*slices, *fixed.slices), replace(control, lost=fixed.lost)
        if not slices:  # what has landed is still being written: the batch is there for events that wait
            control = replace(self._control((), {}, 0), lost=control.lost)
        if not slices and not self.ledger.judged_asides() and not self._has_retries(now):
            return None
        last = self.ledger.last()
        batch = 1 if last is None else last.batch + 1
        self.checkpoint("before input is fixed")
        taken, reasons = sum(one.bytes for one in slices), {one.file.label: one.reason for one in shut[:_NAMED]}
        control = replace(control, taken_bytes=taken, unreadable=reasons)
        self.ledger.fix(batch, run_id, now, slices, control.as_json())
        for partition, (first, end) in control.lost.items():
            self.progress(f"{partition}: offsets {first} to {'the end' if end is None else end - 1} are lost unread")
        self.checkpoint("after input is fixed")
        return batch

    def _control(self, files: Sequence[LandedFile], consumed: Mapping[bytes, Consumed], in_topic: int) -> Control:
        """The limits of the next batch, so that it ends in time."""
        pipeline = self.resolved.pipeline
        landed = sum(file.size - (consumed[file.name].end if file.name in consumed else 0) for file in files)
        shed = sum(file.waiting for file in self.ledger.backlog_files() if file.cause == "time")
        costs = deadline.observed(deadline.past(self.ledger.history(deadline.RECENT)))
        slots = self.executor.slots
        if costs is None:
            format = pipeline.stream.source.format
            return deadline.first_control(landed + in_topic, shed, pipeline.deadline, pipeline.shedding, format)
        control = deadline.control(costs, landed + in_topic, shed, pipeline.deadline, pipeline.shedding, slots)
        if control.overloaded:
            self.progress(f"overload: {control.waiting} events wait, one batch serves {control.capacity} in time")
        return control

    def _has_retries(self, now: datetime) -> bool:
        """Whether waiting events alone are worth a batch."""
        if not self.ledger.backlog_files() and not self.ledger.unknown_files():
            return False
        with self.engine.pinned(f"{self.name} backlog", now, self.progress) as masters:
            hopeful = bool(self._waiting(masters, now))
            if not hopeful:
                self.ledger.record_look(versions_of(masters))
            return hopeful

    def _waiting(
        self, masters: Iterable[PinnedMaster], now: datetime, reload: int | None = None
    ) -> tuple[BacklogFile, ...]:
        """Files of the backlog to retry: shed events as far as there is room, oldest first; others when masters or
        the grace have changed."""
        files, unknown = self.ledger.backlog_files(), self.ledger.unknown_files()
        if not files and not unknown:
            return ()
        patience = now - self.resolved.pipeline.grace
        last = self.ledger.last_decided()
        hopeful = waiting.may_go_on((*files, *unknown), self.places, tuple(masters), last)
        hopeful |= set() if last is None else last.decided.released_files  # rows may have come since
        hopeful |= {file.path for file in (*files, *unknown) if file.retry}
        waited = [file for file in files if file.cause == "master" and (file.since < patience or file.path in hopeful)]
        shed = deadline.oldest((file for file in files if file.cause == "time"), reload)
        return (*waited, *shed, *(file for file in unknown if file.path in hopeful))

    # ── 2. run the tasks, 3. decide ────────────────────────────────────────────────────────────────────────────

    def _decide(self, batch: int) -> frozenset[LandedFile] | None:
        """Decide a batch whose input is fixed. When nothing is left of that input: the files that were left out."""
        began, started_s = self.ledger.get(batch), time.perf_counter()
        left_out = frozenset[LandedFile]()
        if not self._fetch(batch):
            self.ledger.abandon(batch)
            return left_out
        with ExitStack() as pins:
            pinned = self.engine.pinned(f"{self.name} batch {batch}", began.started_at, self.progress)
            masters = pins.enter_context(pinned)
            self.checkpoint("before dimensions are brought up to date")
            self.ledger.fence(self.writer.epoch)  # tables and notes have no fence of their own
            self.dimensions.sync(masters, self.progress)
            self.checkpoint("after dimensions are brought up to date")
            for _ in range(_TRIES_WHILE_INPUT_CHANGES):
                slices = self.ledger.slices(batch)
                plan = self._plan(began, slices, masters)
                if not slices and not plan.backlog and not self.ledger.judged_asides():
                    self.ledger.abandon(batch)
                    return left_out
                gathered = isolate.run(self.executor, LossBook(self.ledger, batch), plan, self.progress)
                if gathered is None:  # some of the input was left for a later batch
                    if not self._fetch(batch):
                        self.ledger.abandon(batch)
                        return left_out
                    continue
                if not gathered.changed:
                    self._commit(began, plan, gathered, masters)
                    self.engine.learn_later(masters, gathered.notes, time.perf_counter() - started_s, pins.pop_all())
                    return None
                left_out |= self._leave_out(batch, slices, gathered)
        raise InputRestless(self.name, tuple(one.file.label for one in slices))

    def _fetch(self, batch: int) -> bool:
        """Copy the offsets that a batch reads. False: the broker lost them, and the topic is declared to go on then."""
        if self.topic is None:
            return True
        try:
            if self.topic.fetch(self.executor, self.ledger.slices(batch)):
                self.checkpoint("after offsets are copied")
        except (OffsetsGone, TopicRecreated) as error:
            if self.topic.topic.on_loss == "stop":
                raise
            self.progress(f"batch {batch} begins anew: {error}")
            return False
        return True

    def _plan(self, began: BatchRecord, slices: tuple[Slice, ...], masters: tuple[PinnedMaster, ...]) -> BatchPlan:
        control = Control() if began.control is None else Control.from_json(began.control)
        left = LossBook(self.ledger, began.batch).read().left  # of files whose rows kill together
        waiting_files = self._waiting(masters, began.started_at, control.reload)
        backlog = tuple(file for file in waiting_files if left.get(file.path, 2) > 1)
        size = sum(one.bytes for one in slices) + sum(file.waiting * 200 for file in backlog)
        tasks = max(1, min(self.executor.slots, -(-size // _TASK_BYTES)))
        return BatchPlan(
            resolved=self.resolved,
            places=self.places,
            batch=began.batch,
            attempt=secrets.token_hex(4),
            now=began.started_at,
            slices=slices,
            backlog=backlog,
            claims=self.ledger.claim_runs(),
            enrich=self.engine.plan(masters, control, tasks, self.progress),
            readers=max(1, min(tasks, len(slices) + len(backlog))),
            routers=tasks,
            waiting_rows=control.waiting_rows,
        )

    def _leave_out(self, batch: int, slices: tuple[Slice, ...], gathered: decisions.Gathered) -> frozenset[LandedFile]:
        """Files that changed while they were read belong to the next batch, with all of their slices."""
        files = frozenset(one.file for one in slices if one.ordinal in gathered.changed)
        self.ledger.exclude(batch, [one.ordinal for one in slices if one.file in files])
        self.progress(unreadable.left_out_sentence(slices, gathered.changed, gathered.unreadable))
        return files

    def _commit(
        self, began: BatchRecord, plan: BatchPlan, gathered: decisions.Gathered, masters: tuple[PinnedMaster, ...]
    ) -> None:
        decisions.require_schema(gathered, self.resolved.pipeline, plan.batch)
        decision = aside.take_up(self, plan, decisions.decide(gathered, versions_of(masters)))
        if decision.counts.lines != decision.counts.routed:
            raise LinesDoNotAddUp(self.name, plan.batch, decision.counts.lines, decision.counts.routed)
        decided_at = self.clock()
        renew(self.places.waiting(path) for path in decision.corrected)  # nothing names them from now on
        renew(self.places.before(path) for path in decision.corrected)
        self.checkpoint("before the note")
        recover.write_note(self, began, plan, decision, decided_at)
        self.checkpoint("before the decision")
        self.ledger.decide(plan.batch, decided_at, decision, self.writer.epoch)
        left = LossBook(self.ledger, plan.batch).read().left.keys() & (decision.resolved.keys() | decision.corrected)
        if tried := [file.path for file in plan.backlog if file.retry and file.path not in left]:
            self.ledger.retried(tried)  # not in the decision's commit: a file that is retried once more does no harm
        waiting.remember(self.places, plan.batch, masters)
        self.checkpoint("after the decision")
        joins = {name: {**notes.as_json(), "tasks": plan.routers} for name, notes in gathered.notes.items()}
        self.ledger.record_joins(plan.batch, joins)

    # ── 4. audit ───────────────────────────────────────────────────────────────────────────────────────────────

    def audit(self, batch: int) -> BatchRecord:
        """Hold the batch unless the suite passes it or a person has released it."""
        record = self.ledger.get(batch)
        if record.state in ("loaded", "released", "passed"):
            return record
        past = Profiles(self.ledger).past(batch)
        verdict = publishing.ask_audit(self.audits, self.places, self.resolved, record, past)
        self.checkpoint("before the verdict")
        if not verdict["success"] and self.resolved.pipeline.held == "go_on":
            return self._set_aside(record, verdict)
        self.ledger.record_audit(batch, "passed" if verdict["success"] else "held", verdict)
        self.checkpoint("after the verdict")
        record = self.ledger.get(batch)
        if not verdict["success"]:
            raise self.audit_failed(record)
        return record

    def _set_aside(self, record: BatchRecord, verdict: dict[str, Any]) -> BatchRecord:
        try:
            return aside.set_aside(self, record, verdict)
        except aside.EventsNotFound:  # else nobody could release it either, and nothing would ever go on
            self.ledger.hold(record.batch, verdict)
            raise

    def audit_failed(self, record: BatchRecord) -> AuditFailed:
        """The error for a batch whose accepted events wait for a person."""
        expectations = (record.audit or {}).get("expectations", ())
        failed = tuple(one["name"] for one in expectations if not one["success"])
        return AuditFailed(self.name, record.batch, failed, str(self.audits.docs / "index.html"))

    # ── 5. publish ─────────────────────────────────────────────────────────────────────────────────────────────

    def publish(self, batch: int, rows: Copying | None = None) -> BatchRecord:
        """Make a batch that passed visible everywhere, then archive its input. `rows`: a copy that has started."""
        record = self.ledger.get(batch)
        if record.state != "loaded":
            recover.confirm_note(self, record)
            with copying(self, record) if rows is None else nullcontext(rows) as rows:
                publishing.publish(self, record, rows)
        self._put_away()
        return self.ledger.get(batch)

    def _put_away(self) -> None:
        try:
            self._archive()
        except (LandingAway, LandingShut) as error:  # what is loaded is loaded; the next run says so, too
            self.progress(f"files that were read stay where they are: {error}")

    def _archive(self) -> None:
        files = landing.scan(self.places.landing, self.resolved.pipeline.stream.source.format)
        consumed = self.ledger.consumed([file.name for file in files]) if files else {}
        now = self.clock()
        folder = self.places.archive / f"{now:%Y-%m-%d}"
        moved = landing.put_away(self.places.landing, folder, consumed, now)
        if moved:
            self.checkpoint("after files are put away")
            self.ledger.put_away(moved)
