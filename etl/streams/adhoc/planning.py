"""The driver's part at a batch's start: new and deleted queries, and shared work; in effect when the batch is decided.

    registry ── wanted − running ──► created        join existing groups at once
             ── running − wanted ──► deleted        statistics of the segments in use ──► groups and join orders by cost
                                     └──► version   one file, named in the plan that every task gets

Without changes, only the registry is read. A query that can no longer be compiled (its stream has changed) is suspended
with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import pyarrow as pa

from etl.contract.correlations.correlation import LoggedStream
from etl.correlate.adhoc.errors import QueryRefused
from etl.correlate.adhoc.optimize.decisions import Decision
from etl.correlate.adhoc.optimize.optimizer import Optimizer, OptimizerState
from etl.correlate.adhoc.optimize.statistics import Statistics, sample_streams
from etl.correlate.adhoc.plan import Plan
from etl.correlate.adhoc.query.model import Query
from etl.streams.adhoc.registry import QueryRegistry, Record
from etl.streams.adhoc.state import EventClock, QueryState
from etl.streams.adhoc.tasks.plan import QueriesPlan
from etl.streams.adhoc.version import (
    Entry,
    Version,
    compiled_query,
    open_readable,
    open_version,
    streams_for_queries,
    write_version,
)
from etl.streams.storage.files import FileStore
from etl.streams.storage.log import from_ipc, segment_name


@dataclass(frozen=True, slots=True)
class Planned:
    """The queries of one try at a batch; in effect only with the decision."""

    state: QueryState  # before the batch, with the new version and the optimizer's memory
    version: Version | None
    created: tuple[int, ...] = ()
    deleted: tuple[int, ...] = ()
    suspended: Mapping[int, str] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()

    def in_batch(self, clock: EventClock, rows_most: int) -> QueriesPlan | None:
        """The plan for tasks; None: there are no queries."""
        if self.version is None or not self.version.entries or self.state.version is None:
            return None
        return QueriesPlan(
            self.state.version,
            frozenset(self.version.columns),
            clock.slot_us,
            self.state.first_slot,
            self.state.segments,
            self.state.shares,
            rows_most,
        )


@dataclass(frozen=True, slots=True)
class QueryPlanner:
    """Plans the queries of one try at a batch."""

    registry: QueryRegistry
    store: FileStore
    streams: tuple[LoggedStream, ...]
    clock: EventClock

    def plan(self, batch: int, attempt: str, now: datetime, tasks: int) -> Planned:
        """Plan the queries of this batch; `tasks` is the number that suits the batch's size."""
        self.registry.expire(now)
        before = self.registry.state()
        state, scaled = before.scaled(tasks), list[Decision]()
        if state.shares != before.shares:
            scaled = [_scaled(batch, before.shares, state.shares)]
        records = self.registry.active()
        version, broken = self._known(state)
        known = {} if version is None else {one.id: one for one in version.entries.values()}
        coming = [one for one in records if one.created_batch is None or one.id not in known]
        fresh, refused = self._compiled([one for one in coming if one.id not in broken])
        stay = {one.id for one in records} - {one.id for one in coming}
        going = [one for one in known.values() if one.id not in stay]
        suspended = {**broken, **refused}
        decisions = [*scaled, *(_suspended(batch, records, one, why) for one, why in suspended.items())]
        if not fresh and not going and not (state.fresh and state.segments):
            return Planned(state, version, suspended=suspended, decisions=tuple(decisions))
        optimizer = _optimizer(state, version)
        plan, reasons = optimizer.change(batch, [query for _, query in fresh], [one.name for one in going])
        decisions += reasons
        if state.fresh and state.segments:
            plan, reasons = optimizer.reoptimize(batch, self._statistics(state, optimizer.state.queries))
            decisions += reasons
        entries = self._entries(batch, [one for one in known.values() if one.id in stay], fresh)
        name = write_version(self.store, batch, attempt, entries, plan)
        remembered = optimizer.state
        state = replace(
            state,
            version=name,
            fresh=tuple(sorted(remembered.fresh)),
            changed=remembered.changed,
            next_group=remembered.next_group,
        )
        created, deleted = tuple(record.id for record, _ in fresh), tuple(one.id for one in going)
        opened = open_version(self.store, name, self.streams)
        return Planned(state, opened, created, deleted, suspended, tuple(decisions))

    def _known(self, state: QueryState) -> tuple[Version | None, dict[int, str]]:
        """The previous batch's version, and its queries that can no longer be compiled, with the reason."""
        if state.version is None:
            return None, {}
        try:
            return open_version(self.store, state.version, self.streams), {}
        except QueryRefused:
            return open_readable(self.store, state.version, self.streams)

    def _compiled(self, records: list[Record]) -> tuple[list[tuple[Record, Query]], dict[int, str]]:
        found, refused = list[tuple[Record, Query]](), dict[int, str]()
        for one in records:
            slots = -(-one.within_us // self.clock.slot_us)
            try:
                found.append((one, compiled_query(one.name, one.sql, slots, self.streams)))
            except QueryRefused as error:
                refused[one.id] = str(error)
        return found, refused

    def _entries(self, batch: int, stay: list[Entry], fresh: list[tuple[Record, Query]]) -> list[Entry]:
        taken, entries, number = {one.number for one in stay}, list(stay), 0
        for record, query in fresh:
            while number in taken:
                number += 1
            taken.add(number)
            entries.append(Entry(record.id, record.name, record.sql, query.window, number, batch))
        return entries

    def _statistics(self, state: QueryState, queries: dict[str, Query]) -> Statistics:
        """Statistics from samples of the newest segment of every stream in use."""
        newest = {one.stream: one.number for one in sorted(state.segments, key=lambda one: one.number)}
        declared = streams_for_queries(self.streams)
        tables = {}
        for stream, number in newest.items():
            (rows,) = self.store.open(segment_name(stream, number), from_ipc)
            tables[stream] = pa.Table.from_batches([rows])
        return sample_streams(declared, queries, tables, seed=state.changed)


def _optimizer(state: QueryState, version: Version | None) -> Optimizer:
    if version is None:
        return Optimizer(state=OptimizerState(next_group=state.next_group))
    queries = {name: each.query for name, each in version.running.items()}
    fresh = {name for name in state.fresh if name in queries}
    return Optimizer(
        state=OptimizerState(Plan(dict(version.plan.choices)), queries, fresh, state.changed, state.next_group)
    )


def _scaled(batch: int, before: int, now: int) -> Decision:
    way = "out" if now > before else "in"
    words = f"scale {way}: batches of this size suit {now} tasks, keys were dealt out to {before}"
    return Decision(batch, "scale", "plan", words, {"before": before, "now": now})


def _suspended(batch: int, records: list[Record], number: int, reason: str) -> Decision:
    name = next((one.name for one in records if one.id == number), str(number))
    return Decision(batch, "suspend", name, reason)
