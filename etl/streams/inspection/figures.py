"""Figures of a batch, as plain values: part of the decision, shown in reports and by `status`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from etl.correlate.biclique.routing import BicliqueRouter
from etl.correlate.model import FIRST, SIDES
from etl.correlate.query.compile import Query
from etl.streams.decision import Evolved, Gathered, GatheredCorrelation, change_json
from etl.streams.inspection.moments import moment
from etl.streams.state.state_files import StateRun
from etl.streams.tasks.plan import BatchPlan, CorrelationPlan, CorrelationState

_SUMS = ("unmatchable", "messages", "stored", "probes", "unchecked", "skipped", "candidates", "rows", "groups")


def of_streams(plan: BatchPlan, gathered: Gathered) -> dict[str, dict[str, Any]]:
    """Lines read, by stream."""
    found = {}
    for stream in plan.streams:
        counts = gathered.streams.get(stream.name, Counter())
        segments = [one for one in gathered.segments if one.stream == stream.name]
        found[stream.name] = {
            "lines": gathered.lines[stream.name],
            "accepted": counts["accepted"],
            "quarantined": counts["quarantined"],
            "reasons": dict(gathered.reasons.get(stream.name, {})),
            "files": len({one.file.name for one in stream.slices}),
            "bytes": sum(one.last - one.first for one in stream.slices),
            "segments": len(segments),
            "segment_bytes": sum(one.bytes for one in segments),
        }
    return found


def of_correlation(
    plan: CorrelationPlan, query: Query, gathered: GatheredCorrelation, evolved: Evolved
) -> dict[str, Any]:
    """Figures of one correlation in a batch, and its state after it."""
    arrived = {alias: gathered.arrived.get(alias, Counter()) for alias in query.sources}
    return {
        **{what: {alias: counts[what] for alias, counts in arrived.items()} for what in ("tuples", "selected", "late")},
        "pairs": gathered.pairs[len(query.steps) - 1],
        "pairs_of_steps": [gathered.pairs[number] for number in range(len(query.steps))],
        **{name: gathered.sums[name] for name in _SUMS},
        "expired": evolved.expired,
        "state": state_sums(evolved.state.runs),
        "units": units(evolved.state, gathered.work),
        "watermarks": watermarks(plan, evolved.state, query),
        "routing": [{"step": i, "name": one.name, "reason": one.reason} for i, one in enumerate(evolved.state.routing)],
        "scaling": [change_json(step, change) for step, change in evolved.changes],
    }


def state_sums(runs: Iterable[StateRun]) -> dict[str, int]:
    many = list(runs)
    return {
        "tuples": sum(run.tuples for run in many),
        "bytes": sum(run.bytes for run in many),
        "runs": len(many),
    }


def units(state: CorrelationState, work: Mapping[tuple[int, int], int]) -> list[dict[str, Any]]:
    """Every unit with its state and its work."""
    found, runs = [], state.by_unit()
    for step, router in enumerate(state.routers):
        for side, subgroup, unit, draining in _units(router):
            held = state_sums(runs.get((step, unit), ()))
            shown = {"step": step, "unit": unit, "side": side, "subgroup": subgroup, "draining": draining}
            found.append({**shown, **held, "work": work.get((step, unit), 0)})
    return found


def _units(router: BicliqueRouter) -> Iterable[tuple[str, int, int, bool]]:
    for side in SIDES:
        for number, group in enumerate(router.side(side).subgroups):
            yield from ((side, number, unit, False) for unit in group.storing)
            yield from ((side, number, unit, True) for unit in group.draining)


def watermarks(plan: CorrelationPlan, state: CorrelationState, query: Query) -> dict[str, str | None]:
    """The watermark of every source, as text; None before its stream's first tuple."""
    values = {alias: state.watermark(alias, plan.lateness_us).value for alias in query.sources}
    return {alias: None if value == FIRST else moment(int(value)) for alias, value in values.items()}
