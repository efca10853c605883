"""A plan as text: the tree of operators, with expected and measured bytes on every edge between sites.

PMJoin on offers.key, 100 partitions by rate
├─ 37 partitions
│  MJoin at eu: offers ⋈ bids ⋈ clicks
│  ├─ bids at us ──► eu   expected 12,000 B/s   measured 11,871 B/s
│  └─ offers at eu
…
expected 14,200 B/s; centralised 98,000, simple 98,000, unpartitioned 51,000, optimum 50,100
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from etl.correlate.multiway.planning.baselines import centralised, simple
from etl.correlate.multiway.planning.optimal import MOST_STREAMS, optimal
from etl.correlate.multiway.planning.pmjoin import best_unpartitioned
from etl.correlate.multiway.planning.tree import MJoin, Node, PMJoin, Shipment, cost, partitioned_rates, shipments
from etl.correlate.multiway.query import bits
from etl.correlate.multiway.rates import RateModel

Measured = Mapping[Shipment, float]


def explain(
    plan: Node,
    model: RateModel,
    measured: Measured | None = None,
    attributes: Iterable[str] = (),
    heads: Measured | None = None,
    destination: str | None = None,
) -> str:
    """The plan as a tree. `measured` are bytes per second by shipment, `attributes` the names of the attributes.

    `heads` is the files' overhead in bytes per second, by shipment; it counts as expected.
    `destination` is the site that results are gathered at.
    """
    lines = list(_tree(plan, model, list(attributes), destination))
    tuples = expected_bytes(plan, model, destination)
    expected = {one: amount + (heads or {}).get(one, 0.0) for one, amount in tuples.items()}
    lines += ["", *_edges(model, expected, measured or {})]
    total = sum(measured.values()) if measured is not None else None
    lines.append(_comparison(sum(expected.values()), model, total, destination))
    return "\n".join(lines)


def expected_bytes(plan: Node, model: RateModel, destination: str | None = None) -> dict[Shipment, float]:
    """The expected bytes per second of every shipment, over all partitions."""
    found: dict[Shipment, float] = {}

    def add(one: Shipment, amount: float) -> None:
        found[one] = found.get(one, 0.0) + amount

    def visit(node: Node, destination: str | None) -> None:
        if isinstance(node, PMJoin):
            for child in node.inputs:
                visit(child, None)
            rates = partitioned_rates(node.partitioner, node.attribute, model.judge)
            for number, chosen in enumerate(node.plans):
                for one in shipments(chosen, destination):
                    add(one, float(rates.bytes_per_s(one.streams)[number]))
            return
        if isinstance(node, MJoin):
            for child in node.children:
                visit(child, node.site)
        if destination is not None and destination != node.site:
            add(Shipment(node.streams, node.site, destination), model.bytes_per_s(node.streams))

    visit(plan, destination)
    return found


def _tree(node: Node, model: RateModel, attributes: list[str], destination: str | None) -> Iterator[str]:
    if isinstance(node, PMJoin):
        name = attributes[node.attribute] if node.attribute < len(attributes) else f"attribute {node.attribute}"
        groups: dict[Node, int] = {}
        for plan in node.plans:
            groups[plan] = groups.get(plan, 0) + 1
        yield f"PMJoin on {name}: {len(node.plans)} partitions, {len(groups)} plans"
        ordered = sorted(groups.items(), key=lambda one: -one[1])
        blocks = [[f"{n} partition{'s' * (n > 1)}", *_tree(p, model, attributes, destination)] for p, n in ordered]
        blocks += [list(_tree(one, model, attributes, None)) for one in node.inputs if isinstance(one, MJoin)]
        yield from _branches(blocks)
        return
    goes = f" ──► {destination}" if destination is not None and destination != node.site else ""
    if isinstance(node, MJoin):
        yield f"MJoin at {node.site}: {_names(node.streams, model)}{goes}"
        yield from _branches([list(_tree(child, model, attributes, node.site)) for child in node.children])
    else:
        yield f"{_names(node.streams, model)} at {node.site}{goes}"


def _branches(blocks: list[list[str]]) -> Iterator[str]:
    for number, block in enumerate(blocks):
        last = number == len(blocks) - 1
        for line, text in enumerate(block):
            mark = ("└─ " if last else "├─ ") if line == 0 else ("   " if last else "│  ")
            yield mark + text


def _names(streams: int, model: RateModel) -> str:
    return " ⋈ ".join(model.streams[i].name for i in bits(streams))


def _edges(model: RateModel, expected: dict[Shipment, float], measured: Measured) -> Iterator[str]:
    for one in sorted({*expected, *measured}):
        found = f"   measured {_amount(measured[one])}" if one in measured else ""
        name = f"{_names(one.streams, model)}: {one.origin} ──► {one.destination}"
        yield f"{name:50} expected {_amount(expected.get(one, 0.0))}{found}"


def alternatives(model: RateModel, destination: str | None = None) -> dict[str, Node]:
    """The unpartitioned plans that a plan is compared with."""
    found: dict[str, Node] = {
        "centralised": centralised(model, None, destination),
        "simple": simple(model),
        "unpartitioned": best_unpartitioned(model, None, destination),
    }
    if len(model.streams) <= MOST_STREAMS:
        found["optimum without partitions"] = optimal(model, None, destination)
    return found


def _comparison(expected: float, model: RateModel, measured: float | None, destination: str | None) -> str:
    others = alternatives(model, destination)
    listed = ", ".join(f"{name} {_amount(cost(one, model, destination))}" for name, one in others.items())
    found = f", measured {_amount(measured)}" if measured is not None else ""
    return f"expected {_amount(expected)}{found}; {listed}"


def _amount(bytes_per_s: float) -> str:
    digits = 0 if bytes_per_s >= 100 else int(np.clip(2 - np.floor(np.log10(max(bytes_per_s, 1e-4))), 0, 6))
    return f"{bytes_per_s:,.{digits}f} B/s"
