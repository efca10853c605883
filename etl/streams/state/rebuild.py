"""Rebuild the state of a correlation whose files are damaged, from the stream log.

    segments, batch by batch ── the same joins, in this process ──▶ chains of every unit ──▶ new files of runs

A segment is kept as long as a stored tuple may refer to it (ADR 54), so the state can be rebuilt: the decisions'
watermarks tell which tuples were late, and pairs of earlier batches are joined again where a later step stores them.
The result must have exactly the ledger's number of tuples for every step, side and period; otherwise nothing is changed
and the original damage is raised (ADR 95).
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from etl.contract.correlations.correlation import Correlation
from etl.correlate.biclique.pipeline import Arrivals, Pipeline
from etl.correlate.model import FIRST, Side, places, references
from etl.correlate.query.compile import Query
from etl.correlate.watermark import Watermark
from etl.streams.decision import Evolved
from etl.streams.declared import compiled
from etl.streams.inspection.moments import microseconds_of
from etl.streams.ledger import KnownCorrelation
from etl.streams.state.state_files import RunWriter, StateRun, open_run
from etl.streams.storage.files import FileDamaged
from etl.streams.storage.log import Segment, SegmentRows
from etl.streams.tasks.plan import CorrelationPlan

if TYPE_CHECKING:
    from etl.streams.microbatch import MicroBatch

Counts = Counter[tuple[int, Side, int]]
"""Stored tuples by step, side and period."""


def rebuild_damaged(run: MicroBatch, known: Mapping[str, KnownCorrelation]) -> bool:
    """Verify all state files; rebuild damaged correlations. False when none was damaged: the cause is elsewhere."""
    rebuilt = False
    for declared in run.catalog.correlations:
        damage = None if declared.name not in known else _damage(run, known[declared.name].state.runs)
        if damage is not None:
            run.progress(f"{damage.name} {damage.reason}: the state of {declared.name} is rebuilt from the stream log")
            evolved = _rebuilt(run, declared, known[declared.name], damage)
            run.ledger.replace_state(declared.name, evolved, run.writer.epoch)
            rebuilt = True
    return rebuilt


def _damage(run: MicroBatch, runs: Iterable[StateRun]) -> FileDamaged | None:
    """The first damaged state file."""
    for one in runs:
        try:
            open_run(run.places.store, one)
        except FileDamaged as damage:
            return damage
    return None


def _rebuilt(run: MicroBatch, declared: Correlation, known: KnownCorrelation, damage: FileDamaged) -> Evolved:
    query, state = compiled(declared, run.catalog.streams), known.state
    if query.distinct:
        raise damage  # the state of DISTINCT goes back further than the log
    plan = CorrelationPlan(declared, state, len(query.steps))
    pipeline = _replayed(run, plan, query)
    name = f"state/{declared.name}/{secrets.token_hex(4)}-rebuilt.runs"
    writer, wanted = RunWriter(run.places.store, name), _counted(state.runs)
    runs = [
        writer.add(number, unit, side, period, one)
        for number, join in enumerate(pipeline.joins)
        for (unit, side), chain in sorted(join.chains.items())
        for period, many in chain.snapshot().items()
        if (number, side, period) in wanted
        for one in many
    ]
    if _counted(runs) != wanted:
        raise damage
    writer.close()
    removed = tuple(one.name for one in state.runs)
    return Evolved(known.declared, replace(state, runs=tuple(runs)), tuple(runs), removed)


def _counted(runs: Iterable[StateRun]) -> Counts:
    counts: Counts = Counter()
    for one in runs:
        counts[one.step, one.side, one.period] += one.tuples
    return counts


def _replayed(run: MicroBatch, plan: CorrelationPlan, query: Query) -> Pipeline:
    """Replay all batches of the correlation that are still in the log."""
    streams = {one.name: one.schema for one in run.catalog.streams}
    rows = {
        alias: SegmentRows(run.places.store, source.stream, streams[source.stream])
        for alias, source in query.sources.items()
    }
    pipeline = Pipeline.of(query, rows, list(plan.state.routers), plan.lateness_us, plan.period_us)
    for batch, segments in run.ledger.segments_by_batch(plan.state.since).items():
        pipeline.watermarks = _watermarks(run, plan, query, batch - 1)
        pipeline.process({alias: _arrivals(rows[alias], segments) for alias in query.sources})
    return pipeline


def _watermarks(run: MicroBatch, plan: CorrelationPlan, query: Query, batch: int) -> dict[str, Watermark]:
    """The watermarks after a batch."""
    record = run.ledger.find(batch)
    watermarks = {} if record is None else record.decided.correlations.get(plan.name, {}).get("watermarks", {})
    largest = {
        alias: microseconds_of(datetime.fromisoformat(moment)) + plan.lateness_us
        for alias, moment in watermarks.items()
        if moment is not None
    }
    return {alias: Watermark(plan.lateness_us, largest.get(alias, int(FIRST))) for alias in query.sources}


def _arrivals(rows: SegmentRows, segments: Iterable[Segment]) -> Arrivals:
    """A batch's tuples of one stream. Their order does not matter: all of them precede later batches."""
    own = [one for one in segments if one.stream == rows.stream]
    refs = np.concatenate([np.zeros(0, np.int64), *(references(one.number, np.arange(one.rows)) for one in own)])
    return Arrivals(rows.take(refs, rows.schema.names), refs, places(0, len(refs)))
