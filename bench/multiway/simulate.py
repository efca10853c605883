"""A discrete-event simulation of what a plan ships: every arrival, and the joined tuples it causes.

When a tuple of stream i with value v arrives, the join of a set of streams emits as many tuples as there are
combinations of tuples with value v in the windows of the others: the product of their counts. These are looked up per
arrival (binary search in the sorted arrivals of the other stream), so nothing is assumed about rates, and
nothing has to be materialised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from etl.correlate.multiway.planning.tree import Node, PMJoin, shipments
from etl.correlate.multiway.query import bits
from etl.correlate.multiway.rates import F64, I64, Histogram, HistogramSelectivity, RateModel, StreamRate


@dataclass(frozen=True)
class Setting:
    """Streams on one attribute; tuples of one size, as in the paper, so that costs are tuples per second."""

    sites: tuple[str, ...]
    rates: F64
    windows_s: F64
    shares: F64

    def model(self) -> RateModel:
        known = [
            StreamRate.over_time(f"S{i}", site, float(self.rates[i]), float(self.windows_s[i]))
            for i, site in enumerate(self.sites)
        ]
        selectivity = HistogramSelectivity(len(known), (Histogram.exact(self.shares),))
        return RateModel(known, selectivity, size_of=lambda streams: 1.0)  # noqa: ARG005


class Arrivals:
    """Poisson arrivals of every stream, after all windows are full, for `seconds`."""

    def __init__(self, setting: Setting, seconds: float, rng: np.random.Generator) -> None:
        self.seconds = seconds
        full = float(setting.windows_s.max())
        self._stride = 4.0 * (full + seconds)  # no window reaches from one value into the next
        sorted_places, self._values, self._times = [], [], []
        for rate, shares in zip(setting.rates, setting.shares, strict=True):
            count = int(rng.poisson(rate * (full + seconds)))
            at = rng.uniform(0.0, full + seconds, count)
            values = np.searchsorted(np.cumsum(shares)[:-1], rng.random(count)).astype(np.int64)
            sorted_places.append(np.sort(values * self._stride + at))
            late = at >= full
            self._values.append(values[late])
            self._times.append(at[late])
        self._places, self._windows = sorted_places, setting.windows_s
        self._counts: dict[tuple[int, int], F64] = {}

    def values(self, stream: int) -> I64:
        return self._values[stream]

    def met(self, stream: int, other: int) -> F64:
        """For every arrival of a stream, the tuples of another in whose window it falls."""
        if (stream, other) not in self._counts:
            at = self._values[stream] * self._stride + self._times[stream]
            first = np.searchsorted(self._places[other], at - self._windows[other], side="left")
            self._counts[stream, other] = (np.searchsorted(self._places[other], at, side="right") - first).astype(float)
        return self._counts[stream, other]

    def emitted(self, streams: int, stream: int) -> F64:
        """What the join of `streams` emits at every arrival of one of them."""
        out = np.ones(len(self._values[stream]))
        for other in bits(streams & ~(1 << stream)):
            out *= self.met(stream, other)
        return out


def shipped_per_s(plan: Node, arrivals: Arrivals) -> float:
    """Tuples per second that cross sites."""
    groups: list[tuple[Node, Sequence[int] | None]] = [(plan, None)]
    if isinstance(plan, PMJoin):
        numbers: dict[Node, list[int]] = {}
        for number, one in enumerate(plan.plans):
            numbers.setdefault(one, []).append(number)
        groups = list(numbers.items())
    total = 0.0
    for one, chosen in groups:
        for shipment in shipments(one):
            for stream in bits(shipment.streams):
                emitted = arrivals.emitted(shipment.streams, stream)
                if chosen is not None and isinstance(plan, PMJoin):
                    wanted = np.zeros(plan.partitioner.partitions, np.bool_)
                    wanted[list(chosen)] = True
                    emitted = emitted[wanted[plan.partitioner.assign(arrivals.values(stream))]]
                total += float(emitted.sum())
    return total / arrivals.seconds
