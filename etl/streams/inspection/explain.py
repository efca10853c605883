"""Status of correlations and the plan of one: plain values for commands, pages and DAG logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etl.contract.correlations.correlation import Correlation
from etl.correlate.model import Window
from etl.correlate.query.compile import JoinStep, Query
from etl.errors import TerminalError
from etl.streams.declared import Catalog, compiled
from etl.streams.documents.explain import document_standing, explain_documents
from etl.streams.inspection import figures
from etl.streams.inspection.moments import moment
from etl.streams.inspection.shut_input import shut_input
from etl.streams.ledger import KnownCorrelation, StreamLedger
from etl.streams.sites.explain import explain_sites, site_standing
from etl.streams.sites.ledger import SiteLedger
from etl.streams.tasks.plan import Places

_MEASURED_OVER = 20  # batches


class UnknownCorrelation(TerminalError):
    """A name that no file declares."""

    exit_code = 64

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(name, known)
        self.name, self.known = name, known

    def __str__(self) -> str:
        return f"{self.name!r} is not a correlation; declared are {', '.join(self.known) or 'none'}"


def status(catalog: Catalog, ledger: StreamLedger) -> dict[str, Any]:
    """The status of all declared correlations, whether or not they have run."""
    known, last = ledger.known(), ledger.last()
    segments = ledger.segments()
    streams = {}
    for one in catalog.streams:
        own = [segment for segment in segments if segment.stream == one.name]
        streams[one.name] = {
            "used": one.name in catalog.used,
            "segments": len(own),
            "rows": sum(segment.rows for segment in own),
            "bytes": sum(segment.bytes for segment in own),
            "latest": moment(max(segment.latest for segment in own)) if own else None,
        }
    correlations = {one.name: _current(one, known.get(one.name)) for one in catalog.correlations}
    documents = ledger.known_documents()
    correlations |= {one.name: document_standing(one, documents.get(one.name)) for one in catalog.documents}
    over_sites = SiteLedger(ledger.connection)
    correlations |= {one.name: site_standing(one, over_sites) for one in catalog.over_sites}
    return {
        "last_batch": None if last is None else {"batch": last.batch, "state": last.state},
        "streams": streams,
        "correlations": correlations,
        "shut": {one.stream: one.as_json() for one in shut_input(catalog.streams, ledger.book)},
        "errors": [str(error) for error in catalog.errors],
        "undeclared": sorted((known.keys() | documents.keys()) - catalog.names),
    }


def _current(declared: Correlation, known: KnownCorrelation | None) -> dict[str, Any]:
    if known is None:
        return {"since": None}
    state = known.state
    lateness = int(declared.lateness.total_seconds() * 1e6)
    return {
        "since": state.since,
        "state": figures.state_sums(state.runs),
        "units": len(figures.units(state, {})),
        "watermarks": {alias: moment(int(state.watermark(alias, lateness).value)) for alias in state.largest},
    }


def explain(catalog: Catalog, name: str, ledger: StreamLedger, places: Places) -> dict[str, Any]:
    """The plan of one correlation, with expected and measured cost."""
    over_sites = next((one for one in catalog.over_sites if one.name == name), None)
    if over_sites is not None:
        return explain_sites(over_sites, catalog, SiteLedger(ledger.connection), places)
    declared = next((one for one in catalog.correlations if one.name == name), None)
    over_documents = next((one for one in catalog.documents if one.name == name), None)
    if over_documents is not None:
        return explain_documents(over_documents, ledger.known_documents().get(name), _measured(name, ledger))
    if declared is None:
        broken = [error for error in catalog.errors if error.file == f"{name}.toml"]
        if broken:
            raise broken[0]
        raise UnknownCorrelation(name, tuple(sorted(catalog.names)))
    query, known = compiled(declared, catalog.streams), ledger.known().get(name)
    return {
        "name": name,
        "sql": declared.sql,
        "sources": {alias: _source(query, alias) for alias in query.sources},
        "steps": [_step(number, step, known) for number, step in enumerate(query.steps)],
        "output": "groups" if query.grouping is not None else "distinct rows" if query.distinct else "rows",
        "lateness_s": declared.lateness.total_seconds(),
        "since": None if known is None else known.state.since,
        "measured": _measured(name, ledger),
    }


def _source(query: Query, alias: str) -> dict[str, Any]:
    source = query.sources[alias]
    selection = None if source.selection is None else source.selection.sql
    return {"stream": source.stream, "event_time": source.event_time, "selection": selection}


def _step(number: int, step: JoinStep, known: KnownCorrelation | None) -> dict[str, Any]:
    plan: dict[str, Any] = {
        "step": number,
        "left": step.left,
        "right": list(step.right),
        "condition": step.condition.sql,
        "index": step.condition.layout,
        "window": window(step.condition.window),
        "residual": None if step.condition.residual is None else step.condition.residual.sql,
    }
    if known is not None:
        note, router = known.state.routing[number], known.state.routers[number]
        own = [unit for unit in figures.units(known.state, {}) if unit["step"] == number]
        left, right = (len(router.side(side).subgroups) for side in ("left", "right"))
        expected = {
            "messages_per_left_tuple": 1 + _fan_out(own, "right", right),
            "messages_per_right_tuple": 1 + _fan_out(own, "left", left),
        }
        plan |= {"routing": note.name, "why": note.reason, "subgroups": [left, right], "units": own}
        plan |= {"expected": expected}
    return plan


def _fan_out(units: list[dict[str, Any]], side: str, subgroups: int) -> float:
    """Units that a tuple probes on the other side: those of one subgroup (equations 5 and 6)."""
    return sum(1 for unit in units if unit["side"] == side) / subgroups


def window(one: Window) -> dict[str, float | None]:
    """Bounds on the right event time less the left one, in seconds."""
    return {
        "lower_s": None if one.lower_us is None else one.lower_us / 1e6,
        "upper_s": None if one.upper_us is None else one.upper_us / 1e6,
    }


def _measured(name: str, ledger: StreamLedger) -> dict[str, Any]:
    """Sums over the newest batches."""
    records = [one for one in ledger.history(_MEASURED_OVER) if one.decision and name in one.decision.correlations]
    if not records:
        return {"batches": 0}
    mine: list[Mapping[str, Any]] = [one.decided.correlations[name] for one in records]
    tuples = sum(sum(one["selected"].values()) for one in mine)
    sums = {what: sum(one[what] for one in mine) for what in ("messages", "probes", "candidates", "pairs", "expired")}
    seconds = sum(one.seconds.get("correlate", 0.0) for one in records)
    return {
        "batches": len(records),
        "tuples": tuples,
        **sums,
        "messages_per_tuple": round(sums["messages"] / tuples, 3) if tuples else None,
        "seconds": round(seconds, 3),
        "tuples_per_s": round(tuples / seconds) if seconds else None,
    }
