"""Figures of work at sites, as plain values: shipped bytes, waiting batches, and estimates for other plans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etl.correlate.multiway.execution.observe import heads_per_s
from etl.correlate.multiway.execution.report import RunReport, Shipped
from etl.correlate.multiway.explain import alternatives, expected_bytes
from etl.correlate.multiway.planning.tree import Node
from etl.correlate.multiway.rates import RateModel
from etl.streams.sites.running import Running


def of_work(at: str | None, reports: Mapping[str, RunReport]) -> dict[str, Any]:
    """Figures of one call of `work`."""
    sent = [one for report in reports.values() for one in report.sent]
    waiting = [one for report in reports.values() for one in report.waiting]
    return {
        "site": at,
        **_sums(sent),
        "edges": _edges(sent),
        "finished": {name: list(report.finished) for name, report in reports.items() if report.finished},
        "waiting": len([one for one in waiting if at in (None, one.at)]),
        "waits_for": sorted({one.site for one in waiting}),
    }


def added(before: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """The sum of two consecutive calls."""
    edges, finished = dict(before["edges"]), dict(before["finished"])
    for edge, amount in more["edges"].items():
        edges[edge] = edges.get(edge, 0) + amount
    for name, batches in more["finished"].items():
        finished[name] = [*finished.get(name, []), *batches]
    sums = {what: before[what] + more[what] for what in ("shipped_bytes", "shipped_tuples")}
    return {**more, **sums, "edges": edges, "finished": finished}


def _sums(sent: list[Shipped]) -> dict[str, int]:
    return {"shipped_bytes": sum(one.bytes for one in sent), "shipped_tuples": sum(one.tuples for one in sent)}


def _edges(sent: list[Shipped]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in sent:
        edge = f"{one.origin} → {one.destination}"
        found[edge] = found.get(edge, 0) + one.bytes
    return found


def costs(one: Running, number: int) -> dict[str, Any]:
    """Bytes that a batch's plan was expected to ship, and that others would have, by current rates."""
    model, seconds = one.model(), one.seconds(number)
    epoch = one.executor.epochs[one.executor.calendar.entry(number).epoch]
    plans = {"expected": epoch.plan, **alternatives(model, one.declared.target)}
    shipped = {name: round(forecast(one, plan, model) * seconds) for name, plan in plans.items()}
    return {"seconds": seconds, "plan": epoch.number, "bytes": shipped}


def forecast(one: Running, plan: Node, model: RateModel) -> float:
    """Bytes per second of a plan: tuples and file headers."""
    target = one.declared.target
    heads = heads_per_s(one.query.join, plan, model, one.batch_s(), target)
    return sum(expected_bytes(plan, model, target).values()) + sum(heads.values())
