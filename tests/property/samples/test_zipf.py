"""The sampler against theory: what it draws is what the formula says, whatever the size and exponent."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from etl.samples import BoundedZipf, OptionRefused

sizes = st.integers(1, 3_000)
exponents = st.floats(0, 1.5)
uniforms = st.floats(0, 1, exclude_max=True)

LAST_BELOW_ONE = np.nextafter(1.0, 0.0)


def zipf_by_the_book(n: int, exponent: float) -> NDArray[np.float64]:
    weights = np.array([rank**-exponent for rank in range(1, n + 1)])
    return weights / weights.sum()


def surprise(observed: NDArray[np.int64], expected: NDArray[np.float64]) -> float:
    """How many standard deviations the chi-square statistic lies above its mean."""
    statistic = float(((observed - expected) ** 2 / expected).sum())
    freedom = len(expected) - 1
    return float((statistic - freedom) / np.sqrt(2 * freedom))


@given(sizes, exponents, st.lists(uniforms, max_size=50), st.none() | st.integers(0, 2**63 - 1))
@settings(max_examples=60, deadline=None)
def test_every_key_lies_within_bounds(n: int, exponent: float, drawn: list[float], seed: int | None) -> None:
    keys = BoundedZipf(n, exponent, shuffle_seed=seed).keys(np.array([0.0, LAST_BELOW_ONE, *drawn]))
    assert keys.min() >= 1
    assert keys.max() <= n


@given(sizes, exponents, uniforms)
@settings(max_examples=60, deadline=None)
def test_a_rank_is_where_the_uniform_falls_in_the_cumulative_sum(n: int, exponent: float, drawn: float) -> None:
    rank = int(BoundedZipf(n, exponent).ranks(np.array([drawn]))[0])
    cumulative = [0.0, *accumulate(zipf_by_the_book(n, exponent).tolist())]
    assert cumulative[rank] - 1e-9 <= drawn <= cumulative[rank + 1] + 1e-9


@given(sizes, exponents)
@settings(max_examples=60, deadline=None)
def test_probabilities_are_those_of_the_formula(n: int, exponent: float) -> None:
    np.testing.assert_allclose(
        BoundedZipf(n, exponent).probabilities(), zipf_by_the_book(n, exponent), rtol=1e-6, atol=1e-12
    )


@given(sizes, st.integers(0, 2**63 - 1))
@settings(max_examples=40, deadline=None)
def test_shuffling_gives_every_rank_a_key_of_its_own(n: int, seed: int) -> None:
    middles = (np.arange(n) + 0.5) / n  # exponent 0: the middle of every rank
    assert sorted(BoundedZipf(n, 0, shuffle_seed=seed).keys(middles)) == list(range(1, n + 1))


@pytest.mark.parametrize("exponent", [0.0, 0.3, 0.8, 1.0, 1.2, 1.5])
def test_frequencies_follow_the_law_and_not_its_neighbour(exponent: float) -> None:
    n, size = 300, 400_000
    keys = BoundedZipf(n, exponent).sample(np.random.default_rng(42), size)
    observed = np.bincount(keys, minlength=n + 1)[1:]
    assert surprise(observed, size * zipf_by_the_book(n, exponent)) < 5
    assert surprise(observed, size * zipf_by_the_book(n, exponent + 0.05)) > 20, "the test could not tell"


def test_exponent_zero_is_uniform() -> None:
    keys = BoundedZipf(1_000, 0).sample(np.random.default_rng(7), 500_000)
    observed = np.bincount(keys, minlength=1_001)[1:]
    assert surprise(observed, np.full(1_000, 500.0)) < 5


def test_shuffling_moves_the_hot_key_and_keeps_the_frequencies() -> None:
    n, size = 300, 200_000
    shuffled = BoundedZipf(n, 1.0, shuffle_seed=5)
    observed = np.bincount(shuffled.sample(np.random.default_rng(1), size), minlength=n + 1)[1:]
    assert int(observed.argmax()) + 1 == int(shuffled.keys(np.array([0.0]))[0])
    hottest = {int(BoundedZipf(n, 1.0, shuffle_seed=seed).keys(np.array([0.0]))[0]) for seed in range(20)}
    assert len(hottest) > 10, "another seed makes another key hot"
    top = size * zipf_by_the_book(n, 1.0)[0]
    assert abs(observed.max() - top) < 6 * np.sqrt(top)


def test_the_same_generator_seed_draws_the_same_keys() -> None:
    zipf = BoundedZipf(5_000, 1.1, shuffle_seed=3)
    first, second = (zipf.sample(np.random.default_rng(9), 1_000) for _ in range(2))
    assert first.tolist() == second.tolist()


@pytest.mark.parametrize(
    ("keys", "exponent"), [(0, 1.0), (-1, 1.0), (10**9, 1.0), (10, -0.1), (10, 1.6), (10, float("nan"))]
)
def test_what_cannot_be_sampled_is_refused_with_a_sentence(keys: int, exponent: float) -> None:
    with pytest.raises(OptionRefused, match=r"^(keys|exponent)=.* is not allowed; give .+"):
        BoundedZipf(keys, exponent)
