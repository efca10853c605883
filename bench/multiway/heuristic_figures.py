"""Figures 5, 6 and 7: the heuristic beside the optimum and the plain plans, without partitions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bench.multiway import distributions
from bench.multiway.result import Figure, Panel, Series
from bench.multiway.simulate import Arrivals, Setting, shipped_per_s
from etl.correlate.multiway.planning.baselines import local_first, simple
from etl.correlate.multiway.planning.optimal import optimal
from etl.correlate.multiway.planning.pmjoin import best_unpartitioned
from etl.correlate.multiway.planning.tree import Node, cost
from etl.correlate.multiway.rates import RateModel

RANGES = (10, 100, 1_000, 10_000, 100_000)
COUNTS = (2, 4, 6, 8, 10, 12, 14)
SIMULATED_S = 2.0
Planner = Callable[[RateModel], Node]
PLANNERS: dict[str, Planner] = {"simple": simple, "heuristic": best_unpartitioned, "optimal": optimal}


class Comparison:
    """Costs of planners over many settings, by the model and as simulated, and how far from the optimum they are."""

    def __init__(self) -> None:
        self.over_optimum: list[float] = []
        self.over_simple: list[float] = []
        self.simulated: list[tuple[float, float]] = []

    def costs(self, setting: Setting, planners: dict[str, Planner], rng: np.random.Generator) -> dict[str, float]:
        """Simulated tuples per second; what the planners are judged by is the model they planned with."""
        model, arrivals = setting.model(), Arrivals(setting, SIMULATED_S, rng)
        plans = {name: planner(model) for name, planner in planners.items()}
        priced = {name: cost(plan, model) for name, plan in plans.items()}
        shipped = {name: shipped_per_s(plan, arrivals) for name, plan in plans.items()}
        self.over_optimum.append(priced["heuristic"] / max(priced["optimal"], 1e-12))
        self.over_simple.append(priced["heuristic"] / cost(simple(model), model))
        self.simulated += [(priced[name], shipped[name]) for name in plans]
        return shipped


def data_range(comparison: Comparison, seeds: int) -> Figure:
    """5"""
    panels = []
    for spread_name, spread in (("SD", distributions.similar), ("DD", distributions.different)):
        for order in ("LASW", "HASW"):
            series: Series = {name: dict.fromkeys(RANGES, 0.0) for name in PLANNERS}
            for values in RANGES:
                for seed in range(seeds):
                    rng = np.random.default_rng((5, values, seed))
                    rates, windows = np.sort(rng.uniform(100, 1000, 10)), np.sort(rng.uniform(10, 100, 10))
                    windows = windows if order == "LASW" else windows[::-1]
                    setting = Setting(tuple(f"n{i}" for i in range(10)), rates, windows, spread(rng, 10, values))
                    for name, got in comparison.costs(setting, PLANNERS, rng).items():
                        series[name][values] += got / seeds
            panels.append(Panel(f"{order}, {spread_name}", "data range", "tuples/s", series, log_x=True))
    return Figure("5", "The heuristic ships what the optimum ships, and less the more selective the joins are",
                  tuple(panels), _claims_5(panels, comparison))  # fmt: skip


def _claims_5(panels: list[Panel], comparison: Comparison) -> tuple[tuple[str, str, bool], ...]:
    flat = max(max(p.series["simple"].values()) / min(p.series["simple"].values()) for p in panels)
    small = max(p.series["simple"][10] / p.series["optimal"][10] for p in panels)
    gain = min(p.series["heuristic"][10] / p.series["heuristic"][100_000] for p in panels)
    near = float(np.mean(comparison.over_optimum))
    return (
        ("simple costs the same at every range", f"at most {flat:.2f}x apart (other draws at each range)", flat < 1.35),
        ("at range 10 the best plan is simple", f"simple / optimum at most {small:.2f}", small < 1.1),
        ("cost falls as the range grows", f"from range 10 to 100,000 by at least {gain:.1f}x", gain > 1.5),
        ("the heuristic is very close to the optimum", f"{near:.3f}x on average", near < 1.05),
    )


def streams(comparison: Comparison, seeds: int) -> Figure:
    """6"""
    series: Series = {name: {} for name in PLANNERS}
    for count in COUNTS:
        for seed in range(seeds):
            rng = np.random.default_rng((6, count, seed))
            shares = distributions.different(rng, count, 1000)
            sites = tuple(f"n{i}" for i in range(count))
            setting = Setting(sites, np.full(count, 100.0), rng.uniform(10, 100, count), shares)
            for name, got in comparison.costs(setting, PLANNERS, rng).items():
                series[name][count] = series[name].get(count, 0.0) + got / seeds
    gain = {count: series["simple"][count] / max(series["heuristic"][count], 1e-9) for count in COUNTS}
    linear = series["simple"][14] / series["simple"][2]
    return Figure("6", "The more streams, the more there is to gain", (
        Panel("", "streams", "tuples/s", series),), (
        ("simple grows in proportion", f"13 streams shipped against 1: {linear:.1f}x", 11 < linear < 15),
        ("the gain grows with the streams", f"{gain[4]:.2f}x at 4, {gain[14]:.2f}x at 14", gain[14] > gain[4]),
    ))  # fmt: skip


def streams_per_node(comparison: Comparison, seeds: int) -> Figure:
    """7"""
    planners = PLANNERS | {"local": local_first}
    series: Series = {name: {} for name in ("local", "heuristic", "optimal")}
    for count in (5, 7, 9, 11, 13):
        for seed in range(seeds):
            rng = np.random.default_rng((7, count, seed))
            sites = tuple(f"n{rng.integers(5)}" for _ in range(count))
            shares = distributions.different(rng, count, 1000)
            setting = Setting(sites, rng.uniform(100, 500, count), rng.uniform(10, 100, count), shares)
            got = comparison.costs(setting, planners, rng)
            for name in series:
                series[name][count] = series[name].get(count, 0.0) + got[name] / seeds
    over = [series["local"][c] / max(series["heuristic"][c], 1e-9) for c in series["local"]]
    return Figure("7", "Joining locally only what shrinks ships less than joining all that is local", (
        Panel("five nodes", "streams", "tuples/s", series, log_y=True),), (
        ("the heuristic works better than Local", f"Local ships {min(over):.2f}x to {max(over):.2f}x as much",
         min(over) >= 0.999 and max(over) > 1.01),
    ))  # fmt: skip
