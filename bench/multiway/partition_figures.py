"""Figures 8 to 11: what partitions bring, what routing costs, and several attributes."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from bench.multiway import distributions
from bench.multiway.result import Figure, Panel, Series
from bench.multiway.simulate import Arrivals, Setting, shipped_per_s
from etl.correlate.multiway.planning.pmjoin import best_unpartitioned, plan_pmjoin
from etl.correlate.multiway.planning.several import Marked, by_input_rate, partition_plan, take
from etl.correlate.multiway.planning.tree import Node, PMJoin, cost, shipments
from etl.correlate.multiway.rates import Histogram, HistogramSelectivity, RateModel, StreamRate

PARTITIONS = (1, 2, 10, 50, 100, 500, 1000)
METHODS = ("hash", "range", "rate")
SIMULATED_S = 2.0


def _setting(rng: np.random.Generator, count: int, scattered: bool, alike: bool) -> Setting:
    shares = (distributions.similar if alike else distributions.different)(rng, count, 1000)
    shares = distributions.spread(rng, shares) if scattered else shares
    sites = tuple(f"n{i}" for i in range(count))
    return Setting(sites, rng.uniform(10, 1000, count), rng.uniform(10, 100, count), shares)


def _plan(model: RateModel, by: str, partitions: int) -> Node:
    return best_unpartitioned(model) if partitions == 1 else plan_pmjoin(model, 0, by, partitions)  # type: ignore[arg-type]


def partitions(seeds: int) -> tuple[Figure, Figure]:
    """8 and 9: tuples shipped, and the time routing takes, against the number of partitions"""
    shipped, routed = [], []
    for scattered, alike in ((False, True), (False, False), (True, True), (True, False)):
        name = f"{'random' if scattered else 'contiguous'} hot spot, {'similar' if alike else 'different'}"
        costs: Series = {by: dict.fromkeys(PARTITIONS, 0.0) for by in METHODS}
        times: Series = {by: dict.fromkeys(PARTITIONS, 0.0) for by in METHODS}
        for seed in range(seeds):
            rng = np.random.default_rng((8, alike, seed))
            setting = _setting(rng, 10, scattered, alike)
            model, arrivals = setting.model(), Arrivals(setting, SIMULATED_S, rng)
            for by in METHODS:
                for number in PARTITIONS:
                    plan = _plan(model, by, number)
                    costs[by][number] += shipped_per_s(plan, arrivals) / seeds
                    times[by][number] += routing_s(plan, arrivals) * 1000 / seeds
        shipped.append(Panel(name, "partitions", "tuples/s", costs, log_x=True))
        routed.append(Panel(name, "partitions", "ms of routing per second", times, log_x=True))
    return _figure_8(shipped), _figure_9(routed)


def routing_s(plan: Node, arrivals: Arrivals) -> float:
    """CPU seconds to route a second's arrivals: find the partition of each, and pick what every shipment takes."""
    plans = plan.plans if isinstance(plan, PMJoin) else (plan,)
    count = len(plan.inputs) if isinstance(plan, PMJoin) else 0
    routes: dict[int, list[np.ndarray]] = {}
    for shipment in {one for each in set(plans) for one in shipments(each)}:
        if shipment.streams.bit_count() == 1:
            taken = np.array([shipment in set(shipments(each)) for each in plans])
            routes.setdefault(shipment.streams.bit_length() - 1, []).append(taken)
    began = time.process_time()
    for stream, wanted in routes.items():
        values = arrivals.values(stream)
        numbers = plan.partitioner.assign(values) if count and isinstance(plan, PMJoin) else np.zeros(len(values), int)
        for taken in wanted:
            np.take(values, np.flatnonzero(taken[numbers]))
    return (time.process_time() - began) / arrivals.seconds


def _figure_8(panels: list[Panel]) -> Figure:
    chs_sd, chs_dd, rhs_sd, rhs_dd = (panel.series for panel in panels)
    two = chs_dd["rate"][1] / chs_dd["rate"][2]
    fine = chs_dd["rate"][1] / chs_dd["rate"][1000]
    alike = chs_sd["rate"][1] / min(chs_sd[by][1000] for by in METHODS)
    best = sum(
        series["rate"][n] <= 1.02 * min(series["hash"][n], series["range"][n])
        for series in (chs_dd, rhs_sd, rhs_dd)
        for n in PARTITIONS[1:]
    )
    hashed = float(np.mean([rhs_dd["range"][n] / rhs_dd["hash"][n] for n in PARTITIONS[1:-1]]))
    first = float(np.mean([chs_sd["range"][n] / chs_sd["rate"][n] for n in PARTITIONS[1:-1]]))
    return Figure("8", f"Different distributions: two partitions save {1 - 1 / two:.0%}, a thousand {1 - 1 / fine:.0%}",
        tuple(panels), (
        ("similar distributions: a moderate gain", f"{alike:.2f}x, different: {fine:.2f}x", 1.0 <= alike < fine),
        ("different: much is saved with two partitions", f"{1 - 1 / two:.0%}", two > 1.05),
        ("by rate is the best but for similar contiguous hot spots", f"within 2 % in {best} of 18", best >= 16),
        ("hash is better than range when hot spots are spread", f"range ships {hashed:.3f}x", hashed > 1.0),
        ("similar and contiguous: range is the best", f"range ships {first:.3f}x what rate does", first < 1.0),
    ))  # fmt: skip


