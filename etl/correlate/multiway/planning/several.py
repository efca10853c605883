"""Queries over several attributes: which operators of a plan become PMJoins (algorithm 2 and the rules after it).

    FINDPARTITION   from the root down: an operator that joins on one attribute only, and is not the right (local) child
                    of its parent, is marked; children that join on the same attribute are merged into it
    selection       of the marked, the one with the highest input rate is taken, then the next, and so on

Two constraints hold: the inputs of a PMJoin are at one site each, so no PMJoin is the child of another; and the right
child of an MJoin is no PMJoin. Taking an operator therefore rules out its marked parent and its marked children; the
paper names the parent only, but a child left over would break the first constraint (ADR 48).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from etl.correlate.multiway.planning.heuristic import Item
from etl.correlate.multiway.planning.partition import By
from etl.correlate.multiway.planning.pmjoin import Method, best_unpartitioned, plan_pmjoin
from etl.correlate.multiway.planning.tree import MJoin, Node, PMJoin, Source, cost, mjoin
from etl.correlate.multiway.rates import HistogramSelectivity, RateModel


@dataclass(frozen=True, slots=True)
class Marked:
    """An operator that can be a PMJoin: the operators merged into it, and their combined inputs."""

    operator: MJoin
    attribute: int
    merged: tuple[MJoin, ...]
    inputs: tuple[Item, ...]
    parent: MJoin | None


Select = Callable[[Sequence[Marked], RateModel], list[Marked]]


def partition_plan(
    model: RateModel,
    by: By,
    partitions: int,
    destination: str | None = None,
    *,
    method: Method = "algorithm1",
    select: Select | None = None,
    shipment_bytes_per_s: float = 0.0,
) -> Node:
    """The best plan without partitioning, with PMJoins where the rules allow and the model sees a gain."""
    plan = best_unpartitioned(model, None, destination, method)
    taken = {one.operator: one for one in (select or by_input_rate)(find_partition(plan, model), model)}

    def build(node: Item, goal: str | None) -> Node:
        if isinstance(node, Source):
            return node
        if (mark := taken.get(node)) is None:
            return mjoin(node.site, tuple(build(_item(child), node.site) for child in node.children))
        made = plan_pmjoin(
            model, mark.attribute, by, partitions, mark.inputs, goal, method=method,
            candidates=[_over_inputs(node, mark)], shipment_bytes_per_s=shipment_bytes_per_s,
        )  # fmt: skip
        built = tuple(_item(build(one, one.site)) for one in mark.inputs)
        return PMJoin(made.attribute, made.partitioner, built, made.plans)

    built = build(plan, destination)
    return built if cost(built, model.judge, destination) < cost(plan, model.judge, destination) else plan


def find_partition(plan: Item, model: RateModel) -> list[Marked]:
    """Algorithm 2: all operators that can be PMJoins, from the root down."""
    marks: list[Marked] = []

    def visit(node: Item, right: bool, parent: MJoin | None) -> None:
        if isinstance(node, Source):
            return
        attribute = None if right else partitionable(node, model)
        if attribute is None:
            for child in node.children:
                visit(_item(child), child is node.children[-1], None)
            return
        merged, inputs = _merge(node, attribute, model)
        marks.append(Marked(node, attribute, merged, inputs, parent))
        rights = {id(one.children[-1]) for one in (node, *merged)}
        for one in inputs:
            visit(one, id(one) in rights, node)

    visit(plan, False, None)
    return marks


def partitionable(node: MJoin, model: RateModel) -> int | None:
    """The one attribute an operator joins on; None if there are several."""
    assert isinstance(model.selectivity, HistogramSelectivity), "partitions need histograms"
    joined = [
        number
        for number, one in enumerate(model.selectivity.histograms)
        if sum(bool(one.members & child.streams) for child in node.children) > 1
    ]
    # A partition needs the attribute in every input: an input without it would have to be in all partitions.
    if len(joined) != 1:
        return None
    members = model.selectivity.histograms[joined[0]].members
    return joined[0] if all(members & child.streams for child in node.children) else None


def by_input_rate(marks: Sequence[Marked], model: RateModel) -> list[Marked]:
    """The highest input rate first; a mark that has been taken rules out its marked parent and children."""
    return take(sorted(marks, key=lambda mark: -_input_rate(mark, model)))


def take(ordered: Sequence[Marked]) -> list[Marked]:
    taken: list[Marked] = []
    for mark in ordered:
        near = [one for one in taken if one.operator is mark.parent or one.parent is mark.operator]
        if not near:
            taken.append(mark)
    return taken


def _input_rate(mark: Marked, model: RateModel) -> float:
    return sum(model.bytes_per_s(one.streams) for one in mark.inputs)


def _merge(node: MJoin, attribute: int, model: RateModel) -> tuple[tuple[MJoin, ...], tuple[Item, ...]]:
    """Merge children that join on the same attribute into the operator, recursively."""
    merged: list[MJoin] = []
    inputs: list[Item] = []
    stack = [_item(child) for child in reversed(node.children)]
    while stack:
        child = stack.pop()
        if isinstance(child, MJoin) and partitionable(child, model) == attribute:
            merged.append(child)
            stack += [_item(one) for one in reversed(child.children)]
        else:
            inputs.append(child)
    return tuple(merged), tuple(inputs)


def _over_inputs(node: MJoin, mark: Marked) -> MJoin:
    """The original operator with its inputs as sources: the default plan of a partition."""
    children: list[Node] = []
    for child in node.children:
        if isinstance(child, MJoin) and child in mark.merged:
            children.append(_over_inputs(child, mark))
        else:
            item = _item(child)
            children.append(Source(item.streams, item.site))
    return MJoin(node.site, tuple(children))


def _item(node: Node) -> Item:
    assert not isinstance(node, PMJoin), "the inputs of a PMJoin are at one site"
    return node
