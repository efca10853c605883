"""A biclique whose subgroups grow and shrink: the resource manager beside the join."""

from __future__ import annotations

from dataclasses import dataclass, field

from etl.correlate.biclique.join import BicliqueJoin
from etl.correlate.biclique.routing import BicliqueRouter
from etl.correlate.biclique.scaling import (
    Change,
    ScalingConfig,
    ScalingState,
    change,
    decide,
    drained,
    load,
    migration,
)
from etl.correlate.model import SIDES, Side


@dataclass(slots=True)
class ResourceManager:
    """Reads the units' load after every period and changes the routing at the batch boundary."""

    config: ScalingConfig
    states: dict[tuple[Side, int], ScalingState] = field(default_factory=dict)

    def observe(self, join: BicliqueJoin) -> list[Change]:
        """One round of both phases over all subgroups."""
        router = join.router
        assert isinstance(router, BicliqueRouter), "only a biclique is elastic"
        join.router = router = drained(router, {unit: join.stored(unit) for unit in router.units})
        changes = []
        for side in SIDES:
            for number, group in enumerate(router.side(side).subgroups):
                mlv = {unit: join.mlv(unit) for unit in group.probed}
                tau = load(self.config, list(mlv.values()), len(group.storing))
                state = self.states.get((side, number), ScalingState())
                self.states[side, number], delta = decide(self.config, state, tau, len(group.storing))
                if delta:
                    router, done = change(router, side, number, delta, mlv, tau)
                    changes.append(done)
        join.router = router
        if not join.condition.window.bounded:
            for done in changes:
                migrate(join, done.side, done.subgroup)
        return changes


def migrate(join: BicliqueJoin, side: Side, subgroup: int) -> int:
    """Moves whole runs so that the storing units of a subgroup hold everything, about equally; returns their number."""
    router = join.router
    assert isinstance(router, BicliqueRouter), "only a biclique is elastic"
    group = router.side(side).subgroups[subgroup]
    held = {unit: [(period, run) for period, runs in join.chain(unit, side).snapshot().items() for run in runs]
            for unit in group.probed}  # fmt: skip
    moves = migration({unit: [run.nbytes for _, run in runs] for unit, runs in held.items()}, group.storing)
    for move in moves:
        period, run = held[move.source][move.run]
        join.chain(move.source, side).release(period, run)
        join.chain(move.target, side).adopt(period, run)
    return len(moves)
