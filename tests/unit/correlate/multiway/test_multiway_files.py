"""How many files hold anything: reckoned by busy periods, held against what was drawn."""

from __future__ import annotations

import numpy as np
import pytest

from etl.correlate.multiway.files import filled
from etl.correlate.multiway.planning.partition import HashPartitioner
from etl.correlate.multiway.planning.tree import PMJoin, Shipment, Source, mjoin
from etl.correlate.multiway.rates import Histogram, HistogramSelectivity, RateModel, StreamRate

BATCH_S, BATCHES = 10.0, 4000


def model(rates: tuple[float, float], window_s: float, values: int) -> RateModel:
    streams = [StreamRate.over_time(name, name, rate, window_s) for name, rate in zip("ab", rates, strict=True)]
    share = np.full((2, values), 1 / values)
    return RateModel(streams, HistogramSelectivity(2, (Histogram.exact(share),)))


def drawn(rates: tuple[float, float], window_s: float, values: int) -> float:
    """The part of batches in which some tuple meets an earlier one of the other stream."""
    rng = np.random.default_rng(7)
    seconds = BATCH_S * BATCHES
    tuples = [
        (np.sort(rng.uniform(0, seconds, rng.poisson(rate * seconds))), rng.integers(0, values, 10**6))
        for rate in rates
    ]
    hit: set[int] = set()
    for value in range(values):
        mine = [times[drawn[: len(times)] == value] for times, drawn in tuples]
        for here, there in (mine, mine[::-1]):
            before = np.searchsorted(there, here) - 1
            met = (before >= 0) & (here - there[np.maximum(before, 0)] <= window_s) if len(there) else np.zeros(0, bool)
            hit |= set((here[met] // BATCH_S).astype(int).tolist() if len(there) else [])
    return len(hit) / BATCHES


@pytest.mark.parametrize(
    ("rates", "window_s", "values"), [((20.0, 0.02), 3.0, 4), ((0.3, 0.3), 2.0, 3), ((3.0, 0.05), 0.5, 1)]
)
def test_joined_tuples_fill_as_many_files_as_busy_periods_say(
    rates: tuple[float, float], window_s: float, values: int
) -> None:
    plan = mjoin("a", (Source(2, "b"), Source(1, "a")))
    (shipment,) = [one for one in filled(plan, model(rates, window_s, values), BATCH_S, "c") if one.streams == 3]
    expected = filled(plan, model(rates, window_s, values), BATCH_S, "c")[shipment]
    assert expected == pytest.approx(drawn(rates, window_s, values), rel=0.2)


def test_tuples_of_one_stream_come_one_by_one() -> None:
    plan = mjoin("a", (Source(2, "b"), Source(1, "a")))
    found = filled(plan, model((5.0, 0.05), 3.0, 2), BATCH_S)
    assert found == {Shipment(2, "b", "a"): pytest.approx(1 - np.exp(-0.5))}


def test_partitions_that_share_a_shipment_share_its_files() -> None:
    plan = mjoin("a", (Source(2, "b"), Source(1, "a")))
    whole = filled(plan, model((2.0, 0.05), 3.0, 8), BATCH_S, "c")
    parted = PMJoin(0, HashPartitioner(2), (Source(1, "a"), Source(2, "b")), (plan, plan))
    assert filled(parted, model((2.0, 0.05), 3.0, 8), BATCH_S, "c") == pytest.approx(whole)
