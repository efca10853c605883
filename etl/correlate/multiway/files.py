"""The probability that a shipment's files are not empty, for the overhead of their headers (ADR 91).

A shipment is a file per batch. Tuples of one stream arrive one by one: a batch of T seconds has none with probability
e^(−λT). Joined tuples arrive in clusters, as one rare tuple joins all tuples in the other windows. For one value the
windows of the streams are independent queues, which hold W_i tuples on average, and the join has results while none is
empty. With h_i = 1 − e^(−W_i) that is so

    p = Π h_i                                of the time, and such a period begins
    b = Σ λ_i e^(−W_i) Π_{j≠i} h_j           times per second

so a batch has no result with the value with probability (1 − p) e^(−b T / (1 − p)), and a file is empty if that holds
for all values of its shipment. With several join attributes, tuples are assumed to arrive one by one.
"""

from __future__ import annotations

import numpy as np

from etl.correlate.multiway.planning.tree import MJoin, Node, PMJoin, Shipment, partitioned_rates, shipments
from etl.correlate.multiway.query import bits
from etl.correlate.multiway.rates import F64, Histogram, HistogramSelectivity, RateModel

_MOST = 1 - 1e-12


def filled(plan: Node, model: RateModel, batch_s: float, destination: str | None = None) -> dict[Shipment, float]:
    """The probability that a batch's file is not empty, by shipment."""
    empty: dict[Shipment, float] = {}  # logarithms of probabilities

    def add(one: Shipment, chance: float) -> None:
        empty[one] = empty.get(one, 0.0) + chance

    def visit(node: Node, goal: str | None) -> None:
        if isinstance(node, PMJoin):
            for child in node.inputs:
                visit(child, None)
            rates = partitioned_rates(node.partitioner, node.attribute, model)
            for number, chosen in enumerate(node.plans):
                for one in shipments(chosen, goal):
                    tuples = float(rates.bytes_per_s(one.streams)[number]) / model.size_bytes(one.streams)
                    mine = rates.partition_of == number
                    add(one, _log_empty(model, one.streams, tuples, batch_s, node.attribute, mine))
            return
        if isinstance(node, MJoin):
            for child in node.children:
                visit(child, node.site)
        if goal is not None and goal != node.site:
            add(Shipment(node.streams, node.site, goal),
                _log_empty(model, node.streams, model.rate_per_s(node.streams), batch_s))  # fmt: skip

    visit(plan, destination)
    return {one: 1 - float(np.exp(chance)) for one, chance in empty.items()}


def _log_empty(
    model: RateModel,
    streams: int,
    tuples_per_s: float,
    batch_s: float,
    attribute: int | None = None,
    values: np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None,
) -> float:
    """The logarithm of the probability that a batch has no result, over `values` only (the last one is the rest)."""
    selectivity = model.selectivity
    single = streams & (streams - 1) == 0
    if single or not isinstance(selectivity, HistogramSelectivity) or len(selectivity.histograms) != 1:
        return -tuples_per_s * batch_s
    histogram = selectivity.histograms[attribute or 0]
    by_value = _log_empty_by_value(model, histogram, streams, batch_s)
    return float(by_value.sum() if values is None else by_value[values].sum())


def _log_empty_by_value(model: RateModel, histogram: Histogram, streams: int, batch_s: float) -> F64:
    """The same by value; the last entry is for all other values together."""
    members = list(bits(streams))
    distinct = histogram.rest_distinct[members].min()
    share = np.column_stack([histogram.share[members], histogram.rest[members] / histogram.rest_distinct[members]])
    window = share * np.array([[model.streams[i].window_tuples] for i in members])
    rate = share * np.array([[model.streams[i].rate_per_s] for i in members])
    held = -np.expm1(-window)
    busy = np.minimum(held.prod(axis=0), _MOST)
    others = np.stack([np.delete(held, row, axis=0).prod(axis=0) for row in range(len(members))])
    begins = (rate * np.exp(-window) * others).sum(axis=0)
    found = np.log1p(-busy) - begins * batch_s / (1 - busy)
    found[-1] *= distinct
    return np.asarray(found)
