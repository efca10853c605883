"""How fast the state of one unit is: batches of 50,000 tuples of either stream, windows of 1 and 5 million tuples.

CPU time, not the clock: other work on the machine must not count. What is timed stores 50,000 tuples and probes with
50,000 of the other stream.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from bench.biclique.result import Figure, at_least, at_most
from etl.correlate.index.chain import ChainConfig, ChainedIndex, Effort
from etl.correlate.index.runs import Layout
from etl.correlate.model import Tuples, Window, places, references

BATCH, WINDOW_US, REPEATS = 50_000, 600_000_000, 12
SIZES = (1_000_000, 5_000_000)


def speed(_scale: float) -> Figure:
    """As many matches whatever the window: about one per probe."""
    series: dict[str, list[tuple[str, float]]] = {}
    rates: dict[tuple[str, int], float] = {}
    for name, layout in (("equality", "hash"), ("band", "sorted")):
        for size in SIZES:
            rates[name, size] = 2 * BATCH / _seconds(layout, size)  # type: ignore[arg-type]
            series.setdefault(name, []).append((f"{size / 1e6:g} M", rates[name, size] / 1e6))
    growth = {name: rates[name, SIZES[0]] / rates[name, SIZES[1]] for name in series}
    return Figure(
        "kernel",
        "State of one unit: a batch costs about the same whatever the window holds",
        "stored tuples",
        "million tuples per CPU second",
        series,
        growth,
        aims=(
            at_least(
                "equality kernel, million tuples per CPU second, 1 M stored", rates["equality", SIZES[0]] / 1e6, 1.0
            ),
            at_least(
                "equality kernel, million tuples per CPU second, 5 M stored", rates["equality", SIZES[1]] / 1e6, 1.0
            ),
            at_most(
                "kernel: a window five times as large costs (worst of equality and band)", max(growth.values()), 1.5
            ),
        ),
    )


def _seconds(layout: Layout, size: int) -> float:
    rng = np.random.default_rng(3)
    chain = ChainedIndex(ChainConfig("left", Window.within(WINDOW_US), layout))
    span, clock = WINDOW_US * BATCH // size, 0
    spent = []
    for number in range(size // BATCH + REPEATS):
        stores, probes = (_batch(rng, layout, size, clock, span, side) for side in (0, 1))
        began = time.process_time()
        prepared = chain.probes(probes)
        found = sum(len(one.probes) for one in chain.probe(prepared, Effort()))
        found += sum(len(one.probes) for one in chain.insert(stores, prepared, Effort()))
        chain.expire(np.int64(clock))
        clock += span
        if number >= size // BATCH:
            assert 0.5 * BATCH < found < 2 * BATCH, "about one match per probe"
            spent.append(time.process_time() - began)
    return statistics.mean(spent)


def _batch(rng: np.random.Generator, layout: Layout, size: int, clock: int, span: int, side: int) -> Tuples:
    times = np.sort(rng.integers(clock, clock + span, BATCH))
    refs, order = references(side, np.arange(BATCH)), places(0, BATCH) * 2 + side
    if layout == "hash":
        return Tuples(refs, times, order, rng.integers(0, size, BATCH).astype(np.uint64))
    value = rng.integers(0, 3 * size, BATCH)
    return Tuples(refs, times, order, value=value, low=value - 1, high=value + 1)
