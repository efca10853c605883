"""2PS: thresholds, confirmations, equation 7, and what becomes of units and runs."""

from __future__ import annotations

import numpy as np
import pytest

from etl.correlate.biclique.analysis import scaling_delta
from etl.correlate.biclique.elastic import ResourceManager
from etl.correlate.biclique.join import BicliqueJoin
from etl.correlate.biclique.routing import BicliqueRouter
from etl.correlate.biclique.scaling import ScalingConfig, ScalingState, change, decide, drained, migration
from etl.correlate.errors import ScalingRefused
from etl.correlate.model import Tuples, Window, places, references
from etl.correlate.query.condition import Condition

CONFIG = ScalingConfig(capacity_bytes=100)


def test_a_request_is_confirmed_when_it_comes_three_times_in_a_row() -> None:
    state, deltas = ScalingState(), []
    for tau in (0.9, 0.9, 0.5, 0.9, 0.9, 0.9, 0.9):
        state, delta = decide(CONFIG, state, tau, 4)
        deltas.append(delta)
    assert deltas == [0, 0, 0, 0, 0, 2, 0]


@pytest.mark.parametrize(
    ("tau", "units", "delta"), [(0.9, 4, 2), (1.2, 4, 4), (0.15, 8, -6), (0.0, 3, -2), (0.2, 1, 0)]
)
def test_the_number_of_units_follows_equation_7(tau: float, units: int, delta: int) -> None:
    confirmed = decide(CONFIG, ScalingState("out" if tau > 0.6 else "down", 2), tau, units)[1]
    assert confirmed == delta
    assert confirmed == max(1 - units, int(np.ceil(scaling_delta(tau, CONFIG.target, units) - 1e-9)))


def test_contradicting_thresholds_are_refused() -> None:
    for wrong in ({"low": 0.7}, {"target": 0.9}, {"confirmations": 0}, {"capacity_bytes": 0}):
        with pytest.raises(ScalingRefused, match="low < target < high"):
            ScalingConfig(**{"capacity_bytes": 100, **wrong})  # type: ignore[arg-type]


def test_released_units_are_probed_until_they_are_empty_and_come_back_first() -> None:
    router = BicliqueRouter.of(4, 2)
    router, done = change(router, "left", 0, -2, {0: 5, 1: 1, 2: 9, 3: 2}, 0.1)
    assert done.released == (1, 3)
    assert router.left.subgroups[0].storing == (0, 2)
    assert set(router.left.subgroups[0].probed) == {0, 1, 2, 3}
    again, back = change(router, "left", 0, 3, {}, 0.9)
    assert back.added == (1, 3, 6)
    assert again.left.subgroups[0].draining == ()
    assert drained(router, {1: 0, 3: 4}).left.subgroups[0].draining == (3,)


def test_migration_empties_released_units_and_balances_whole_runs() -> None:
    moves = migration({0: [50, 40, 30], 1: [10], 2: [20, 25]}, storing=(0, 1))
    loads = {0: 120, 1: 10, 2: 45}
    sizes = {0: [50, 40, 30], 1: [10], 2: [20, 25]}
    for move in moves:
        loads[move.source] -= sizes[move.source][move.run]
        loads[move.target] += sizes[move.source][move.run]
    assert loads[2] == 0
    assert abs(loads[0] - loads[1]) <= 50
    assert len({(move.source, move.run) for move in moves}) == len(moves)


def batch(number: int, count: int = 400) -> Tuples:
    times = np.full(count, number * 1_000, np.int64)
    return Tuples(references(number, np.arange(count)), times, places(0, count), np.arange(count).astype(np.uint64))


@pytest.mark.parametrize("window", [Window.within(5_000), Window.full_history()])
def test_a_subgroup_grows_under_load_and_every_tuple_is_stored_once(window: Window) -> None:
    join = BicliqueJoin(Condition((), None, window, None, "true"), BicliqueRouter.of(1, 1))
    manager = ResourceManager(ScalingConfig(capacity_bytes=8_000))
    nothing = batch(0, 0)
    for number in range(1, 16):
        before = {unit: join.stored(unit) for unit in join.router.units}
        join.process(batch(number), nothing, (np.int64(number * 1_000), np.int64(number * 1_000)))
        changes = manager.observe(join)
        moved = sum(join.stored(unit) for unit in join.router.units if unit not in before)
        assert not (window.bounded and moved), "a window migrates nothing"
        assert not changes or join.router.left.subgroups[0].storing  # type: ignore[attr-defined]
    held = sum(join.stored(unit) for unit in join.router.units)
    assert held == (400 * 15 if not window.bounded else 400 * 6)
    assert len(join.router.left.subgroups[0].storing) > 1  # type: ignore[attr-defined]
