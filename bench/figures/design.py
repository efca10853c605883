"""Figures 9a–9f: how CMESHJOIN answers to its own parameters, and whether the cost model is right."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from bench.figures.measure import UNITS, Measured, Run, TimedMaster, cost_units
from bench.figures.result import NAMES, Draft, Figure, Ratios, Unit, best_hits, why_front
from bench.figures.runs import FOUR, Setting, join, steady, warm_front
from bench.figures.workload import FirstPages, probabilities, zipf
from etl.columnar.keys import I64
from etl.enrich.front_stage.stage import FrontStage, FrontStageConfig
from etl.enrich.planning.calibrate import measure_units
from etl.enrich.planning.cost import PerTuple, UnitCosts, hit_ratio, hybrid_cost, inlj_cost, mesh_cost, passing
from etl.enrich.planning.sizing import FRONT_SHARE
from etl.enrich.spec import JoinSpec
from etl.enrich.step import Cost

SHARES = (0.02, 0.05, 0.10, 0.15, 0.20, 0.30, 0.50, 0.75)
THRESHOLDS = (1, 2, 3, 4, 6, 8, 10)
BUFFERS = (1, 2, 3, 5, 7)
ITERATIONS = 1_000
WINDOWS = 12
_LOOKUP_TUPLES = 8_192


def front_share(setting: Setting) -> Draft:
    """9a"""
    none = steady(setting, "meshjoin", memory=0.1)
    curve = {0.0: none} | {s: steady(setting, "cmeshjoin", memory=0.1, front_share=s) for s in SHARES}

    def ours(unit: Unit) -> Ratios:
        best = max(SHARES, key=lambda s: curve[s].rate(unit))
        return {
            "best share": best, "best / none": curve[best].rate(unit) / none.rate(unit),
            "15 % / best": curve[0.15].rate(unit) / curve[best].rate(unit),
            "75 % / none": curve[0.75].rate(unit) / none.rate(unit),
        }  # fmt: skip

    def shape(unit: Unit, ratios: Ratios) -> bool:  # noqa: ARG001
        inside = SHARES[0] < ratios["best share"] < SHARES[-1]
        return inside and ratios["15 % / best"] > 0.9 and ratios["75 % / none"] > 1.0

    def reason(unit: Unit, ratios: Ratios) -> str:  # noqa: ARG001
        best = best_hits(probabilities(setting.rows, 1.0), curve[0.75].front_rows)
        return why_front(unit, none, curve[0.75], best, 1.0, setting.rows)

    return Draft(
        "9a", "front stage, share of memory", {"CMESHJOIN": curve}, paper={"best share": 0.15, "75 % / none": 1.0},
        title=lambda r: f"The best front stage has {r['best share']:.0%} of the memory; 15% reaches "
        f"{r['15 % / best']:.0%} of that, 75% still {r['75 % / none']:.1f}x no front stage",
        ours=ours, shape=shape, reason=reason,
    )  # fmt: skip


class HeldThreshold(FrontStage):
    """The paper's policy with a threshold that does not move."""

    def __init__(self, config: FrontStageConfig) -> None:
        super().__init__(replace(config, policy="paper"))

    def learn(self, rows: pa.Table, frequency: I64) -> None:
        super().learn(rows, frequency)
        if self._inner is not None:
            self._inner.policy.threshold = self.config.threshold


def threshold(setting: Setting) -> Draft:
    """9b"""
    curve = {}
    for value in THRESHOLDS:
        budget = int(0.1 * setting.r_bytes)
        front = HeldThreshold(FrontStageConfig(int(budget * FRONT_SHARE), "paper", value))
        master = TimedMaster(setting.master())
        made = join("cmeshjoin", master, setting.profile(master), budget, policy="paper", front_stage=front)
        run = Run(made, zipf(setting.rows, 1.0), master)
        run.turns(setting.warm_turns)
        run.forget()
        run.turns(setting.turns)
        curve[float(value)] = run.measured()
    full = max(measured.front_rows for measured in curve.values())

    def rate(measured: Measured, unit: Unit) -> float:
        return measured.rate(unit, measured.metrics.front_hits)

    def ours(unit: Unit) -> Ratios:
        filled = [t for t, measured in curve.items() if measured.front_rows > 0.9 * full]
        return {
            "1 / 10": rate(curve[1.0], unit) / rate(curve[10.0], unit),
            "2 / 10": rate(curve[2.0], unit) / rate(curve[10.0], unit),
            "highest threshold that fills it": max(filled),
        }

    return Draft(
        "9b", "threshold of the paper's policy", {"front stage of CMESHJOIN": curve}, paper={},
        title=lambda r: f"A lower threshold serves more until the front stage is full (at "
        f"{r['highest threshold that fills it']:g}): 2 serves {r['2 / 10']:.2f}x what 10 does",
        ours=ours, shape=lambda unit, r: max(r["1 / 10"], r["2 / 10"]) > 1.0,  # noqa: ARG005
        reason=lambda unit, r: _why_threshold(curve),  # noqa: ARG005
        value=rate,
    )  # fmt: skip


