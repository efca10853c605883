"""A distributed plan as a tree, its shipments and its cost.

    Source    a stream (or the result of a subplan) at the site where it is
    MJoin     a join of two or more inputs at one site; the last input is at that site, the others are shipped to it
    PMJoin    one plan per partition of an attribute's values, over the same inputs

The cost of a plan is the sum of the bytes per second of everything that crosses sites. Joins themselves cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from etl.correlate.multiway.planning.partition import Partitioner
from etl.correlate.multiway.rates import Costs, HistogramSelectivity, PartitionedRates, RateModel


@dataclass(frozen=True, slots=True)
class Source:
    """An input: the join of `streams`, available at `site`."""

    streams: int
    site: str


@dataclass(frozen=True, slots=True)
class MJoin:
    site: str
    children: tuple[Node, ...]

    @property
    def streams(self) -> int:
        return union(self.children)


@dataclass(frozen=True, slots=True)
class PMJoin:
    """`plans[p]` joins the inputs for the values of partition p; its sources refer to the inputs by their streams."""

    attribute: int
    partitioner: Partitioner
    inputs: tuple[Node, ...]
    plans: tuple[Node, ...]

    @property
    def streams(self) -> int:
        return union(self.inputs)


Node = Source | MJoin | PMJoin


def union(nodes: tuple[Node, ...]) -> int:
    streams = 0
    for node in nodes:
        streams |= node.streams
    return streams


@dataclass(frozen=True, slots=True, order=True)
class Shipment:
    """The result of joining `streams` (or one stream) crosses from a site to another."""

    streams: int
    origin: str
    destination: str


def mjoin(site: str, inputs: tuple[Node, ...]) -> MJoin:
    """An operator with its local input last, as the paper draws it."""
    local = [node for node in inputs if not isinstance(node, PMJoin) and node.site == site]
    return MJoin(site, (*(node for node in inputs if node not in local), *local))


def shipments(node: Node, destination: str | None = None) -> Iterator[Shipment]:
    """The shipments of an unpartitioned plan; with a destination, the result is shipped there as well."""
    assert not isinstance(node, PMJoin), "a PMJoin ships by partition"
    if isinstance(node, MJoin):
        for child in node.children:
            yield from shipments(child, node.site)
    if destination is not None and node.site != destination:
        yield Shipment(node.streams, node.site, destination)


def cost(node: Node, model: Costs, destination: str | None = None) -> float:
    """Bytes per second that cross sites."""
    if isinstance(node, PMJoin):
        assert isinstance(model, RateModel), "partitions of partitions are not planned"
        return partitioned_cost(node, model, destination) + sum(cost(one, model) for one in node.inputs)
    total = sum(cost(child, model, node.site) for child in node.children) if isinstance(node, MJoin) else 0.0
    moves = destination is not None and node.site != destination
    return total + (model.bytes_per_s(node.streams) if moves else 0.0)


def partitioned_cost(node: PMJoin, model: RateModel, destination: str | None = None) -> float:
    """The cost of the partitions' plans, without the cost of computing the inputs."""
    rates = partitioned_rates(node.partitioner, node.attribute, model)
    numbers: dict[Node, list[int]] = {}
    for number, plan in enumerate(node.plans):
        numbers.setdefault(plan, []).append(number)
    return float(
        sum(
            rates.bytes_per_s(shipment.streams)[chosen].sum()
            for plan, chosen in numbers.items()
            for shipment in shipments(plan, destination)
        )
    )


def partitioned_rates(partitioner: Partitioner, attribute: int, model: RateModel) -> PartitionedRates:
    assert isinstance(model.selectivity, HistogramSelectivity), "partitions need histograms"
    codes = model.selectivity.histograms[attribute].codes
    partition_of = np.append(partitioner.assign(codes), partitioner.rest())
    return PartitionedRates(model, attribute, partition_of, partitioner.partitions)
