"""Waves of events whose customers are as popular as Zipf says; the popular ones lie anywhere in the master."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Customers:
    """Who orders how often."""

    count: int
    skew: float
    seed: int = 7

    def __post_init__(self) -> None:
        weights = 1.0 / np.arange(1, self.count + 1) ** self.skew
        object.__setattr__(self, "_up_to", np.cumsum(weights) / weights.sum())
        object.__setattr__(self, "_who", np.random.default_rng(self.seed).permutation(self.count) + 1)

    _up_to: npt.NDArray[np.float64] = None  # type: ignore[assignment]  # made of the others
    _who: I64 = None  # type: ignore[assignment]

    def draw(self, events: int, wave: int) -> I64:
        """The customers of a wave; equal numbers give equal waves."""
        uniform = np.random.default_rng((self.seed, wave)).random(events)
        return self._who[np.minimum(np.searchsorted(self._up_to, uniform), self.count - 1)]


def lines(customers: I64, first_id: int) -> bytes:
    """Events as they land, a line each."""
    if not len(customers):
        return b""
    ids = pa.array(np.arange(first_id, first_id + len(customers))).cast(pa.string())
    who = pa.array(customers).cast(pa.string())
    middle = pa.scalar(',"customer_id":')
    end = pa.scalar(',"quantity":2,"ordered_at":"2026-11-01T10:00:00.000Z"}\n')
    rows = pc.binary_join_element_wise(pa.scalar('{"order_id":'), ids, middle, who, end, "")
    return bytes(memoryview(rows.buffers()[2])[: pc.sum(pc.binary_length(rows)).as_py()])
