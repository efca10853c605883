"""Figures of a correlation of documents, as plain values: part of the decision, shown in reports and by commands."""

from __future__ import annotations

from typing import Any

from etl.contract.correlations.documents import DocumentCorrelation
from etl.streams.documents.evolve import EvolvedDocuments, GatheredDocuments
from etl.streams.documents.state import DocumentPlan, DocumentState, WindowFigures, watermark
from etl.streams.inspection.moments import moment

_SHOWN = 100  # most windows shown per batch


def of_documents(plan: DocumentPlan, gathered: GatheredDocuments, evolved: EvolvedDocuments) -> dict[str, Any]:
    """Figures of one correlation in a batch, and its state after it; with the same keys as other correlations."""
    source, state = plan.declared.stream, evolved.state
    loads = sum(sum(one.loads) for one in gathered.windows.values())
    windows = {**{slot: state.windows[slot] for slot in gathered.windows if slot in state.windows}, **evolved.closed}
    shown = sorted(windows)[-_SHOWN:]
    return {
        "tuples": {source: gathered.documents},
        "selected": {source: gathered.documents},
        "late": {source: gathered.late},
        "pairs": gathered.found,
        "pairs_of_steps": [gathered.found],
        "rows": gathered.kept,
        "messages": loads,
        "stored": sum(run.tuples for run in gathered.added),
        **dict.fromkeys(("unmatchable", "probes", "unchecked", "skipped", "candidates", "groups"), 0),
        "expired": evolved.expired,
        "state": state_sums(state),
        "units": [_joiner(number, gathered) for number in range(plan.joiners)],
        "watermarks": watermarks(plan.declared, state),
        "routing": [{"step": 0, "name": routing_name(state), "reason": "chosen by a sample of the documents"}],
        "scaling": [],
        "documents": {
            "cut": gathered.found - gathered.kept,
            "updates": evolved.updates,
            "repartitioned": evolved.repartitioned,
            "repartitions": state.repartitions,
            "partitions": state.joiners,
            "constants": list(state.constants),
            "left_out": list(state.left_out),
            "left_out_undecided": left_out_undecided(plan.declared, state),
            "windows": [
                window_json(plan.declared, slot, windows[slot], closed=slot in evolved.closed) for slot in shown
            ],
        },
    }


def _joiner(number: int, gathered: GatheredDocuments) -> dict[str, Any]:
    """A joiner in the form of a unit: its documents in this batch, and the memory of its trees."""
    held = {
        "tuples": gathered.joined[number],
        "bytes": gathered.bytes_of[number],
        "runs": 0,
        "work": gathered.joined[number],
    }
    return {"step": 0, "unit": number, "side": "left", "subgroup": 0, "draining": False, **held}


def window_json(declared: DocumentCorrelation, slot: int, one: WindowFigures, *, closed: bool) -> dict[str, Any]:
    """One window as JSON."""
    quality, start = one.quality, slot * declared.window.slide
    return {
        "start": moment(start) if declared.window.by == "time" else str(start),
        "closed": closed,
        "documents": one.documents,
        "broadcast": one.broadcast,
        "found": one.found,
        "cut": one.found - one.kept,
        "replication": round(quality.replication, 4),
        "maximal_load": round(quality.maximal_load, 4),
        "gini": round(quality.gini, 4),
        "loads": list(one.loads),
        "versions": list(one.versions),
        "repartitions": max(0, len(one.versions) - 1),
    }


def left_out_undecided(declared: DocumentCorrelation, state: DocumentState) -> bool:
    """Whether constants are to be left out, and too few documents were seen to say which."""
    return declared.constants == "leave_out" and not state.left_out_decided


def state_sums(state: DocumentState) -> dict[str, int]:
    return {
        "tuples": sum(run.tuples for run in state.stored),
        "bytes": sum(run.bytes for run in state.runs),
        "runs": len(state.runs),
    }


def watermarks(declared: DocumentCorrelation, state: DocumentState) -> dict[str, str | None]:
    reached = watermark(declared, state)
    return {declared.stream: None if reached is None else moment(reached)}


def routing_name(state: DocumentState) -> str:
    """The name of the current routing."""
    routing = state.routing
    without = f"; documents without it by {' + '.join(routing.meeting)}" if routing.meeting else ""
    return " + ".join(routing.key) + without if routing.key else "all values"
