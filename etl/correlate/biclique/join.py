"""All units of one join in one process: for tests, simulations, and batches too small for a cluster.

The same routing and the same unit step run on Spark, one unit per task; here a dictionary takes the place of the
shuffle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from etl.correlate.biclique.routing import Router, Routing
from etl.correlate.biclique.unit import UnitStep, step
from etl.correlate.index.chain import ChainConfig, ChainedIndex, Effort
from etl.correlate.model import I64, SIDES, Pairs, Side, Tuples, opposite
from etl.correlate.query.condition import Condition
from etl.correlate.rows import Residual


@dataclass(frozen=True, slots=True)
class BatchCost:
    """Counters of one batch."""

    messages: dict[Side, int]  # tuples sent to units
    stored: int
    expired: int
    effort: Effort
    work: dict[int, int]  # per unit: lookups and candidates, and tuples stored


@dataclass(frozen=True, slots=True)
class BatchResult:
    pairs: Pairs
    cost: BatchCost


@dataclass(slots=True)
class BicliqueJoin:
    """Joins two streams, batch after batch."""

    condition: Condition
    router: Router
    residual: Residual | None = None
    period_us: int | None = None
    chains: dict[tuple[int, Side], ChainedIndex] = field(default_factory=dict)

    def process(self, left: Tuples, right: Tuples, watermarks: tuple[np.int64, np.int64]) -> BatchResult:
        """Joins a batch; `watermarks` are those of both streams after it. The caller has split off late tuples."""
        tuples: dict[Side, Tuples] = {"left": left, "right": right}
        routings = {side: self.router.route(side, tuples[side]) for side in SIDES}
        steps: dict[int, list[UnitStep]] = {}
        for unit, side, stores, probes in self._deliveries(tuples, routings):
            steps.setdefault(unit, []).append(step(self.chain(unit, side), stores, probes, self.residual))
        expired = self._expire(dict(zip(SIDES, watermarks, strict=True)))
        return BatchResult(_pairs(steps, left, right), _cost(steps, routings, expired))

    def chain(self, unit: int, side: Side) -> ChainedIndex:
        config = ChainConfig(side, self.condition.window, self.condition.layout, self.period_us)
        return self.chains.setdefault((unit, side), ChainedIndex(config))

    def mlv(self, unit: int) -> int:
        """Memory load volume of a unit, in bytes."""
        return sum(chain.nbytes for (owner, _), chain in self.chains.items() if owner == unit)

    def stored(self, unit: int) -> int:
        return sum(len(chain) for (owner, _), chain in self.chains.items() if owner == unit)

    def _deliveries(
        self, tuples: dict[Side, Tuples], routings: dict[Side, Routing]
    ) -> Iterator[tuple[int, Side, Tuples, Tuples]]:
        """(unit, stored side, stores, probes) for units with work."""
        for side in SIDES:
            other = opposite(side)
            stores = by_unit(*routings[side].store.expand())
            probes = by_unit(*routings[other].probe.expand())
            for unit in sorted(stores.keys() | (probes.keys() & self._holding(side))):
                nobody = np.zeros(0, np.int64)
                yield (unit, side, tuples[side].take(stores.get(unit, nobody)),
                       tuples[other].take(probes.get(unit, nobody)))  # fmt: skip

    def _holding(self, side: Side) -> set[int]:
        return {unit for (unit, stored), chain in self.chains.items() if stored == side and chain.periods}

    def _expire(self, watermarks: dict[Side, np.int64]) -> int:
        return sum(chain.expire(watermarks[opposite(side)]) for (_, side), chain in self.chains.items())


def by_unit(rows: I64, units: I64) -> dict[int, I64]:
    """The rows of each unit."""
    short = units.astype(np.uint16) if len(units) and units.max() < 1 << 16 else units  # numpy sorts these by radix
    order = np.argsort(short, kind="stable")
    bounds = np.flatnonzero(np.diff(units[order])) + 1
    parts = np.split(order, bounds) if len(order) else []
    return {int(units[part[0]]): rows[part] for part in parts}


def _pairs(steps: dict[int, list[UnitStep]], left: Tuples, right: Tuples) -> Pairs:
    parts = [one.pairs for each in steps.values() for one in each if len(one.pairs)]
    return Pairs.concat(parts) if parts else Pairs.none(left.refs.shape[1], right.refs.shape[1])


def _cost(steps: dict[int, list[UnitStep]], routings: dict[Side, Routing], expired: int) -> BatchCost:
    effort, every = Effort(), [one for each in steps.values() for one in each]
    for one in every:
        effort.probes += one.effort.probes
        effort.unchecked += one.effort.unchecked
        effort.skipped += one.effort.skipped
        effort.candidates += one.effort.candidates
    work = {
        unit: sum(one.effort.probes + one.effort.candidates + one.stored for one in each)
        for unit, each in steps.items()
    }  # fmt: skip
    messages = {side: routing.messages for side, routing in routings.items()}
    return BatchCost(messages, sum(one.stored for one in every), expired, effort, work)
