"""Carries a plan out over the folders of its sites, batch by batch.

    begin(batch)   fixes what belongs to it and the plan it follows          ── entry, before anything is read
    run()          every step of every unfinished batch that can be done     ── one file per step, then `finished`

A step is done when its file is there. Files are named by plan, step and batch, are written whole or not at all, and
depend on nothing but earlier files and entries: killed anywhere, the next run goes on with the same files and every
result is made exactly once. A step that needs a site that is away waits, with what depends on it; everything else is
done. A new plan takes effect at a batch boundary: it replays the batches that are still in some window through its own
steps, without those that make results (ADR 49).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from etl.correlate.multiway import layout
from etl.correlate.multiway.execution.calendar import Calendar, Entry
from etl.correlate.multiway.execution.extract import event_time, extract, select
from etl.correlate.multiway.execution.folder import SiteAway, SiteFolder, to_bytes
from etl.correlate.multiway.execution.kernel import Kernel, SortedKernel
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
    """One query's state over the folders, which have been created; `coordinator` holds the entries and the plans."""

    def __init__(
        self,
        query: JoinQuery,
        coordinator: SiteFolder,
        folders: Mapping[str, SiteFolder],
        segments: Segments,
        kernel: Kernel | None = None,
    ) -> None:
        self.query, self._folders, self._segments = query, folders, segments
        self._coordinator, self._kernel = coordinator, kernel or SortedKernel()
        self.calendar = Calendar(query, coordinator)
        self._state = State(query, folders, self.calendar)
        self._done: set[tuple[int, int, Step]] = set()
        self._blocked: dict[tuple[int, int, Step], str] = {}  # steps that wait, and the site they wait for
        self._finished = {int(name.split(".")[0]) for name in coordinator.names(f"{query.name}/finished")}
        self.epochs = [self._read_epoch(name) for name in coordinator.names(f"{query.name}/plans")]

    # -- what is decided before a batch is read

    def adopt(self, plan: Node) -> None:
        """A plan for the batches that begin from now on."""
        first = len(self.calendar.entries)
        content = {"plan": to_json(plan), "first_batch": first}
        name = f"{len(self.epochs):04d}.json"
        self._coordinator.write(f"{self.query.name}/plans/{name}", json.dumps(content).encode())
        self.epochs.append(self._read_epoch(name))

    def _read_epoch(self, name: str) -> Epoch:
        content = json.loads(self._coordinator.read(f"{self.query.name}/plans/{name}"))
        first, program = int(content["first_batch"]), compile_plan(self.query, from_json(content["plan"]))
        return Epoch(int(name.split(".")[0]), first, self.calendar.first_live(first) if first else 0, program)

    def begin(self, segments: Mapping[int, pa.Table]) -> Entry:
        """The next batch, with what each stream has in it."""
        number = len(self.calendar.entries)
        rows, latest = [], []
        for stream in range(len(self.query.streams)):
            starts = event_time(self.query, stream, self._in_time(stream, number, segments[stream])[0])
            rows.append(len(starts))
            latest.append(int(starts[-1]) if len(starts) else self.calendar.horizon(number - 1))
        horizon = max(self.calendar.horizon(number - 1), *latest)
        entry = Entry(number, self.epochs[-1].number, horizon, tuple(rows), tuple(latest))
        self.calendar.append(entry)
        return entry

    def _in_time(self, stream: int, batch: int, segment: pa.Table) -> tuple[pa.Table, pa.Table]:
        """The tuples that take part, and those that came too late."""
        selected = select(self.query, stream, segment)
        late = int(np.searchsorted(event_time(self.query, stream, selected), self.calendar.watermark(batch)))
        return selected.slice(late), selected.slice(0, late)

    # -- the work

    def run(self, at: str | None = None) -> RunReport:
        """Does all that can be done now; `at` a site, only what is done there (a task per site, side by side)."""
        report = RunReport()
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
                    self._finish(batch, report)
        self._expire()
        return report

    def _units(self) -> Iterator[tuple[Epoch, int, tuple[Step, ...]]]:
        """Batches in order; before the first of a plan, the replayed ones."""
        for epoch in self.epochs:
            own = [entry.number for entry in self.calendar.entries if entry.epoch == epoch.number]
            todo = [batch for batch in own if batch not in self._finished]
            if todo and todo[0] == own[0]:
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
                    else:
                        blocked = worked_at(step)
                if blocked is None and isinstance(step, Ship):
                    shipped.append(self._account(epoch, step, batch))
                if blocked is None:
                    self._done.add((epoch.number, batch, step))
            except (SiteAway, OSError) as error:
                blocked = self._who_is_away(error)
            if blocked is not None:
                self._blocked[epoch.number, batch, step] = blocked
                waiting.append(Waiting(batch, f"{step.name} → {step.output.name} at {step.output.site}", blocked))
        return waiting

    def _who_is_away(self, error: SiteAway | OSError) -> str:
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
        """The site that has not yet written what a step reads; None if all is there."""
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
            name = f"{self.query.name}/late/{self.query.streams[step.stream].name}/{batch:012d}.arrow"
            self._folders[step.output.site].write(name, to_bytes(late))
        return extract(self.query, step.stream, kept, self.calendar.first_sequence(step.stream, batch))

    def _close(self, step: CloseWindows, batch: int) -> pa.Table:
        kept, _ = self._in_time(step.stream, batch, self._segments.read(step.stream, batch))
        ends = self.calendar.ends(step.stream, batch, event_time(self.query, step.stream, kept))
        return pa.table({layout.END: ends}, schema=ENDS)

    def _ship(self, epoch: Epoch, step: Ship, batch: int, path: str) -> None:
        """Written once at the origin, where it waits if the destination is away, and then copied."""
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

    def _finish(self, batch: int, report: RunReport) -> None:
        """The batch is done: says so, and lets go of files whose windows are over."""
        mine = [[getattr(one, name) for name in Shipped.__slots__] for one in report.shipped if one.batch == batch]
        self._coordinator.write(f"{self.query.name}/finished/{batch:012d}.json", json.dumps(mine).encode())
        self._finished.add(batch)
        report.finished.append(batch)

    def _expire(self) -> None:
        """Removes files that no unfinished batch, nor any to come, can need."""
        begun = len(self.calendar.entries)
        oldest = next((n for n in range(begun) if n not in self._finished), begun)
        live = self.calendar.first_live(oldest)
        self._state.forget(live)
        self._done = {one for one in self._done if one[1] >= live}
        for epoch in self.epochs:
            over = epoch is not self.epochs[-1] and oldest >= self.epochs[epoch.number + 1].first_batch
            for step in epoch.program.priming:
                folder = self._folders[step.output.site]
                room = self._state.room(epoch, step)
                for name in folder.names(room) if folder.is_there() else ():
                    if over or int(name.split(".")[0]) < live:
                        folder.remove(f"{room}/{name}")
        self._clear_outboxes(live)

    def _clear_outboxes(self, live: int) -> None:
        """What a crash between arrival and removal has left at the origin."""
        for folder in self._folders.values():
            for destination in self._folders if folder.is_there() else ():
                outbox = f"{self.query.name}/outbox/{destination}"
                for name in folder.names(outbox):
                    if int(name.removesuffix(".arrow").rsplit("-", 1)[-1]) < live:
                        folder.remove(f"{outbox}/{name}")

    # -- what came out

    def results(self, batch: int) -> pa.Table:
        """A batch's results: at the target if there is one, else from the sites that made them."""
        program = self.epochs[self.calendar.entries[batch].epoch]
        kind = "gathered" if self.query.target is not None else "result"
        stores = [store for store in program.program.writers if store.kind == kind]
        shown = [layout.shown(s.name, name) for s in self.query.streams for name in s.columns]
        return pa.concat_tables(self._state.whole(program, store, batch).select(shown) for store in stores)
