"""Status and plan of a correlation of documents: plain values for commands, pages and DAG logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from etl.contract.correlations.documents import DocumentCorrelation
from etl.streams.documents import figures

if TYPE_CHECKING:
    from etl.streams.ledger import KnownDocuments


def document_standing(declared: DocumentCorrelation, known: KnownDocuments | None) -> dict[str, Any]:
    """Its stored state and event-time progress."""
    if known is None:
        return {"since": None}
    return {
        "since": known.state.since,
        "state": figures.state_sums(known.state),
        "units": known.state.joiners,
        "watermarks": figures.watermarks(declared, known.state),
    }


def explain_documents(
    declared: DocumentCorrelation, known: KnownDocuments | None, measured: dict[str, Any]
) -> dict[str, Any]:
    """The plan: window, partitions with their load, routing, the order of attributes."""
    window = declared.window
    plan: dict[str, Any] = {
        "name": declared.name,
        "kind": "documents",
        "stream": declared.stream,
        "window": {"by": window.by, "size": window.size, "slide": window.slide},
        "keep": list(declared.keep),
        "partitions": declared.partitions,
        "theta": declared.theta,
        "delta": declared.delta,
        "budget_bytes": declared.budget_bytes,
        "max_pairs": declared.max_pairs,
        "lateness_s": declared.lateness.total_seconds(),
        "since": None,
        "measured": measured,
    }
    if known is None:
        return plan
    state = known.state
    return plan | {
        "since": state.since,
        "joiners": state.joiners,
        "routing": figures.routing_name(state),
        "key": list(state.routing.key),
        "meeting": list(state.routing.meeting),
        "versions": [{"version": run.period, "values": run.tuples} for run in state.versions],
        "repartitions": state.repartitions,
        "repartition_wanted": state.wanted is not None,
        "attributes": [{"path": path, "presence": share, "values": n} for path, share, n in state.attributes],
        "constants": list(state.constants),
        "left_out": list(state.left_out),
        "left_out_undecided": figures.left_out_undecided(declared, state),
        "windows": [
            figures.window_json(declared, slot, one, closed=False) for slot, one in sorted(state.windows.items())
        ],
    }
