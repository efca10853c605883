"""Algorithm 1: the sites of joins, and the order of shipping streams together. O(n²) evaluations of the model.

    1  At every site, join two streams when their result is smaller than either.
    2  Take the slowest stream as Σp. Add to Σp the stream S with the least C(Σp + S), equation 4:
           case 1   ship Σp to the site of S, join there, plus the cost of shipping the result on
           case 2   ship all of them to some third site: S is pending with the others
       until case 1 is chosen; the result is a new stream. Repeat while there are two streams.

The last stream leaves no third site, so case 1 is taken (the paper's example 2 does so). Rates are bytes per second:
with tuples of one size these are the paper's rates.
"""

from __future__ import annotations

from collections.abc import Sequence

from etl.correlate.multiway.planning.tree import MJoin, Node, Source, mjoin, union
from etl.correlate.multiway.query import bits
from etl.correlate.multiway.rates import Costs

Item = Source | MJoin


def algorithm1(model: Costs, inputs: Sequence[Item] | None = None) -> Item:
    """A plan for joining `inputs` (all streams of the model, unless given)."""
    return _bring_together(model, _start(model, inputs))


def every_start(model: Costs, inputs: Sequence[Item] | None = None) -> list[Item]:
    """Algorithm 1 started with each of its streams instead of the slowest one."""
    items = _start(model, inputs)
    if len(items) < 3:
        return [_bring_together(model, items)]
    return [_bring_together(model, _settle(model, items, first)) for first in items]


def _start(model: Costs, inputs: Sequence[Item] | None) -> list[Item]:
    items = list(inputs) if inputs is not None else sources(model)
    return [item for site in dict.fromkeys(item.site for item in items) for item in local_joins(model, site, items)]


def _bring_together(model: Costs, items: list[Item]) -> Item:
    while len(items) > 1:
        items = _settle(model, items)
    return items[0]


def sources(model: Costs) -> list[Item]:
    return [Source(1 << i, stream.site) for i, stream in enumerate(model.streams)]


def joinable(model: Costs, left: int, right: int) -> bool:
    return any(model.neighbours[i] & right for i in bits(left))


def local_joins(model: Costs, site: str, items: Sequence[Item], *, all_of_them: bool = False) -> list[Item]:
    """Lines 2 to 9: the streams at a site after the joins that shrink (with `all_of_them`: after every join)."""
    local = sorted((item for item in items if item.site == site), key=lambda item: model.bytes_per_s(item.streams))
    j = 0
    while j < len(local):
        k = j + 1
        while k < len(local):
            joined = local[j].streams | local[k].streams
            shrinks = all_of_them or model.bytes_per_s(joined) < model.bytes_per_s(local[j].streams)
            if joinable(model, local[j].streams, local[k].streams) and shrinks:
                local[j] = mjoin(site, (local[j], local.pop(k)))
                k = j + 1 if all_of_them else k
            else:
                k += 1
        j += 1
    return local


def _settle(model: Costs, items: list[Item], first: Item | None = None) -> list[Item]:
    """Lines 12 to 28: one round of the outer loop, which places at least one join."""
    rest = sorted(items, key=lambda item: model.bytes_per_s(item.streams))
    pending: list[Item] = [first or rest[0]]
    rest.remove(pending[0])
    while True:
        chosen, here = _cheapest(model, pending, rest)
        rest.remove(chosen)
        if here or not rest:
            return [*rest, mjoin(chosen.site, (*pending, chosen))]
        pending.append(chosen)


def _cheapest(model: Costs, pending: list[Item], rest: list[Item]) -> tuple[Item, bool]:
    """The stream that minimises equation 4, and whether case 1 is the cheaper one for it."""
    held = union(tuple[Node, ...](pending))
    waiting = sum(model.bytes_per_s(item.streams) for item in pending)
    best: tuple[float, Item, bool] | None = None
    for item in rest:
        if not joinable(model, held, item.streams):
            continue
        shipped = sum(model.bytes_per_s(one.streams) for one in pending if one.site != item.site)
        case1 = shipped + model.bytes_per_s(held | item.streams)
        case2 = waiting + model.bytes_per_s(item.streams)
        price = min(case1, case2)
        if best is None or price < best[0]:
            best = (price, item, case1 <= case2)
    assert best is not None, "a connected join graph always has a neighbour"
    return best[1], best[2]