def _figure_9(panels: list[Panel]) -> Figure:
    lower = [
        panel.series[by][n] <= panel.series[by][1] for panel in panels for by in METHODS for n in PARTITIONS[1:]
    ]  # fmt: skip
    worst = max(max(panel.series[by].values()) for panel in panels for by in METHODS)
    return Figure("9", f"Routing takes at most {worst:.1f} ms of a second, however many partitions", tuple(panels), (
        ("PMJoin mostly routes at lower cost than one partition", f"in {sum(lower)} of {len(lower)} cases",
         sum(lower) > len(lower) / 2),
    ))  # fmt: skip


CURVES = {f"{by}, {n}": (by, n) for by, n in (("hash", 500), ("range", 500), ("rate", 500), ("rate", 1000))}


def streams(counts: Sequence[int], seeds: int) -> Figure:
    """10"""
    panels = []
    for scattered in (False, True):
        series: Series = {name: dict.fromkeys(counts, 0.0) for name in ("no partitions", *CURVES)}
        for count in counts:
            for seed in range(seeds):
                rng = np.random.default_rng((10, count, seed))
                setting = _setting(rng, count, scattered, False)
                model, arrivals = setting.model(), Arrivals(setting, SIMULATED_S, rng)
                series["no partitions"][count] += shipped_per_s(best_unpartitioned(model), arrivals) / seeds
                for name, (by, n) in CURVES.items():
                    series[name][count] += shipped_per_s(_plan(model, by, n), arrivals) / seeds
        panels.append(Panel(f"{'random' if scattered else 'contiguous'} hot spot", "streams", "tuples/s", series))
    low, high = counts[0], counts[-1]
    gains = [[p.series["no partitions"][n] / p.series["rate, 1000"][n] for n in (low, high)] for p in panels]
    hundreds = [name for name in CURVES if name.endswith("500")]
    over = max(p.series["rate, 500"][n] / min(p.series[name][n] for name in hundreds) for p in panels for n in counts)
    return Figure("10", f"{high} streams: a plan per value ships {min(g[1] for g in gains):.1f}x less", tuple(panels), (
        ("the gain grows with the streams", f"{gains[0][0]:.1f}x to {gains[0][1]:.1f}x, spread {gains[1][0]:.1f}x to "
         f"{gains[1][1]:.1f}x", all(g[1] > g[0] for g in gains)),
        ("by rate is the best for any number of streams", f"at most {over:.2f}x the best of the three", over <= 1.02),
    ))  # fmt: skip


def attributes(queries: int, ranges: Sequence[int] = (100, 1_000, 10_000)) -> Figure:
    """11: by the model, as the attributes of a tuple are independent"""
    series: Series = {
        name: dict.fromkeys(ranges, 0.0) for name in ("no partitions", "random", "alternative", "heuristic")
    }
    for values in ranges:
        for number in range(queries):
            rng = np.random.default_rng((11, values, number))
            model = _several(rng, values)

            def at_random(marks: Sequence[Marked], _: RateModel, rng: np.random.Generator = rng) -> list[Marked]:
                return take([marks[i] for i in rng.permutation(len(marks))])

            def others(marks: Sequence[Marked], model: RateModel) -> list[Marked]:
                chosen = {id(one) for one in by_input_rate(marks, model)}
                return take([one for one in marks if id(one) not in chosen])

            series["no partitions"][values] += cost(best_unpartitioned(model), model) / queries
            for name, select in (("random", at_random), ("alternative", others), ("heuristic", by_input_rate)):
                plan = partition_plan(model, "rate", 20, select=select)
                series[name][values] += cost(plan, model) / queries
    panel = Panel("20 streams at 10 nodes, 3 to 7 attributes", "data range", "tuples/s", series, log_x=True)
    worst = all(series["no partitions"][v] >= max(series[n][v] for n in series) * (1 - 1e-9) for v in ranges)
    best = all(series["heuristic"][v] <= min(series[n][v] for n in series) * (1 + 1e-9) for v in ranges)
    gains = [series["no partitions"][v] / series["heuristic"][v] for v in ranges]
    return Figure("11", f"Several attributes: PMJoins save up to {1 - 1 / max(gains):.1%} on average", (panel,), (
        ("no partitions is the worst", "so here" if worst else "not so here", worst),
        ("the heuristic is the best", "so here" if best else "not so here", best),
        ("larger ranges gain more", f"{gains[0]:.3f}x to {gains[-1]:.3f}x", gains[-1] >= gains[0]),
    ))  # fmt: skip


def _several(rng: np.random.Generator, values: int) -> RateModel:
    """A random query: a chain of attributes, each shared by two to four streams, over streams at ten nodes."""
    sizes = rng.integers(2, 5, rng.integers(3, 8))
    count = int(sizes.sum()) - len(sizes) + 1
    known = [
        StreamRate.over_time(f"S{i}", f"n{rng.integers(10)}", rng.uniform(100, 1000), rng.uniform(10, 100))
        for i in range(min(count, 20))
    ]
    histograms, first = [], 0
    for size in sizes:
        members = [i for i in range(first, first + int(size)) if i < len(known)]
        if len(members) < 2:
            break
        shares = distributions.different(rng, len(known), values)
        histograms.append(Histogram.exact(shares, members=sum(1 << i for i in members)))
        first += int(size) - 1
    selectivity = HistogramSelectivity(len(known), tuple(histograms))
    return RateModel(known, selectivity, size_of=lambda streams: 1.0)  # noqa: ARG005
