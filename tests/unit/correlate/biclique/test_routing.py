"""Routing: who stores, who is probed, what it costs in messages (equations 5 and 6)."""

from __future__ import annotations

import numpy as np
import pytest

from etl.correlate.biclique.analysis import Stream, biclique_bandwidth, matrix_bandwidth
from etl.correlate.biclique.choose import choose, imbalance
from etl.correlate.biclique.routing import BicliqueRouter, MatrixRouter, Router, draw
from etl.correlate.errors import RoutingRefused
from etl.correlate.model import SIDES, Side, Tuples, opposite, places, references

NONE = np.zeros(0, np.uint64)


def tuples(count: int, keys: np.ndarray | None = None) -> Tuples:
    numbers = np.arange(count) if keys is None else keys
    return Tuples(
        references(1, np.arange(count)), np.zeros(count, np.int64), places(0, count), numbers.astype(np.uint64)
    )


def sent(router: Router, side: Side, count: int) -> int:
    return router.route(side, tuples(count)).messages


@pytest.mark.parametrize(("m", "n", "d", "e"), [(4, 4, 1, 1), (8, 8, 2, 4), (6, 3, 6, 3), (8, 8, 8, 8), (4, 6, 2, 3)])
def test_a_biclique_sends_what_equation_5_says(m: int, n: int, d: int, e: int) -> None:
    router = BicliqueRouter.of(m, n, d, e)
    left, right = Stream(20.0, rate=6_000), Stream(12.0, rate=3_000)
    measured = sum(
        chi * sent(router, side, int(rate)) for side, chi, rate in (("left", 20.0, 6e3), ("right", 12.0, 3e3))
    )
    assert measured == pytest.approx(biclique_bandwidth(left, right, m, n, d, e))


def test_a_matrix_sends_what_equation_6_says() -> None:
    left, right = Stream(20.0, rate=6_000), Stream(12.0, rate=3_000)
    router = MatrixRouter(4, 3)
    assert 20 * sent(router, "left", 6_000) + 12 * sent(router, "right", 3_000) == matrix_bandwidth(left, right, 4, 3)


@pytest.mark.parametrize("router", [BicliqueRouter.of(5, 3, 2, 3), BicliqueRouter.of(4, 4), MatrixRouter(3, 2)])
def test_two_tuples_with_one_key_meet_at_exactly_one_unit_in_either_order(router: Router) -> None:
    for key in range(40):
        one = {side: router.route(side, tuples(1, np.array([key]))) for side in SIDES}
        for side in SIDES:
            stored = set(one[side].store.expand()[1].tolist())
            probed = set(one[opposite(side)].probe.expand()[1].tolist())
            assert len(stored & probed) == 1, "a store is seen by every probe of the other side"


def test_storing_is_balanced_inside_a_subgroup_and_the_same_when_repeated() -> None:
    router = BicliqueRouter.of(8, 8, 2, 2, seed=3)
    routing = router.route("left", tuples(40_000))
    refs = references(1, np.arange(50))[:, None]
    loads = np.bincount(routing.store.expand()[1], minlength=8)
    assert loads.max() / loads.mean() < 1.1
    assert np.array_equal(loads, np.bincount(router.route("left", tuples(40_000)).store.expand()[1], minlength=8))
    assert not np.array_equal(draw(refs, 8, 1), draw(refs, 8, 2))


def test_contrand_needs_an_equality_and_as_many_units_as_subgroups() -> None:
    with pytest.raises(RoutingRefused, match=r"contrand\(2, 1\) without an equality"):
        BicliqueRouter.of(4, 4, 2, 1, equality=False)
    with pytest.raises(RoutingRefused, match="5 subgroups of 4 units"):
        BicliqueRouter.of(4, 4, 5, 1)


def test_auto_is_random_without_an_equality_hash_without_skew_and_contrand_with_it() -> None:
    rng = np.random.default_rng(5)
    even = rng.integers(0, 1_000_000, 50_000).astype(np.uint64), NONE
    skewed = np.where(rng.random(50_000) < 0.25, 7, even[0]).astype(np.uint64), NONE
    assert choose(8, 8, None, None).name == "random"
    assert choose(8, 8, even, even).name == "hash"
    mixed = choose(8, 8, skewed, even)
    assert (mixed.name, mixed.e) == ("contrand", 8)
    assert 1 <= mixed.d < 8
    assert imbalance(8, mixed.d, skewed) <= 1.25 < imbalance(8, 8, skewed)
