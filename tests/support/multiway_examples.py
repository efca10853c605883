"""Examples 1 and 2 of the paper as models.

Example 2's join graph is an image in the paper; its selectivities follow from the rates that the text and table 2 give:
0.01 between S0 and S1 (rate 70), 0.001 between S2 and S3 (15), 0.004 between S0 and S2,3 (9). The edge S0–S4 has no
figure; any selectivity over 1/120 leads to the choice the text describes, and 0.01 is taken.
"""

from __future__ import annotations

import numpy as np

from etl.correlate.multiway.rates import EdgeSelectivity, Histogram, HistogramSelectivity, RateModel, StreamRate

VALUES = ("a", "b", "c")
EXAMPLE_1 = np.array([[0.1, 0.1, 100.0], [0.03, 50.0, 0.04], [50.0, 0.01, 0.02]])


def example_1() -> RateModel:
    rates = EXAMPLE_1.sum(axis=1)
    streams = [StreamRate.over_time(f"S{i + 1}", f"n{i + 1}", float(rate), 0.5) for i, rate in enumerate(rates)]
    shares = EXAMPLE_1 / rates[:, None]
    return RateModel(streams, HistogramSelectivity(3, (Histogram.exact(shares),)))


def example_2() -> RateModel:
    sites, rates = ("n0", "n0", "n1", "n1", "n2"), (10.0, 35.0, 25.0, 30.0, 15.0)
    streams = [
        StreamRate(f"S{i}", site, rate, rate * 10, 0.1) for i, (site, rate) in enumerate(zip(sites, rates, strict=True))
    ]
    edges = {(0, 1): 0.01, (2, 3): 0.001, (0, 2): 0.004, (0, 4): 0.01}
    return RateModel(streams, EdgeSelectivity(5, edges), size_of=lambda streams: 1.0)
