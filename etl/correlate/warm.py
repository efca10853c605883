"""Compile the kernels of correlations ahead of time, or load them from the cache: `python -m etl.correlate.warm`.

Runs a tiny join with every kind of sub-index, on runs in memory and on memory-mapped runs.
"""

from __future__ import annotations

import numpy as np

from etl.correlate.biclique.routing import BicliqueRouter
from etl.correlate.biclique.unit import step
from etl.correlate.index.chain import ChainConfig, ChainedIndex
from etl.correlate.index.runs import Layout, Run
from etl.correlate.model import I64, Tuples, Window

_LAYOUTS: tuple[Layout, ...] = ("hash", "sorted", "block")


def warm() -> None:
    """Store, probe, merge and probe again, with one lane of keys and with two."""
    for layout in _LAYOUTS:
        for lanes in (1, 2):
            config = ChainConfig("left", Window.within(1_000), layout)
            chain = ChainedIndex(config)
            for start in (0, 8):
                step(chain, _tuples(start, lanes), _tuples(start + 4, lanes), None)
            mapped = {period: tuple(map(_mapped, runs)) for period, runs in chain.snapshot().items()}
            step(ChainedIndex.restore(config, mapped), _tuples(16, lanes), _tuples(20, lanes), None)
    BicliqueRouter.of(2, 2, 2, 2).route("left", _tuples(0, 2))


def _tuples(start: int, lanes: int) -> Tuples:
    numbers: I64 = np.arange(start, start + 8)
    keys = numbers.astype(np.uint64) % np.uint64(4)
    hi = keys if lanes == 2 else keys[:0]
    return Tuples(numbers, numbers, numbers, keys, hi, numbers, numbers - 1, numbers + 1)


def _mapped(run: Run) -> Run:
    """The run as mapped from a file: with read-only arrays."""
    return Run.from_batches("warm", *run.to_batches())


if __name__ == "__main__":
    warm()
