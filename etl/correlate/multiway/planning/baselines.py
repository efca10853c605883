"""Baseline plans: everything at one site, everything to the fastest stream, all local joins first."""

from __future__ import annotations

from collections.abc import Sequence

from etl.correlate.multiway.planning.heuristic import Item, algorithm1, local_joins, sources
from etl.correlate.multiway.planning.tree import cost, mjoin
from etl.correlate.multiway.rates import Costs


def centralised(model: Costs, inputs: Sequence[Item] | None = None, destination: str | None = None) -> Item:
    """All streams to the cheapest site."""
    items = list(inputs) if inputs is not None else sources(model)
    plans = [mjoin(site, tuple(items)) for site in dict.fromkeys(item.site for item in items)]
    return min(plans, key=lambda plan: cost(plan, model, destination))


def simple(model: Costs, inputs: Sequence[Item] | None = None) -> Item:
    """All streams to the site of the fastest one."""
    items = list(inputs) if inputs is not None else sources(model)
    fastest = max(items, key=lambda item: model.bytes_per_s(item.streams))
    return mjoin(fastest.site, tuple(items))


def local_first(model: Costs) -> Item:
    """Figure 7's `Local`: the first step joins all that is at one site, shrinking or not."""
    items = sources(model)
    for site in dict.fromkeys(item.site for item in items):
        rest = [item for item in items if item.site != site]
        items = rest + local_joins(model, site, items, all_of_them=True)
    return algorithm1(model, items)
