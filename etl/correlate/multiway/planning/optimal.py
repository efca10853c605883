"""The optimum over all tree plans, by dynamic programming over sets of streams.

    best[S, v]  least bytes per second to compute the join of S at site v
                = min over S = A ∪ B, both connected:  best[A, v] + best[B, v]
                  or over sites u:                      best[S, u] + bytes(S)

An operator with many inputs at one site costs what binary joins at that site cost, so binary joins suffice. Every set
is split in every way, 3ⁿ in all: up to `MOST_STREAMS` streams.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from etl.correlate.multiway.errors import TooManyStreams
from etl.correlate.multiway.planning.heuristic import Item, joinable, sources
from etl.correlate.multiway.planning.tree import MJoin, Node, mjoin
from etl.correlate.multiway.rates import F64, I64, Costs, RateModel

MOST_STREAMS = 16
Search = Callable[[F64, npt.NDArray[np.bool_], I64, int], tuple[F64, I64, I64]]


def optimal(model: Costs, inputs: Sequence[Item] | None = None, destination: str | None = None) -> Item:
    """The cheapest plan; with a destination, including shipping the result there."""
    items = list(inputs) if inputs is not None else sources(model)
    if len(items) > MOST_STREAMS:
        raise TooManyStreams(len(items), MOST_STREAMS)
    sites = list(dict.fromkeys([item.site for item in items] + ([destination] if destination else [])))
    emitted = _bytes(model, items)
    near = np.array([sum(1 << j for j, b in enumerate(items) if joinable(model, a.streams, b.streams)) for a in items])
    home = np.array([sites.index(item.site) for item in items])
    best, split, origin = _compiled()(emitted, _connected(near), home, len(sites))
    last = len(emitted) - 1
    at = sites.index(destination) if destination else int(best[last].argmin())
    at = int(origin[last, at]) if origin[last, at] >= 0 else at
    return _rebuild(items, sites, split, origin, last, at)


def _bytes(model: Costs, items: list[Item]) -> F64:
    whole = all(item.streams == 1 << i for i, item in enumerate(items))
    if isinstance(model, RateModel) and whole and len(items) == len(model.streams):
        return model.all_bytes_per_s()
    emitted = np.zeros(1 << len(items))
    joined = [0] * len(emitted)
    for chosen in range(1, len(emitted)):
        low = chosen & -chosen
        joined[chosen] = joined[chosen ^ low] | items[low.bit_length() - 1].streams
        emitted[chosen] = model.bytes_per_s(joined[chosen])
    return emitted


def _connected(near: I64) -> npt.NDArray[np.bool_]:
    """Which sets of inputs are connected: those that extend a connected one by a neighbour."""
    count = len(near)
    connected = np.zeros(1 << count, np.bool_)
    connected[1 << np.arange(count)] = True
    masks = np.arange(1 << count)
    reach = np.zeros(1 << count, np.int64)
    for bit in range(count):
        reach |= np.where(masks >> bit & 1, near[bit], 0)
    for _ in range(count - 1):
        for bit in range(count):
            having = masks[(masks >> bit & 1) == 1]
            smaller = having ^ (1 << bit)
            connected[having] |= connected[smaller] & ((reach[smaller] >> bit & 1) == 1)
    return connected


@functools.cache
def _compiled() -> Search:
    """The compiled search. Importing numba takes a second, so it is imported only when the optimum is computed."""
    from etl.columnar.jit import allocating_kernel

    return allocating_kernel(_search)


def _search(emitted: F64, connected: npt.NDArray[np.bool_], home: I64, sites: int) -> tuple[F64, I64, I64]:
    count = len(emitted)
    best = np.full((count, sites), np.inf)
    split = np.full((count, sites), -1, np.int64)
    origin = np.full((count, sites), -1, np.int64)
    for i in range(len(home)):
        best[1 << i, home[i]] = 0.0
    for chosen in range(1, count):
        if not connected[chosen]:
            continue
        low = chosen & -chosen
        part = (chosen - 1) & chosen
        while part:
            if part & low and connected[part] and connected[chosen ^ part]:
                for v in range(sites):
                    price = best[part, v] + best[chosen ^ part, v]
                    if price < best[chosen, v]:
                        best[chosen, v] = price
                        split[chosen, v] = part
            part = (part - 1) & chosen
        u = 0
        for v in range(1, sites):
            if best[chosen, v] < best[chosen, u]:
                u = v
        for v in range(sites):
            if best[chosen, u] + emitted[chosen] < best[chosen, v]:
                best[chosen, v] = best[chosen, u] + emitted[chosen]
                origin[chosen, v] = u
    return best, split, origin


def _rebuild(items: list[Item], sites: list[str], split: I64, origin: I64, chosen: int, at: int) -> Item:
    """Reconstruct the plan of `best[chosen, at]`; joins at one site become one operator."""
    if chosen & (chosen - 1) == 0:
        return items[chosen.bit_length() - 1]
    inputs: list[Node] = []
    stack = [chosen]
    while stack:
        here = stack.pop()
        came = int(origin[here, at])
        if here & (here - 1) and came < 0:
            part = int(split[here, at])
            stack += [here ^ part, part]
        else:
            inputs.append(_rebuild(items, sites, split, origin, here, came if came >= 0 else at))
    plan = mjoin(sites[at], tuple(inputs))
    assert isinstance(plan, MJoin), "a set of two or more is joined"
    return plan
