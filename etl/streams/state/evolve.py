"""The changes of a batch to a correlation's state, computed by the driver from the units' results.

    1 runs         new runs of units replace the runs they merged
    2 watermarks   every source's latest event time
    3 expiry       whole sub-indexes that no later tuple can join (theorem 1), by the watermarks after the batch
    4 scaling      2PS: routers for the next batch; without a window, whole runs move to other units

Pure: it handles descriptions of runs and never reads them. Expiring a run costs one list entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from etl.contract.correlations.correlation import Correlation
from etl.correlate.biclique import scaling
from etl.correlate.biclique.routing import BicliqueRouter
from etl.correlate.biclique.scaling import Change, ScalingConfig, ScalingState
from etl.correlate.model import FIRST, SIDES, Side, opposite
from etl.correlate.query.compile import Query
from etl.correlate.watermark import Watermark, joined_watermark
from etl.streams.decision import Evolved, GatheredCorrelation
from etl.streams.state.state_files import StateRun, moved
from etl.streams.storage.log import Segment
from etl.streams.tasks.plan import CorrelationPlan, CorrelationState


def evolve(
    plan: CorrelationPlan,
    declared: Mapping[str, Any],
    query: Query,
    gathered: GatheredCorrelation,
    segments: Iterable[Segment],
) -> Evolved:
    """The correlation after the batch."""
    removed = set(gathered.removed)
    runs = [run for run in plan.state.runs if run.name not in removed] + gathered.added
    largest = _largest(plan.state, query, segments)
    live = _live(runs, query, watermarks(query, plan.lateness_us, largest))
    expired = {run.name for run in runs} - {run.name for run in live}
    state = replace(plan.state, largest=largest, runs=tuple(live))
    state, changes = _scaled(plan.declared, state, query) if plan.declared.elastic else (state, [])
    before = {run.name: run.unit for run in live}
    other_units = [run for run in state.runs if before[run.name] != run.unit]
    fresh = {run.name for run in gathered.added} - expired
    return Evolved(
        declared=declared,
        state=state,
        added=tuple(run for run in state.runs if run.name in fresh),
        removed=tuple(sorted(removed | expired)),
        moved=tuple(run for run in other_units if run.name not in fresh),
        expired=sum(run.tuples for run in runs if run.name in expired),
        changes=tuple(changes),
    )


def _largest(state: CorrelationState, query: Query, segments: Iterable[Segment]) -> dict[str, int]:
    """The latest event time of each alias's stream."""
    largest = dict(state.largest)
    for segment in segments:
        for alias, source in query.sources.items():
            if source.stream == segment.stream:
                largest[alias] = max(largest.get(alias, int(FIRST)), segment.latest)
    return largest


def watermarks(query: Query, lateness_us: int, largest: Mapping[str, int]) -> list[dict[Side, np.int64]]:
    """The watermarks of both sides of every step."""
    value = {alias: Watermark(lateness_us, largest.get(alias, int(FIRST))).value for alias in query.sources}
    right, found = value[query.steps[0].right[0]], []
    for step in query.steps:
        marks: dict[Side, np.int64] = {"left": value[step.left], "right": right}
        found.append(marks)
        right = joined_watermark(step.condition.window, marks["left"], marks["right"])
    return found


def _live(runs: list[StateRun], query: Query, marks: list[dict[Side, np.int64]]) -> list[StateRun]:
    """Runs of sub-indexes that may still be joined. The state of DISTINCT never expires."""
    latest: dict[tuple[int, int, Side, int], int] = {}
    for run in runs:
        key = run.step, run.unit, run.side, run.period
        latest[key] = max(latest.get(key, run.latest), run.latest)
    live = []
    for run in runs:
        if run.step < len(query.steps):
            window = query.steps[run.step].condition.window
            before = window.expired_before(run.side, marks[run.step][opposite(run.side)])
            if latest[run.step, run.unit, run.side, run.period] < before:
                continue
        live.append(run)
    return live


def _scaled(
    declared: Correlation, state: CorrelationState, query: Query
) -> tuple[CorrelationState, list[tuple[int, Change]]]:
    """One round of both phases over the subgroups of every step."""
    config = ScalingConfig(declared.capacity_bytes)
    routers, states, changes = list(state.routers), dict(state.scaling), list[tuple[int, Change]]()
    runs = list(state.runs)
    for number, step in enumerate(query.steps):
        own = [run for run in runs if run.step == number]
        router = scaling.drained(routers[number], _summed(own, "tuples"))
        router, done = _observed(config, router, number, _summed(own, "bytes"), states)
        if not step.condition.window.bounded:
            for one in done:
                runs = _migrated(runs, number, router, one)
        routers[number] = router
        changes += [(number, one) for one in done]
    return replace(state, routers=tuple(routers), scaling=states, runs=tuple(runs)), changes


def _summed(runs: Iterable[StateRun], what: str) -> dict[int, int]:
    found: dict[int, int] = {}
    for run in runs:
        found[run.unit] = found.get(run.unit, 0) + int(getattr(run, what))
    return found


def _observed(
    config: ScalingConfig,
    router: BicliqueRouter,
    step: int,
    load: Mapping[int, int],
    states: dict[str, ScalingState],
) -> tuple[BicliqueRouter, list[Change]]:
    changes = []
    for side in SIDES:
        for number, group in enumerate(router.side(side).subgroups):
            mlv = {unit: load.get(unit, 0) for unit in group.probed}
            tau = scaling.load(config, list(mlv.values()), len(group.storing))
            key = f"{step} {side} {number}"
            states[key], delta = scaling.decide(config, states.get(key, ScalingState()), tau, len(group.storing))
            if delta:
                router, done = scaling.change(router, side, number, delta, mlv, tau)
                changes.append(done)
    return router, changes


def _migrated(runs: list[StateRun], step: int, router: BicliqueRouter, change: Change) -> list[StateRun]:
    """The same runs, distributed about equally over the units that currently store."""
    group = router.side(change.side).subgroups[change.subgroup]
    held = {unit: [run for run in runs if (run.step, run.unit) == (step, unit)] for unit in group.probed}
    sizes = {unit: [run.bytes for run in own] for unit, own in held.items()}
    targets = {held[move.source][move.run].name: move.target for move in scaling.migration(sizes, group.storing)}
    return [moved(run, targets[run.name]) if run.name in targets else run for run in runs]
