"""The value distributions of the paper's section 4, as probabilities of the integers 1 to N."""

from __future__ import annotations

import numpy as np

from etl.correlate.multiway.rates import F64

KINDS = ("uniform", "normal", "zipf", "self-similar")


def uniform(values: int) -> F64:
    return np.full(values, 1.0 / values)


def normal(values: int, deviation: float) -> F64:
    """The mean in the middle; `deviation` as a share of the range."""
    x = (np.arange(values) - values / 2) / (deviation * values)
    weights = np.exp(-0.5 * x * x)
    return np.asarray(weights / weights.sum())


def zipf(values: int, skew: float) -> F64:
    weights = np.arange(1, values + 1, dtype=np.float64) ** -skew
    return np.asarray(weights / weights.sum())


def self_similar(values: int, h: float) -> F64:
    """The first h·N integers have 1 - h of the weight, and so on within them."""
    edges = (np.arange(values + 1) / values) ** (np.log(1 - h) / np.log(h))
    return np.asarray(np.diff(edges))


def similar(rng: np.random.Generator, streams: int, values: int) -> F64:
    """Zipf distributions with skews between 0.1 and 0.3."""
    return np.stack([zipf(values, rng.uniform(0.1, 0.3)) for _ in range(streams)])


def different(rng: np.random.Generator, streams: int, values: int) -> F64:
    return np.stack([any_of(rng, values) for _ in range(streams)])


def any_of(rng: np.random.Generator, values: int) -> F64:
    kind = rng.choice(KINDS)
    if kind == "uniform":
        return uniform(values)
    if kind == "normal":
        return normal(values, rng.uniform(0.05, 0.3))
    if kind == "zipf":
        return zipf(values, rng.uniform(0.1, 1.5))
    return self_similar(values, rng.uniform(0.1, 0.9))


def spread(rng: np.random.Generator, shares: F64) -> F64:
    """The hot spot of every stream spread at random over the range, the same way for all of them."""
    return np.asarray(shares[:, rng.permutation(shares.shape[1])])
