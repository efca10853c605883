"""Keys as skewed as business is: a Zipf law over a bounded set of keys, sampled exactly.

    P(rank r) = r^-s / (1^-s + 2^-s + … + n^-s)     s = 0 uniform · s = 1 the classic · s = 1.5 very hot heads

The cumulative table has one float per key (160 MB at 20 million), and a uniform number is looked up in it: no
rejection, no approximation of the tail, and exponents at and below 1, which unbounded samplers cannot do.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from etl.samples import draws
from etl.samples.config import MOST_KEYS, require, require_exponent


class BoundedZipf:
    """Draws keys 1 … n. With `shuffle_seed` the hot keys lie anywhere; without, key 1 is the hottest."""

    def __init__(self, keys: int, exponent: float, *, shuffle_seed: int | None = None) -> None:
        require(1 <= keys <= MOST_KEYS, "keys", keys, f"1 to {MOST_KEYS:,}")
        require_exponent("exponent", exponent)
        self.n, self.exponent = keys, exponent
        self._cumulative = None if exponent == 0 else _cumulative(keys, exponent)
        self._key_of_rank = None if shuffle_seed is None else _key_of_rank(keys, shuffle_seed)

    def sample(self, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
        """`size` keys, by a generator the caller has seeded."""
        return self.keys(rng.random(size))

    def keys(self, uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
        """The key of each uniform number in [0, 1)."""
        ranks = self.ranks(uniforms)
        return ranks + 1 if self._key_of_rank is None else self._key_of_rank[ranks].astype(np.int64)

    def ranks(self, uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
        """The rank (0 is the hottest) of each uniform number in [0, 1)."""
        if self._cumulative is None:
            return np.minimum((uniforms * self.n).astype(np.int64), self.n - 1)
        return np.searchsorted(self._cumulative, uniforms, side="right").astype(np.int64)

    def probabilities(self) -> NDArray[np.float64]:
        """What theory says, by rank."""
        if self._cumulative is None:
            return np.full(self.n, 1.0 / self.n)
        return np.diff(self._cumulative, prepend=0.0)


def _cumulative(keys: int, exponent: float) -> NDArray[np.float64]:
    table = np.cumsum(np.arange(1, keys + 1, dtype=np.float64) ** -exponent)
    table /= table[-1]
    table[-1] = 1.0  # A uniform just below 1 must still find the last key.
    return table


def _key_of_rank(keys: int, seed: int) -> NDArray[np.int32]:
    # Half the memory of int64; MOST_KEYS fits.
    return (draws.shuffled(keys, seed, "which keys are hot") + 1).astype(np.int32)
