"""`python -m bench.multiway`: figures 5 to 11, real executions, planning times; results, plots and the page."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.measured import QUICK, RESULTS, exit_code, keep, machine, progress
from bench.multiway import distributions, executions, heuristic_figures, page, partition_figures, plots
from bench.multiway.executions import Execution, Workload
from bench.multiway.result import Figure, aim
from bench.multiway.simulate import Setting
from etl.correlate.multiway.execution.observe import head_bytes
from etl.correlate.multiway.planning.optimal import optimal
from etl.correlate.multiway.planning.pmjoin import best_unpartitioned, plan_pmjoin


def figures(quick: bool) -> Iterator[tuple[Figure, heuristic_figures.Comparison]]:
    few = 1 if quick else 6
    comparison = heuristic_figures.Comparison()
    yield heuristic_figures.data_range(comparison, 1 if quick else 2), comparison
    yield heuristic_figures.streams(comparison, few), comparison
    yield heuristic_figures.streams_per_node(comparison, few), comparison
    for figure in partition_figures.partitions(1):
        yield figure, comparison
    yield partition_figures.streams((4, 8) if quick else (4, 8, 12), 1 if quick else 4), comparison
    yield partition_figures.attributes(10 if quick else 60), comparison


def real(workload: Workload, every: bool) -> list[Execution]:
    """Every plan over the same tuples."""
    with tempfile.TemporaryDirectory() as nowhere:
        asked = executions.query(workload, Path(nowhere))
    model, head = executions.learn(workload, asked), head_bytes(asked, 0b11) / workload.batch_s
    done = []
    for name, seconds, plan in executions.strategies(model, head, every):
        done.append(executions.repeated(workload, name, plan, model, seconds))
        one = done[-1]
        progress(f"{workload.name}, {name}: {one.measured_bytes:,.0f} bytes, model {one.expected_bytes:,.0f}")
    return done


def learning(workloads: list[Workload]) -> list[dict[str, Any]]:
    """How the error of forecasts falls with what sketches have seen."""
    with tempfile.TemporaryDirectory() as nowhere:
        return [row for one in workloads for row in executions.learning(one, executions.query(one, Path(nowhere)))]


def planning() -> list[dict[str, Any]]:
    """Seconds to plan, against the number of streams."""
    optimal(_many(2))  # compiled once, not counted
    rows = []
    for count in (5, 10, 15, 20):
        model = _many(count)
        rows.append({"streams": count, "algorithm1_s": _timed(lambda m=model: best_unpartitioned(m))})
        rows[-1]["partitions_1000_s"] = _timed(lambda m=model: plan_pmjoin(m, 0, "rate", 1000))
        if count <= 15:
            rows[-1]["optimal_s"] = _timed(lambda m=model: optimal(m))
        progress(f"planning {rows[-1]}")
    return rows


def _many(count: int) -> Any:
    rng = np.random.default_rng((20, count))
    sites, shares = tuple(f"n{i % 10}" for i in range(count)), distributions.different(rng, count, 1000)
    return Setting(sites, rng.uniform(10, 1000, count), rng.uniform(0.1, 1.0, count), shares).model()


def _timed(work: Any) -> float:
    began = time.perf_counter()
    work()
    return round(time.perf_counter() - began, 4)


def _worst(done: list[Execution], model: str) -> tuple[float, str]:
    """How far measured bytes are off, at most, and which plan that is."""
    return max((abs(one.measured_bytes / getattr(one, model) - 1), f"{one.workload}, {one.plan}") for one in done)


def aims(done: list[Execution], planned: list[dict[str, Any]], comparison: heuristic_figures.Comparison) -> list[Any]:
    near, worst = float(np.mean(comparison.over_optimum)), float(np.max(comparison.over_simple))
    off, plan_off = _worst(done, "expected_bytes")
    off_true, plan_true = _worst(done, "true_expected_bytes")
    sizable = [one for one in done if one.workload != "far apart"]
    (off_sizable, plan_sizable), (true_sizable, _) = (
        _worst(sizable, "expected_bytes"),
        _worst(sizable, "true_expected_bytes"),
    )
    plain = {"centralised", "simple", "algorithm1", "optimal"}
    apart = [one for one in done if one.workload == "apart"]
    best = min(one.measured_bytes for one in apart if one.plan in plain)
    rate = min(one.measured_bytes for one in apart if one.plan.startswith("rate"))
    more = []
    for name in dict.fromkeys(one.workload for one in done):
        mine = [one for one in done if one.workload == name]
        least = min(one.measured_bytes for one in mine if one.plan in plain)
        more.append(max(one.measured_bytes for one in mine if one.plan.startswith("rate")) / least)
    names, full = {one.workload for one in done}, {one.workload for one in done if one.results}
    same = all(len({(one.results, one.checksum) for one in done if one.workload == name}) == 1 for name in names)
    twenty = next(row for row in planned if row["streams"] == 20)
    slowest = max(row["partitions_1000_s"] for row in planned)
    return [
        aim("heuristic / optimum, mean over figures 5 to 7", "at most 1.05", round(near, 4), near <= 1.05),
        aim("heuristic / simple, worst", "at most 1", round(worst, 4), worst <= 1 + 1e-9),
        aim("measured bytes off the forecast, worst of all plans", "at most 10 %", f"{off:.1%} ({plan_off})",
            off <= 0.10),
        aim("the same without `far apart`", "at most 10 %", f"{off_sizable:.1%} ({plan_sizable})", off_sizable <= 0.10),
        aim("measured bytes off the model that knows the distribution, worst of all plans", "at most 10 %",
            f"{off_true:.1%} ({plan_true})", off_true <= 0.10),
        aim("the same without `far apart`, distribution known", "at most 10 %", f"{true_sizable:.1%}",
            true_sizable <= 0.10),
        aim("hot values apart: best plan without partitions / by rate", "at least 10", round(best / max(rate, 1), 1),
            best >= 10 * rate),
        aim("by rate / best plan without partitions, worst set", "at most 1", round(max(more), 4), max(more) <= 1.0),
        aim("all plans have the same results", "all sets",
            f"{'same' if same else 'different'}; {len(full)} of {len(names)} sets have results at all", same),
        aim("planning 20 streams", "under 1 s", f"{twenty['algorithm1_s']} s", twenty["algorithm1_s"] < 1.0),
        aim("planning 1,000 partitions, up to 20 streams", "under 10 s", f"{slowest} s", slowest < 10.0),
    ]  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.multiway", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer draws and a tenth of the tuples")
    parser.add_argument("--results", type=Path, help="folder; by default bench/results, or var/bench/quick")
    options = parser.parse_args(arguments)
    results: Path = options.results or (QUICK if options.quick else RESULTS)
    results.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    scale = 10 if options.quick else 1
    done = real(executions.apart(1_000_000 // scale), True)
    done += real(executions.apart(1_000_000 // scale, "far apart", 0.005), False)
    alike = executions.section_4(200_000 // scale)
    for workload in alike:
        done += real(workload, False)
    learned = learning(alike)
    planned = planning()
    made: list[Figure] = []
    comparison = heuristic_figures.Comparison()
    for figure, comparison in figures(options.quick):  # noqa: B007
        made.append(figure)
        plots.draw(figure.to_json(), results)
        progress(f"figure {figure.name}: {figure.title} ({'holds' if figure.holds else 'differs'})")
    judged = aims(done, planned, comparison)
    shown = next(one for one in done if one.plan == "rate, 100 partitions")
    result = {
        "machine": machine(), "seconds": round(time.perf_counter() - began, 1), "aims": judged,
        "rows": [one.row() for one in done], "planning": planned, "learning": learned,
        "figures": [one.to_json() for one in made],
        "explanation": shown.explanation,
    }  # fmt: skip
    keep(result, results / "multiway.json")
    page.write(page.PAGE if results == RESULTS else results / page.PAGE.name, results)
    for one in judged:
        progress(f"{'met    ' if one['met'] else 'NOT MET'} {one['name']}: {one['measured']} ({one['wanted']})")
    return exit_code(result)


if __name__ == "__main__":
    sys.exit(main())
