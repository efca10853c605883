"""Status and plan of a correlation over sites: plain values for commands, pages and DAG logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from etl.contract.correlations.sites import SiteCorrelation
from etl.correlate.multiway.execution.calendar import BEGINNING
from etl.correlate.multiway.execution.folder import SiteFolder
from etl.correlate.multiway.execution.observe import heads_per_s
from etl.correlate.multiway.explain import alternatives, expected_bytes, explain
from etl.correlate.multiway.planning.tree import PMJoin, Shipment
from etl.correlate.multiway.query import Site, bits
from etl.streams.inspection.moments import moment
from etl.streams.sites import figures
from etl.streams.sites.ledger import KnownOverSites, SiteLedger
from etl.streams.sites.running import Running

if TYPE_CHECKING:
    from etl.streams.declared import Catalog
    from etl.streams.tasks.plan import Places

_MEASURED_OVER = 20  # batches


def site_standing(declared: SiteCorrelation, ledger: SiteLedger) -> dict[str, Any]:
    """Its first batch, its files at the sites, and event-time progress."""
    known = ledger.known().get(declared.name)
    if known is None:
        return {"since": None}
    entries = ledger.entries(declared.name)
    horizon = max((one["horizon"] for one in entries), default=BEGINNING)
    lateness = declared.lateness.total_seconds() * 1e6
    return {
        "since": known.since,
        "state": {"tuples": sum(sum(one["rows"]) for one in entries if one["number"] >= known.live), "bytes": 0},
        "units": 0,
        "published": known.since + known.published - 1,
        "watermarks": {} if horizon == BEGINNING else {"": moment(int(horizon - lateness))},
    }


def explain_sites(declared: SiteCorrelation, catalog: Catalog, ledger: SiteLedger, places: Places) -> dict[str, Any]:
    """The plan as a tree per group of partitions, with expected and measured bytes per edge, beside other plans."""
    summary: dict[str, Any] = {
        "name": declared.name,
        "kind": "sites",
        "sql": declared.sql,
        "strategy": declared.plan,
        "target": declared.target,
        "lateness_s": declared.lateness.total_seconds(),
        "since": None,
    }
    known = ledger.known().get(declared.name)
    if known is None:
        return summary
    folders = {one.name: SiteFolder(Site(one.name, one.root)) for one in catalog.sites.found}
    one = Running.of(declared, known, catalog, places, folders, ledger)
    away = [name for name in ledger.sites() if name in folders and not folders[name].is_there()]
    summary |= {"since": known.since, "published": known.since + known.published - 1, "away": away}
    return summary | (_planned(one, known) if one.executor.epochs else {})


def _planned(one: Running, known: KnownOverSites) -> dict[str, Any]:
    model, plan, target = one.model(), one.executor.latest.plan, one.declared.target
    tuples = expected_bytes(plan, model, target)
    heads = heads_per_s(one.query.join, plan, model, one.batch_s(), target)
    measured = _measured(one, known)
    others = {name: figures.forecast(one, other, model) for name, other in alternatives(model, target).items()}
    return {
        "plan": explain(plan, model, measured, one.attributes, heads, target),
        "plans": len(set(plan.plans)) if isinstance(plan, PMJoin) else 1,
        "number": one.executor.latest.number,
        "reason": one.executor.latest.reason,
        "edges": [_edge(one, each, tuples, heads, measured) for each in sorted({*tuples, *(measured or {})})],
        "expected_bytes_per_s": round(sum(tuples.values()) + sum(heads.values()), 2),
        "measured_bytes_per_s": None if measured is None else round(sum(measured.values()), 2),
        "other_plans_bytes_per_s": {name: round(amount, 2) for name, amount in others.items()},
    }


def _edge(
    one: Running,
    each: Shipment,
    tuples: dict[Shipment, float],
    heads: dict[Shipment, float],
    measured: dict[Shipment, float] | None,
) -> dict[str, Any]:
    return {
        "streams": [one.query.join.streams[i].name for i in bits(each.streams)],
        "from": each.origin,
        "to": each.destination,
        "expected_bytes_per_s": round(tuples.get(each, 0.0) + heads.get(each, 0.0), 2),
        "measured_bytes_per_s": None if measured is None else round(measured.get(each, 0.0), 2),
    }


def _measured(one: Running, known: KnownOverSites) -> dict[Shipment, float] | None:
    """Bytes per second of event time by shipment, over the newest batches of the current plan; None: none finished."""
    plan = one.executor.latest.number
    batches = one.ledger.batches(known.name, _MEASURED_OVER)
    mine = {row["number"]: row["figures"] for row in batches if row["figures"] and row["figures"]["plan"] == plan}
    seconds = sum(each["seconds"] for each in mine.values())
    if not seconds:
        return None
    found: dict[Shipment, float] = {}
    for row in one.ledger.shipments(known.name, min(mine)):
        if row["number"] in mine and not row["replayed"]:
            edge = Shipment(row["streams"], row["origin"], row["destination"])
            found[edge] = found.get(edge, 0.0) + row["bytes"] / seconds
    return found


def of_batch(ledger: SiteLedger, batch: int) -> dict[str, dict[str, Any]]:
    """Bytes that a finished batch shipped, and that other plans would have shipped, by correlation."""
    found, known = {}, ledger.known()
    for name, row in ledger.finished_of(batch).items():
        aliases = known[name].declared["aliases"]
        shipped = [one for one in ledger.shipments(name, row["number"]) if one["number"] == row["number"]]
        figured = row["figures"] or {}
        found[name] = {
            "rows": figured.get("rows", 0),
            "late": figured.get("late", 0),
            "plan": figured.get("plan", 0),
            "shipped_bytes": sum(one["bytes"] for one in shipped if not one["replayed"]),
            "shipped_tuples": sum(one["tuples"] for one in shipped if not one["replayed"]),
            "replayed_bytes": sum(one["bytes"] for one in shipped if one["replayed"]),
            "edges": [_shown(one, aliases) for one in shipped],
            "otherwise": figured.get("bytes", {}),
        }
    return found


def _shown(one: dict[str, Any], aliases: list[str]) -> dict[str, Any]:
    shown = {name: one[name] for name in ("kind", "origin", "destination", "tuples", "bytes", "replayed")}
    return {"streams": [aliases[i] for i in bits(one["streams"])], **shown}
