"""PMJoin: a separate plan for every partition of an attribute's values.

    values ─ hash | range | rate ─► partitions ─ algorithm 1 each ─► plans ─ the cheapest for each partition

Every plan found for some partition is a candidate for all of them, as are the plans without partitioning. So by the
model a PMJoin never costs more than the best plan without it. A shipment also has a fixed cost (a file per batch): a
plan that saves less than the fixed cost of its extra shipments is dropped. If rates come from a sample, plans are
computed from one half of it and must also save by the other half (ADR 47).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from etl.correlate.multiway.planning.baselines import centralised, simple
from etl.correlate.multiway.planning.heuristic import Item, algorithm1, every_start, sources
from etl.correlate.multiway.planning.optimal import optimal
from etl.correlate.multiway.planning.partition import By, partitioner
from etl.correlate.multiway.planning.tree import PMJoin, Shipment, Source, cost, partitioned_rates, shipments
from etl.correlate.multiway.rates import F64, Costs, HistogramSelectivity, PartitionedRates, RateModel

Method = Literal["algorithm1", "optimal"]
_ROUNDING = 1e-9  # bytes per second


def best_unpartitioned(
    model: Costs, inputs: Sequence[Item] | None = None, destination: str | None = None, method: Method = "algorithm1"
) -> Item:
    """Algorithm 1's plan, or a baseline plan if that is cheaper; never worse than `simple`.

    A whole query is planned once, so algorithm 1 may begin with each of its streams; a partition, of which there are
    many, begins with the slowest one only.
    """
    if method == "optimal":
        return optimal(model, inputs, destination)
    begun = every_start(model, inputs) if isinstance(model, RateModel) else []
    plans = [algorithm1(model, inputs), *begun, simple(model, inputs), centralised(model, inputs, destination)]
    return min(plans, key=lambda plan: cost(plan, model, destination))


def plan_pmjoin(
    model: RateModel,
    attribute: int,
    by: By,
    partitions: int,
    inputs: Sequence[Item] | None = None,
    destination: str | None = None,
    *,
    method: Method = "algorithm1",
    candidates: Sequence[Item] = (),
    shipment_bytes_per_s: float = 0.0,
    seed: int = 0,
) -> PMJoin:
    """A PMJoin over `inputs`, each of which is at one site; `candidates` are further plans to consider."""
    items = list(inputs) if inputs is not None else sources(model)
    starts: list[Item] = [Source(item.streams, item.site) for item in items]
    sample = model if model.folds is None else model.folds[0]
    assert isinstance(sample.selectivity, HistogramSelectivity), "partitions need histograms"
    histogram = sample.selectivity.histograms[attribute]
    divided = partitioner(by, partitions, histogram, value_rates(sample, attribute, starts), seed)
    rates = partitioned_rates(divided, attribute, sample)
    plans = [best_unpartitioned(model, starts, destination, method), *candidates]
    plans += [best_unpartitioned(rates.of(g), starts, destination, method) for g in _inhabited(rates, starts)]
    plans = list(dict.fromkeys(plans))
    prices = np.stack([_prices(rates, plan, destination) for plan in plans])
    chosen = _choose(plans, prices, destination, shipment_bytes_per_s)
    if model.folds is not None:
        judge = partitioned_rates(divided, attribute, model.judge)
        prices = np.stack([_prices(judge, plan, destination) for plan in plans])
        chosen = _confirm(chosen, plans, prices, destination, shipment_bytes_per_s)
    return PMJoin(attribute, divided, tuple(items), tuple(plans[n] for n in chosen))


def value_rates(model: RateModel, attribute: int, items: Sequence[Item]) -> F64:
    """Bytes per second of every input with every value; the last column is the average value outside the histogram."""
    assert isinstance(model.selectivity, HistogramSelectivity), "partitions need histograms"
    histogram = model.selectivity.histograms[attribute]
    values = len(histogram.codes) + 1
    each = PartitionedRates(model, attribute, np.arange(values), values)
    rates = np.stack([each.bytes_per_s(item.streams) for item in items])
    rates[:, -1] /= histogram.rest_distinct.max()
    return rates


def _inhabited(rates: PartitionedRates, items: Sequence[Item]) -> list[int]:
    total = sum(rates.bytes_per_s(item.streams) for item in items)
    return [int(number) for number in np.flatnonzero(total)]


def _prices(rates: PartitionedRates, plan: Item, destination: str | None) -> F64:
    """The cost of a plan, by partition."""
    prices = np.zeros(rates.partitions)
    for shipment in shipments(plan, destination):
        prices += rates.bytes_per_s(shipment.streams)
    return prices


def _choose(plans: list[Item], prices: F64, destination: str | None, shipment_bytes_per_s: float) -> list[int]:
    """The cheapest plan for every partition, among plans that justify the fixed cost of their own shipments."""
    edges = [set(shipments(plan, destination)) for plan in plans]
    kept = list(range(len(plans)))
    while True:
        chosen = np.array(kept)[prices[kept].argmin(axis=0)]
        used = sorted(set(chosen.tolist()))
        if len(used) < 2 or shipment_bytes_per_s == 0.0:
            return [int(number) for number in chosen]
        kept = used
        losses = {n: _loss(n, kept, prices, edges, shipment_bytes_per_s) for n in kept}
        worst = min(losses, key=lambda n: losses[n])
        if losses[worst] >= 0.0:
            return [int(number) for number in chosen]
        kept.remove(worst)


def _confirm(
    chosen: list[int], plans: list[Item], prices: F64, destination: str | None, shipment_bytes_per_s: float
) -> list[int]:
    """Drop plans that do not save, over all their partitions, by independent prices.

    Their partitions get the plan that is the cheapest for them together; the first plan, the best one without
    partitions, is always a candidate.
    """
    edges = [set(shipments(plan, destination)) for plan in plans]
    kept = np.array(chosen)
    while True:
        used = sorted(set(kept.tolist()))
        moves = []
        for plan in used:
            mine, others = np.flatnonzero(kept == plan), [n for n in sorted({0, *used}) if n != plan]
            if not others:
                continue
            shared = set().union(*(edges[n] for n in used if n != plan))
            further = np.array([len(edges[n] - shared) - len(edges[plan] - shared) for n in others])
            instead = prices[np.ix_(others, mine)].sum(axis=1) + further * shipment_bytes_per_s
            best = int(instead.argmin())
            moves.append((float(prices[plan, mine].sum() - instead[best]), plan, others[best]))
        saved, plan, other = max(moves, default=(0.0, 0, 0))
        if saved <= _ROUNDING:
            return [int(number) for number in kept]
        kept[kept == plan] = other


def _loss(plan: int, kept: list[int], prices: F64, edges: list[set[Shipment]], shipment_bytes_per_s: float) -> float:
    """The cost of dropping a plan, less the fixed cost of its own shipments."""
    others = [n for n in kept if n != plan]
    dearer = np.maximum(prices[others].min(axis=0) - prices[plan], 0.0)
    mine = prices[plan] <= prices[kept].min(axis=0)
    own = edges[plan] - set().union(*(edges[n] for n in others))
    return float(dearer[mine].sum()) - len(own) * shipment_bytes_per_s
