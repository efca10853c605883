"""Skew: tuples at the fullest unit over the mean, for hash, contrand and random routing, and what `auto` takes."""

from __future__ import annotations

import numpy as np

from bench.biclique.result import Figure, at_most
from etl.correlate.biclique.choose import choose
from etl.correlate.biclique.routing import BicliqueRouter
from etl.correlate.model import I64, Tuples, places, references

TUPLES, KEYS, UNITS = 200_000, 100_000, 8


def balance(_scale: float) -> Figure:
    series: dict[str, list[tuple[float, float]]] = {}
    worst = 0.0
    for exponent in (0.0, 0.5, 1.0):
        keys = zipf_keys(exponent)
        tuples = Tuples(
            references(0, np.arange(TUPLES)), np.zeros(TUPLES, np.int64), places(0, TUPLES), keys.astype(np.uint64)
        )
        lanes = tuples.lo[:20_000], tuples.hi
        chosen = choose(UNITS, UNITS, lanes, lanes)
        for name, groups in (("hash", 8), ("contrand 4", 4), ("contrand 2", 2), ("random", 1), ("auto", chosen.d)):
            routing = BicliqueRouter.of(UNITS, UNITS, groups, groups).route("left", tuples)
            loads = np.bincount(routing.store.expand()[1], minlength=UNITS)
            series.setdefault(name, []).append((exponent, float(loads.max() / loads.mean())))
            if name == "auto":
                worst = max(worst, series[name][-1][1])
    return Figure(
        "skew",
        "Hash routing suffers from frequent keys, subgroups spread them",
        "Zipf exponent",
        "fullest unit over mean",
        series,
        {name: points[-1][1] for name, points in series.items()},
        aims=(at_most("auto: fullest unit over mean at any skew", worst, 1.3),),
    )


def zipf_keys(exponent: float) -> I64:
    rng = np.random.default_rng(11)
    weights = 1.0 / np.arange(1, KEYS + 1) ** exponent
    return np.searchsorted(np.cumsum(weights) / weights.sum(), rng.random(TUPLES)).astype(np.int64)
