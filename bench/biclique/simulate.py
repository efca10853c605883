"""Settings of table 3, and batches through all their units in one process."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

from bench.biclique.workload import Workload
from etl.correlate.biclique.join import BicliqueJoin
from etl.correlate.biclique.routing import BicliqueRouter, MatrixRouter, Router
from etl.correlate.model import FIRST, Tuples, Window

SETTINGS = ("JM16", "JB8", "JB16", "JB16-CR2", "JB16-CR4", "JB16-CR8")


def units_of(name: str) -> int:
    return int(name.partition("-")[0][2:])


def router_of(name: str) -> Router:
    """JMx: a square matrix of x units; JBx: x/2 + x/2 units; JBx-CRy: y subgroups on either side."""
    units, _, groups = name[2:].partition("-CR")
    if name.startswith("JM"):
        side = math.isqrt(int(units))
        return MatrixRouter(side, side)
    half, y = int(units) // 2, int(groups or 1)
    return BicliqueRouter.of(half, half, y, y)


@dataclass(frozen=True, slots=True)
class Sample:
    """Counters after a batch."""

    volume: int  # tuples of both streams so far
    stored_bytes: tuple[int, ...]  # per unit
    messages: int  # tuples sent for this batch
    work: tuple[int, ...]  # per unit, for this batch: lookups, candidates, tuples stored
    pairs: int
    seconds: float  # CPU time that all units together took for this batch

    @property
    def mlv(self) -> float:
        return sum(self.stored_bytes) / len(self.stored_bytes)


def run(
    work: Workload, setting: str, tuples: int, batches: int, window: Window | None = None, spacing_us: int = 1
) -> Iterator[Sample]:
    """`tuples` of either stream in so many batches."""
    router = router_of(setting)
    if work.band and setting.partition("-CR")[2]:
        return  # no key, no subgroups
    join = BicliqueJoin(work.condition(window or Window.full_history()), router)
    step = max(1, tuples // batches)
    for begin in range(0, step * batches, step):
        left, right = work.batch(begin, begin + step, spacing_us)
        yield sample(join, left, right, 2 * (begin + step))


def joined(work: Workload, setting: str, tuples: int) -> BicliqueJoin:
    """A join that has seen the first `tuples` of either stream, in one batch, and keeps all of them."""
    join = BicliqueJoin(work.condition(Window.full_history()), router_of(setting))
    sample(join, *work.batch(0, tuples, 1), 2 * tuples)
    return join


def sample(join: BicliqueJoin, left: Tuples, right: Tuples, volume: int) -> Sample:
    latest = left.times[-1] if len(left) else FIRST
    began = time.process_time()
    result = join.process(left, right, (latest, latest))
    seconds = time.process_time() - began
    units = join.router.units
    sizes = tuple(join.mlv(unit) for unit in units)
    work = tuple(result.cost.work.get(unit, 0) for unit in units)
    return Sample(volume, sizes, sum(result.cost.messages.values()), work, len(result.pairs), seconds)
