"""Executes a plan over the folders of its sites, batch by batch.

    begin(batch)   fixes its input and its plan                              ── entry in the book, before it is read
    run()          every possible step of every unfinished batch             ── one file per step, then `finished`

A step is done when its file exists. Files are named by plan, step and batch, are written atomically, and depend only on
earlier files and entries: after a crash, the next run continues with the same files and every result is produced
exactly once. A step that needs an unreachable site waits, and so do its dependents; everything else is done. A new plan
takes effect at a batch boundary: it replays the batches that are still in some window through its own steps, without
those that produce results (ADR 49).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from etl.correlate.multiway import layout
from etl.correlate.multiway.execution.book import Book, Json
from etl.correlate.multiway.execution.calendar import BEGINNING, Arrival, Calendar, Entry
from etl.correlate.multiway.execution.extract import event_time, extract, select
from etl.correlate.multiway.execution.folder import SiteAway, SiteFolder, from_bytes, to_bytes
from etl.correlate.multiway.execution.kernel import Kernel, RunKernel
from etl.correlate.multiway.execution.mjoin import mjoin
from etl.correlate.multiway.execution.program import (
    CloseWindows,
    Extract,
    Join,
    Ship,
    Step,
    Store,
    compile_plan,
    worked_at,
)
from etl.correlate.multiway.execution.report import RunReport, Shipped, Waiting
from etl.correlate.multiway.execution.segments import Segments
from etl.correlate.multiway.execution.state import ENDS, Epoch, State
from etl.correlate.multiway.planning.codec import from_json, to_json
from etl.correlate.multiway.planning.tree import Node
from etl.correlate.multiway.query import JoinQuery


class Executor:
    """One query's execution over existing folders; the book has the entries and the plans."""

    def __init__(
        self,
        query: JoinQuery,
        book: Book,
        folders: Mapping[str, SiteFolder],
        segments: Segments,
        kernel: Kernel | None = None,
    ) -> None:
        self.query, self._folders, self._segments = query, folders, segments
        self._book, self._kernel = book, kernel or RunKernel()
        self.calendar = Calendar(query, book)
        self._state = State(query, folders, self.calendar)
        self._done: set[tuple[int, int, Step]] = set()
        self._blocked: dict[tuple[int, int, Step], str] = {}  # steps that wait, and the site they wait for
        self._finished = set(book.finished())
        self._sent: list[Shipped] = []
        self.epochs = {number: self._epoch(number, content) for number, content in book.plans()}

    # -- before a batch is read

    @property
    def latest(self) -> Epoch:
        """The plan that new batches follow."""
        return self.epochs[max(self.epochs)]

    @property
    def unfinished(self) -> list[int]:
        return [one.number for one in self.calendar.entries if one.number not in self._finished]

    def adopt(self, plan: Node, reason: str = "", made_by: str = "") -> None:
        """Set the plan for later batches."""
        first = self.calendar.following
        replayed = self.calendar.first_live(first) if self.epochs else first
        number = max(self.epochs, default=-1) + 1
        content = {"plan": to_json(plan), "first_batch": first, "first_replayed": replayed}
        content |= {"reason": reason, "made_by": made_by}
        self._book.add_plan(number, content)
        self.epochs[number] = self._epoch(number, content)

    def _epoch(self, number: int, content: Json) -> Epoch:
        plan = from_json(content["plan"])
        first, replayed = content["first_batch"], content["first_replayed"]
        notes = content.get("reason", ""), content.get("made_by", "")
        return Epoch(number, first, replayed, plan, compile_plan(self.query, plan), *notes)

    def begin(self, segments: Mapping[int, pa.Table]) -> Entry:
        """Begin the next batch, with each stream's tuples."""
        number, arrivals = self.calendar.following, []
        for stream in range(len(self.query.streams)):
            starts = event_time(self.query, stream, self._in_time(stream, number, segments[stream])[0])
            arrivals.append(Arrival(len(starts), int(starts[-1]) if len(starts) else BEGINNING))
        return self.begin_counted(arrivals)

    def begin_counted(self, arrivals: Sequence[Arrival]) -> Entry:
        """Begin the next batch, with tuples counted by the caller."""
        return self.calendar.begin(self.latest.number, list(arrivals))

    def count(self, stream: int) -> int:
        """The number of participating tuples in the next batch, as a tuple window counts them."""
        number = self.calendar.following
        return int(self._in_time(stream, number, self._segments.read(stream, number))[0].num_rows)

    def _in_time(self, stream: int, batch: int, segment: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Split into participating and late tuples."""
        selected = select(self.query, stream, segment)
        late = int(np.searchsorted(event_time(self.query, stream, selected), self.calendar.watermark(batch)))
        return selected.slice(late), selected.slice(0, late)

    # -- the work

    def run(self, at: str | None = None) -> RunReport:
        """Do all steps that are possible now; `at`: only those of this site (for parallel tasks, one per site)."""
        report = RunReport()
        self._sent = report.sent
        self._finished |= set(self._book.finished())  # tasks of other sites finish batches too
        self._blocked.clear()
        for epoch, batch, steps in self._units():
            shipped: list[Shipped] = []
            waiting = self._run_unit(epoch, batch, steps, shipped, at)
            report.waiting += waiting
            if batch < epoch.first_batch:
                report.replayed += shipped
            else:
                report.shipped += shipped
                if not waiting:
                    self._finish(epoch, batch, report)
        self._expire()
        return report

    def _units(self) -> Iterator[tuple[Epoch, int, tuple[Step, ...]]]:
        """Batches in order; before the first of a plan, the replayed ones."""
        for epoch in list(self.epochs.values()):
            own = [entry.number for entry in self.calendar.entries if entry.epoch == epoch.number]
            todo = [batch for batch in own if batch not in self._finished]
            if todo and todo[0] == epoch.first_batch:
                for batch in range(epoch.first_replayed, epoch.first_batch):
                    yield epoch, batch, epoch.program.priming
            for batch in todo:
                yield epoch, batch, epoch.program.steps

    def _run_unit(
        self, epoch: Epoch, batch: int, steps: tuple[Step, ...], shipped: list[Shipped], at: str | None
    ) -> list[Waiting]:
        waiting: list[Waiting] = []
        for step in steps:
            blocked = self._missing(epoch, step, batch)
            try:
                if blocked is None and not self._is_done(epoch, step, batch):
                    if at in (None, worked_at(step)):
                        self._do(epoch, step, batch)
                        made = self._account(epoch, step, batch) if isinstance(step, Ship) else None
                        self._sent += [made] if made is not None and made.crosses else []
                    else:
                        blocked = worked_at(step)
                if blocked is None and isinstance(step, Ship) and step.input.site != step.output.site:
                    shipped.append(self._account(epoch, step, batch))
                if blocked is None:
                    self._done.add((epoch.number, batch, step))
            except (SiteAway, OSError) as error:
                blocked = self._unreachable_site(error)
            if blocked is not None:
                self._blocked[epoch.number, batch, step] = blocked
                name = f"{step.name} → {step.output.name} at {step.output.site}"
                waiting.append(Waiting(batch, name, blocked, worked_at(step)))
        return waiting

    def _unreachable_site(self, error: SiteAway | OSError) -> str:
        if isinstance(error, SiteAway):
            return error.site
        for name, folder in self._folders.items():
            if not folder.is_there():
                return name
        raise error

    def _reads(self, epoch: Epoch, step: Step, batch: int) -> Iterator[tuple[Step, int]]:
        """The steps, with their batches, whose files a step needs."""
        if isinstance(step, Ship):
            yield from ((maker, batch) for maker in epoch.program.makers(step.input))
        elif isinstance(step, Join):
            members = layout.counted(self.query, step.output.streams)
            stores = [*step.inputs, *(Store("ends", 1 << stream, step.output.site) for stream in members)]
            first = max(epoch.first_replayed, self.calendar.first_live(batch))
            for number in range(first, batch + 1):
                yield from ((writer, number) for store in stores for writer in epoch.program.writers.get(store, ()))

    def _missing(self, epoch: Epoch, step: Step, batch: int) -> str | None:
        """The site whose output a step still waits for; None if all inputs exist."""
        for writer, number in self._reads(epoch, step, batch):
            if not self._is_done(epoch, writer, number):
                return self._blocked.get((epoch.number, number, writer), worked_at(writer))
        return None

    def _is_done(self, epoch: Epoch, step: Step, batch: int) -> bool:
        if (epoch.number, batch, step) in self._done:
            return True
        folder = self._folders[step.output.site]
        if not folder.is_there():
            return False
        return folder.exists(self._state.path(epoch, step, batch))

    def _do(self, epoch: Epoch, step: Step, batch: int) -> None:
        path = self._state.path(epoch, step, batch)
        if isinstance(step, Ship):
            self._ship(epoch, step, batch, path)
            return
        if isinstance(step, Join):
            inputs = [self._state.input(epoch, store, batch, step.route) for store in step.inputs]
            table = mjoin(self.query, inputs, self._kernel)
        elif isinstance(step, Extract):
            table = self._extract(step, batch)
        else:
            table = self._close(step, batch)
        self._folders[step.output.site].write(path, to_bytes(table))

    def _extract(self, step: Extract, batch: int) -> pa.Table:
        kept, late = self._in_time(step.stream, batch, self._segments.read(step.stream, batch))
        if late.num_rows:
            self._folders[step.output.site].write(self._late_name(step.stream, batch), to_bytes(late))
        return extract(self.query, step.stream, kept, self.calendar.first_sequence(step.stream, batch))

    def _close(self, step: CloseWindows, batch: int) -> pa.Table:
        kept, _ = self._in_time(step.stream, batch, self._segments.read(step.stream, batch))
        ends = self.calendar.ends(step.stream, batch, event_time(self.query, step.stream, kept))
        return pa.table({layout.END: ends}, schema=ENDS)

    def _ship(self, epoch: Epoch, step: Ship, batch: int, path: str) -> None:
        """Write a file once at the origin, where it stays while the destination is unreachable, then copy it."""
        origin, destination = self._folders[step.input.site], self._folders[step.output.site]
        outbox = (
            f"{self.query.name}/outbox/{step.output.site}/e{epoch.number:04d}-{step.output.name}-{batch:012d}.arrow"
        )
        if not origin.exists(outbox):
            table = self._state.made(epoch, step.input, batch, step.route)
            origin.write(outbox, to_bytes(table))
        destination.write(path, origin.read(outbox))
        origin.remove(outbox)

    def _account(self, epoch: Epoch, step: Ship, batch: int) -> Shipped:
        size = self._folders[step.output.site].size(self._state.path(epoch, step, batch))
        tuples = self._state.table(epoch, step, batch).num_rows if size else 0
        return Shipped(batch, step.output.kind, step.input.streams, step.input.site, step.output.site, tuples, size)

    # -- the end of a batch

    def _finish(self, epoch: Epoch, batch: int, report: RunReport) -> None:
        """Record a batch as finished, with its shipments."""
        mine = [one for one in report.shipped if one.batch == batch]
        filling = [one for one in report.replayed if epoch.first_replayed <= one.batch < epoch.first_batch]
        self._book.finish(batch, mine, filling if batch == epoch.first_batch else ())
        self._finished.add(batch)
        report.finished.append(batch)

    def _expire(self) -> None:
        """Remove files that no unfinished or future batch needs."""
        oldest = min(self.unfinished, default=self.calendar.following)
        live = self.calendar.first_live(oldest)
        self._state.forget(live)
        self._done = {one for one in self._done if one[1] >= live}
        for epoch in self.epochs.values():
            over = self._is_over(epoch, oldest)
            for step in epoch.program.priming:
                folder = self._folders[step.output.site]
                room = self._state.room(epoch, step)
                for name in folder.names(room) if folder.is_there() else ():
                    if over or int(name.split(".")[0]) < live:
                        folder.remove(f"{room}/{name}")
        self._clear_outboxes(live)

    def _clear_outboxes(self, live: int) -> None:
        """Remove files that a crash between arrival and removal has left at the origin."""
        for folder in self._folders.values():
            for destination in self._folders if folder.is_there() else ():
                outbox = f"{self.query.name}/outbox/{destination}"
                for name in folder.names(outbox):
                    if int(name.removesuffix(".arrow").rsplit("-", 1)[-1]) < live:
                        folder.remove(f"{outbox}/{name}")

    def _is_over(self, epoch: Epoch, oldest: int) -> bool:
        """Whether all batches of a plan are finished and another one has taken over."""
        later = [one.first_batch for number, one in self.epochs.items() if number > epoch.number]
        return bool(later) and oldest >= min(later)

    def forget(self, kept: int) -> int:
        """Delete entries and plans that are no longer needed; results from batch `kept` on are still unread.

        Returns the first batch that is still in some window.
        """
        oldest = min([kept, *self.unfinished, self.calendar.following])
        live = self.calendar.first_live(oldest)
        away = [name for name, folder in self._folders.items() if not folder.is_there()]
        over = [number for number, epoch in self.epochs.items() if self._is_over(epoch, oldest)]
        if not away:  # files not removed now are found later by the plan's number
            self.epochs = {number: one for number, one in self.epochs.items() if number not in over}
        self._book.forget(live - 1, min(self.epochs, default=0))
        self.calendar.forget(live - 1)
        self._finished = {batch for batch in self._finished if batch >= self.calendar.first}
        return live

    # -- results

    def results(self, batch: int) -> pa.Table:
        """A batch's results: at the target if there is one, else from the sites that produced them."""
        epoch = self.epochs[self.calendar.entry(batch).epoch]
        kind = "gathered" if self.query.target is not None else "result"
        stores = [store for store in epoch.program.writers if store.kind == kind]
        shown = [layout.shown(s.name, name) for s in self.query.streams for name in s.columns]
        return pa.concat_tables(self._state.whole(epoch, store, batch).select(shown) for store in stores)

    def late(self, batch: int) -> Iterator[tuple[int, pa.Table]]:
        """The late tuples of a batch, by stream."""
        for number, stream in enumerate(self.query.streams):
            folder, name = self._folders[stream.site], self._late_name(number, batch)
            if not folder.is_there():
                raise SiteAway(stream.site)
            if folder.exists(name):
                yield number, from_bytes(folder.read(name), stream.schema)

    def discard(self, batch: int) -> None:
        """Remove the results of a batch after they were read."""
        epoch = self.epochs[self.calendar.entry(batch).epoch]
        for step in epoch.program.steps:
            folder = self._folders[step.output.site]
            if step.output.kind in ("result", "gathered") and folder.is_there():
                folder.remove(self._state.path(epoch, step, batch))
        for number, stream in enumerate(self.query.streams):
            if self._folders[stream.site].is_there():
                self._folders[stream.site].remove(self._late_name(number, batch))

    def _late_name(self, stream: int, batch: int) -> str:
        return f"{self.query.name}/late/{self.query.streams[stream].name}/{batch:012d}.arrow"