def _why_threshold(curve: dict[float, Measured]) -> str:
    each = "; ".join(
        f"{t:g}: {m.front_rows:,} rows, {m.hit_ratio:.0%}, {m.metrics.admissions / m.answered * 1000:.1f}"
        for t, m in curve.items()
    )
    return (
        f"A low threshold also lets more rows in and out, which takes time but no cost units. Rows held, hits, and "
        f"admissions per thousand tuples, by threshold: {each}."
    )


def disk_buffer(setting: Setting) -> Draft:
    """9c"""
    curve = {float(k): steady(setting, "cmeshjoin", memory=0.01, pages_per_step=k) for k in BUFFERS}

    def rate(measured: Measured, unit: Unit) -> float:
        return measured.rate(unit, measured.missed)

    def ours(unit: Unit) -> Ratios:
        best = max(curve, key=lambda k: rate(curve[k], unit))
        ends = (rate(curve[best], unit) / rate(curve[float(k)], unit) for k in (BUFFERS[0], BUFFERS[-1]))
        return dict(zip(("best size", "best / smallest", "best / largest"), (best, *ends), strict=True))

    return Draft(
        "9c", "disk buffer, pages", {"MESHJOIN phase of CMESHJOIN": curve}, paper={},
        title=lambda r: f"The disk buffer has its best size in the middle: {r['best size']:g} pages at 1% memory",
        ours=ours, shape=lambda unit, r: BUFFERS[0] < r["best size"] < BUFFERS[-1],  # noqa: ARG005
        reason=lambda unit, r: f"One more page takes room from {curve[1.0].capacity - curve[2.0].capacity:,} of "  # noqa: ARG005
        f"{curve[1.0].capacity:,} waiting tuples; a step costs no seek here, so a smaller buffer loses little.",
        value=rate,
    )  # fmt: skip


