"""The task of units: one step of every correlation that has one at this stage.

    tuples for (correlation, step, unit) ── open its runs ── unit.step ─┬─ new runs ──▶ files
                                                                       └─ pairs ─┬─▶ tuples of the next step, routed
                                                                                 └─▶ results (`results`)

Messages for a later stage, or for the driver, are forwarded. Nothing expires here: the driver gives a unit only the
runs that may still be joined.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace

import numpy as np
import pyarrow as pa

from etl.correlate.biclique import unit as unit_kernel
from etl.correlate.biclique.pipeline import prepared, right_columns
from etl.correlate.biclique.unit import UnitStep
from etl.correlate.distinct import Deduplicator
from etl.correlate.index.chain import ChainConfig, ChainedIndex
from etl.correlate.index.runs import Run
from etl.correlate.model import Pairs, Side, Tuples, Window, opposite
from etl.correlate.query.compile import JoinStep, Query
from etl.correlate.rows import JoinedRows, RowResidual
from etl.pipeline.tasks.wire import Message
from etl.streams.adhoc.tasks.join import join_queries
from etl.streams.declared import compiled
from etl.streams.documents.join import join_documents
from etl.streams.state.state_files import RunWriter, StateRun, open_run
from etl.streams.storage.log import SegmentRows
from etl.streams.tasks import wire
from etl.streams.tasks.plan import BatchPlan, CorrelationPlan
from etl.streams.tasks.results import Results
from etl.streams.tasks.wire import Address

Given = dict[str, list[Message]]
"""The input of a unit, by role: tuples to store, tuples that probe."""
Opened = dict[int, tuple[Run, StateRun]]
"""Runs by `id`, which is stable while they are referenced here."""


def join(plan: BatchPlan, stage: int, task: int, messages: Iterable[Message]) -> Iterator[Message]:
    """All units of one task at one stage."""
    work: dict[tuple[int, int, Side], Given] = {}
    documents: list[Message] = []
    segments: list[Message] = []
    for message in messages:
        if message.kind == "segments":
            segments.append(message)
            continue
        if message.kind == "documents":
            documents.append(message)
            continue
        if message.kind != "rows":
            yield message
            continue
        address = Address.parse(message.name)
        if address.step != stage:
            yield replace(message, part=plan.task_of(address.correlation, address.step, address.units[0]))
            continue
        for unit in address.units:
            given = work.setdefault((address.correlation, unit, address.side), {})
            given.setdefault(address.role, []).append(message)
    by_correlation: dict[int, dict[int, tuple[Side, Given]]] = {}
    for index, number, side in sorted(work):
        by_correlation.setdefault(index, {})[number] = side, work[index, number, side]
    for index, units in by_correlation.items():
        yield from _Stage(plan, index, stage, task).run(units)
    yield from join_documents(plan, task, documents)
    yield from join_queries(plan, task, segments)


class _Stage:
    """The units of one correlation that one task has at one stage."""

    def __init__(self, plan: BatchPlan, index: int, stage: int, task: int) -> None:
        self._plan, self._index, self._number = plan, index, stage
        self._correlation: CorrelationPlan = plan.correlations[index]
        self._query: Query = compiled(self._correlation.declared, plan.declared_streams)
        streams = {one.name: one.schema for one in plan.declared_streams}
        self._rows = {
            alias: SegmentRows(plan.places.store, source.stream, streams[source.stream])
            for alias, source in self._query.sources.items()
        }
        self._held = self._correlation.state.by_unit()
        self._results = Results(plan, index, self._query, task)
        nonce = secrets.token_hex(4)  # a retried task must not overwrite a file that the first try has reported
        self._runs = RunWriter(plan.places.store, plan.runs_name(self._correlation.name, stage, task, nonce))

    def run(self, units: dict[int, tuple[Side, Given]]) -> Iterator[Message]:
        last = self._number == len(self._query.steps)
        for unit, (side, given) in units.items():
            if last:
                yield from self._deduplicate(unit, given["rows"])
            else:
                yield from self._join(unit, side, given)
        yield from self._results.written()
        self._runs.close()

    def _join(self, unit: int, side: Side, given: Given) -> Iterator[Message]:
        step = self._query.steps[self._number]
        held = self._held.get((self._number, unit), ())
        if not held and "store" not in given:
            return  # probes of an empty unit
        widths = {"left": 1, "right": len(step.right)}
        stores, probes = (
            _tuples(given.get(role, []), widths[one]) for role, one in (("store", side), ("probe", opposite(side)))
        )
        config = ChainConfig(side, step.condition.window, step.condition.layout, self._correlation.period_us)
        chain, before = self._opened(config, held)
        done = unit_kernel.step(chain, stores, probes, self._residual(step))
        yield self._changed(unit, side, chain, before, done)
        yield from self._forward(step, done.pairs)

    def _opened(self, config: ChainConfig, held: tuple[StateRun, ...]) -> tuple[ChainedIndex, Opened]:
        """The unit's chain, and the file of each of its runs."""
        periods: dict[int, list[Run]] = {}
        files: Opened = {}
        for one in held:
            run = open_run(self._plan.places.store, one)
            periods.setdefault(one.period, []).append(run)
            files[id(run)] = run, one
        return ChainedIndex.restore(config, {period: tuple(runs) for period, runs in periods.items()}), files

    def _changed(self, unit: int, side: Side, chain: ChainedIndex, before: Opened, done: UnitStep | None) -> Message:
        """Adds new runs to the task's file; reports the unit's state changes and work to the driver."""
        kept, added = set[int](), list[dict[str, object]]()
        for period, runs in chain.snapshot().items():
            for run in runs:
                if id(run) in before:
                    kept.add(id(run))
                else:
                    added.append(asdict(self._runs.add(self._number, unit, side, period, run)))
        gone = [one.name for key, (_, one) in before.items() if key not in kept]
        figures = {"correlation": self._index, "step": self._number, "unit": unit, "added": added, "removed": gone}
        if done is not None:
            effort = asdict(done.effort)
            work = effort["probes"] + effort["candidates"] + done.stored
            figures |= {"stored": done.stored, "pairs": len(done.pairs), "work": work, **effort}
        return wire.result("unit", figures)

    def _residual(self, step: JoinStep) -> RowResidual | None:
        expression = step.condition.residual
        if expression is None:
            return None
        return RowResidual(expression, JoinedRows((step.left,), self._rows), JoinedRows(step.right, self._rows))

    def _forward(self, step: JoinStep, pairs: Pairs) -> Iterator[Message]:
        """Send pairs to the next step, or to the results."""
        if not len(pairs):
            return
        aliases = (step.left, *step.right)
        joined = JoinedRows(aliases, self._rows)
        following = self._number + 1
        if following == len(self._query.steps):
            yield from self._results.add(joined, pairs.refs)
            return
        following_step = self._query.steps[following]
        rows = joined.take(pairs.refs, right_columns(following_step))
        ready = prepared(following_step, "right", rows, Tuples(pairs.refs, pairs.times, pairs.places))
        routing = self._correlation.state.routers[following].route("right", ready.tuples)
        yield from wire.deliveries(self._plan, self._index, following, "right", ready.tuples, routing)
        figures = {"unmatchable": ready.unmatchable, "messages": routing.messages}
        yield wire.result("arrived", {"correlation": self._index, "alias": None, **figures})

    def _deduplicate(self, unit: int, messages: list[Message]) -> Iterator[Message]:
        """The stage of DISTINCT: rows that are new over all batches go to the results."""
        config = ChainConfig("left", Window.full_history(), "hash")
        chain, before = self._opened(config, self._held.get((self._number, unit), ()))
        seen = Deduplicator(chain)
        for message in messages:
            for rows in wire.batches_in(message):
                yield from self._results.keep(rows.take(pa.array(seen.first_seen(rows))))
        yield self._changed(unit, "left", chain, before, None)


def _tuples(messages: list[Message], width: int) -> Tuples:
    if not messages:
        nothing = np.zeros(0, np.int64)
        return Tuples(nothing.reshape(0, width), nothing, nothing)
    return Tuples.concat([wire.tuples_in(message) for message in messages])