def front_role(setting: Setting) -> list[Figure]:
    """9d: from cold, what share of all tuples so far the front stage has answered"""
    master = TimedMaster(setting.master())
    budget = int(0.1 * setting.r_bytes)
    made = join("cmeshjoin", master, setting.profile(master), budget, pages_per_step=max(1, master.page_count() // 250))
    run = Run(made, zipf(setting.rows, 1.0), master)
    points = []
    for step in range(1, ITERATIONS + 1):
        run.step()
        if step % 50 == 0:
            points.append({"x": step, "y": run.measured().hit_ratio})
    share, late = points[-1]["y"], run.measured()
    best = best_hits(probabilities(setting.rows, 1.0), late.front_rows)
    ours = {"share after 1,000 iterations": share, "best possible": best}
    title = f"After 1,000 iterations from cold the front stage has answered {share:.0%} of the stream"
    shape, paper = share > 0.4, {"share after 1,000 iterations": 0.51}
    reason = "" if share >= 0.51 else f"The hottest {late.front_rows:,} keys have {best:.0%} of this stream."
    series = [{"name": "front stage of CMESHJOIN", "points": points}]
    return [
        Figure("9d", title, unit, "iteration", "share of tuples", series, ours, paper, shape, reason)
        for unit in ("cost", "time")
    ]


def growing(setting: Setting) -> list[Figure]:
    """9e: R doubles while the join runs; the stream then wants all of it"""
    half = setting.rows // 2
    whole = setting.master()
    view = FirstPages(whole, -(-half // setting.page_rows))
    master = TimedMaster(view)
    run = Run(join("cmeshjoin", master, setting.profile(master), int(0.1 * setting.r_bytes)), zipf(half, 1.0), master)
    run.turns(setting.warm_turns)
    points: list[tuple[float, Measured]] = []
    for window in range(WINDOWS):
        if window == WINDOWS // 3:
            view.pages, run.stream = whole.page_count(), zipf(setting.rows, 1.0)
        run.forget()
        run.turns(0.5)
        points.append((float(window), run.measured()))
    fresh = steady(setting, "cmeshjoin", memory=0.1)
    return [_grown(unit, points, fresh) for unit in ("cost", "time")]


def _grown(unit: Unit, points: list[tuple[float, Measured]], fresh: Measured) -> Figure:
    rates = [measured.rate(unit) for _, measured in points]
    before, after = float(np.mean(rates[: WINDOWS // 3])), float(np.mean(rates[-WINDOWS // 4 :]))
    ours = {"after / before": after / before, "after / fresh join on the larger R": after / fresh.rate(unit)}
    like = ours["after / fresh join on the larger R"]
    title = f"R doubled while running: the join then serves {like:.0%} of what one does that always had the larger R"
    series = [
        {"name": "CMESHJOIN", "points": [{"x": x, "y": m.rate(unit), "hit_ratio": m.hit_ratio} for x, m in points]}
    ]
    holds = like > 0.9
    hits = [measured.hit_ratio for measured in (points[0][1], points[-1][1], fresh)]
    reason = "" if holds else "Hits before {:.0%}, at the end {:.0%}, of a fresh join {:.0%}.".format(*hits)
    return Figure("9e", title, unit, "time, half turns of the queue", _label(unit), series, ours,
                  {"after / fresh join on the larger R": 1.0}, holds, reason)  # fmt: skip


def _label(unit: Unit) -> str:
    return {"cost": "tuples per cost unit", "time": "tuples per second"}[unit]


def validation(setting: Setting) -> list[Figure]:
    """9f"""
    runs = {name: steady(setting, name, memory=0.1) for name in FOUR}
    runs |= {name: _looked_up(setting, name) for name in ("inlj", "cinlj")}
    calculated = {name: _calculated(setting, name, measured) for name, measured in runs.items()}
    return [_validated(setting, unit, runs, calculated) for unit in ("cost", "time")]


def _looked_up(setting: Setting, name: str) -> Measured:
    master, budget, stream = TimedMaster(setting.master()), int(0.1 * setting.r_bytes), zipf(setting.rows, 1.0)
    front = warm_front(master, budget, stream, 2 * setting.rows) if name == "cinlj" else None
    made = join(
        name, master, setting.profile(master), budget, lookup_tuples=_LOOKUP_TUPLES,
        **({"front_stage": front} if front else {}),
    )  # fmt: skip
    run = Run(made, stream, master)
    run.steps(5)
    run.forget()
    run.steps(40)
    return run.measured()


def _calculated(setting: Setting, name: str, measured: Measured) -> PerTuple:
    """What the model says, given only sizes and the law of the stream."""
    probability = probabilities(setting.rows, 1.0)
    held, cached = measured.front_rows, JoinSpec.named(name).front_stage
    hits, left = hit_ratio(probability, held), passing(probability, held)
    shape = setting.profile(setting.master())
    if "mesh" in name:
        return mesh_cost(shape, measured.capacity, hits=hits, front=cached)
    if "hybrid" in name:
        pages = np.bincount(np.arange(setting.rows) // setting.page_rows, left).astype(np.float64)
        return hybrid_cost(pages, np.zeros(0), shape, measured.capacity, hits=hits, front=cached)
    return inlj_cost(left, measured.capacity, found=1.0, hits=hits, front=cached)


def _priced(name: str, each: PerTuple, measured: Measured, units: UnitCosts, *, steps: bool) -> float:
    """Calculated work per tuple in units. Steps and seeks follow from the sizes, as the run had them."""
    many = 1_000_000
    metrics = measured.metrics
    seeks = each.pages if "hybrid" in name else each.lookups * metrics.cost.seeks / max(1, metrics.cost.lookups)
    cost = Cost(
        pages=round(each.pages * many), seeks=round(seeks * many) if "mesh" not in name else 0,
        lookups=round(each.lookups * many) if "mesh" not in name else 0, front_probes=round(each.front_probes * many),
    )  # fmt: skip
    per_step = metrics.cost.pages / metrics.steps if "mesh" in name else 1.0
    count = round(each.pages * many / per_step) if steps and "mesh" in name else 0
    return cost_units(cost, count, units=units) / many


def _validated(setting: Setting, unit: Unit, runs: dict[str, Measured], calculated: dict[str, PerTuple]) -> Figure:
    units = UNITS
    if unit == "time":
        source = setting.master()
        units = measure_units(UNITS, time.perf_counter, lookup=source, scan=source, index=source)
    ours: Ratios = {}
    lines: dict[str, list[dict[str, Any]]] = {"calculated": [], "measured": []}
    for name, measured in runs.items():
        want = _priced(name, calculated[name], measured, units, steps=unit == "cost")
        want *= units.scan_page_s * 1e6 if unit == "time" else 1.0
        got = 1.0 / measured.rate(unit) * (1e6 if unit == "time" else 1.0)
        ours[f"{NAMES[name]} calculated / measured"] = want / got
        for line, value in (("calculated", want), ("measured", got)):
            lines[line].append({"x": NAMES[name], "y": value})
    off = max(abs(1 - ratio) for ratio in ours.values())
    reason = "" if off <= 0.10 else _why_off(setting, unit, ours, runs)
    title = f"Calculated cost is within {off:.0%} of measured for every algorithm"
    series = [{"name": line, "points": points} for line, points in lines.items()]
    label = {"cost": "cost units per tuple", "time": "microseconds per tuple"}[unit]
    paper = dict.fromkeys(ours, 1.0)
    return Figure("9f", title, unit, "algorithm", label, series, ours, paper, off <= 0.10, reason)


def _why_off(setting: Setting, unit: Unit, ours: Ratios, runs: dict[str, Measured]) -> str:
    if unit == "time":
        return (
            "The model prices pages, lookups and probes with unit costs measured on a few pages; work per tuple "
            "(taking it in, handing its row out) and per step has no price: it does not decide between tactics."
        )
    worst = max(ours, key=lambda name: abs(1 - ours[name]))
    text = f"Farthest off: {worst} {ours[worst]:.2f}."
    run = runs[next(name for name, title in NAMES.items() if worst.startswith(f"{title} "))]
    if not run.front_rows:
        return text
    best = best_hits(probabilities(setting.rows, 1.0), run.front_rows)
    return (
        f"{text} The model assumes the best content of the front stage, {best:.0%} of hits; it had {run.hit_ratio:.0%}."
    )
