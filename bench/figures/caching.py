"""Figures 5a–5d and 6: what the front stage brings, against memory, size of R and skew."""

from __future__ import annotations

from bench.figures.measure import Measured, Run, TimedMaster
from bench.figures.result import NAMES, Curves, Draft, Ratios, Unit, best_hits, over, why_front
from bench.figures.runs import FOUR, Setting, join, steady, warm_front
from bench.figures.workload import probabilities, zipf

MEMORY = (0.01, 0.05, 0.10)
SIZES = (0.2, 0.5, 1.0)
SKEWS = (0.0, 0.5, 0.75, 1.0)
_INLJ_SIZES = (0.2, 0.6, 1.0)
_INLJ_TUPLES = 3_000
MESH, HYBRID = "CMESHJOIN / MESHJOIN", "CHYBRIDJOIN / HYBRIDJOIN"


def by_memory(setting: Setting) -> Draft:
    """5a"""
    curves = {NAMES[name]: {m: steady(setting, name, memory=m) for m in MEMORY} for name in FOUR}
    low, high = MEMORY[0], MEMORY[-1]

    def ours(unit: Unit) -> Ratios:
        return {f"{pair} at {m:.0%}": _pair(curves, pair, m, unit) for pair in (MESH, HYBRID) for m in (low, high)}

    return Draft(
        "5a", "memory, share of R", curves,
        paper={f"{MESH} at 1%": 4.0, f"{MESH} at 10%": 6.5, f"{HYBRID} at 1%": 2.4, f"{HYBRID} at 10%": 2.8},
        title=lambda r: f"With 10% of R as memory the front stage serves {r[f'{MESH} at 10%']:.1f}x (MESHJOIN) and "
        f"{r[f'{HYBRID} at 10%']:.1f}x (HYBRIDJOIN) as many tuples",
        ours=ours,
        shape=lambda unit, r: min(r.values()) > 1.0 and r[f"{MESH} at 10%"] > r[f"{MESH} at 1%"],  # noqa: ARG005
        reason=lambda unit, r: _why_mesh(setting, curves, high, unit, 6.5),  # noqa: ARG005
    )  # fmt: skip


def _pair(curves: Curves, pair: str, x: float, unit: Unit) -> float:
    cached, plain = pair.split(" / ")
    return over(curves, cached, plain, x, unit)


def _why_mesh(setting: Setting, curves: Curves, x: float, unit: Unit, wanted: float, exponent: float = 1.0) -> str:
    plain, cached = curves["MESHJOIN"][x], curves["CMESHJOIN"][x]
    best = best_hits(probabilities(setting.rows, exponent), cached.front_rows)
    return why_front(unit, plain, cached, best, wanted, setting.rows)


def sized(setting: Setting) -> Curves:
    """Four joins on growing parts of R in one and the same memory: 10 % of the whole."""
    budget = int(0.1 * setting.r_bytes)
    parts = {share: int(share * setting.rows) for share in SIZES}
    return {
        NAMES[name]: {rows / 1e6: steady(setting, name, budget=budget, rows=rows) for rows in parts.values()}
        for name in FOUR
    }


def by_size(setting: Setting) -> Draft:
    """5b"""
    curves = sized(setting)
    small, large = (SIZES[i] * setting.rows / 1e6 for i in (0, -1))

    def ours(unit: Unit) -> Ratios:
        where = {"smallest R": small, "largest R": large}
        return {f"{pair}, {n}": _pair(curves, pair, x, unit) for pair in (MESH, HYBRID) for n, x in where.items()}

    return Draft(
        "5b", "size of R, million rows", curves,
        paper={
            f"{MESH}, smallest R": 4.7, f"{MESH}, largest R": 6.5,
            f"{HYBRID}, smallest R": 3.0, f"{HYBRID}, largest R": 2.8,
        },
        title=lambda r: f"In fixed memory the gain holds as R grows: {r[f'{MESH}, smallest R']:.1f}x to "
        f"{r[f'{MESH}, largest R']:.1f}x (MESHJOIN), {r[f'{HYBRID}, smallest R']:.1f}x to "
        f"{r[f'{HYBRID}, largest R']:.1f}x (HYBRIDJOIN)",
        ours=ours,
        shape=lambda unit, r: min(r.values()) > 1.0,  # noqa: ARG005
        reason=lambda unit, r: _why_mesh(setting, curves, large, unit, 6.5)  # noqa: ARG005
        + (
            " The smaller R, the larger the share of it the same memory holds, so the share of hits falls as R grows."
            if unit == "cost"
            else ""
        ),
    )  # fmt: skip


def nested_loop(setting: Setting) -> Draft:
    """5c"""
    rows = [int(share * setting.rows) for share in _INLJ_SIZES]
    curves = {NAMES[name]: {n / 1e6: _one_at_a_time(setting, name, n) for n in rows} for name in ("inlj", "cinlj")}
    last = rows[-1] / 1e6

    def ours(unit: Unit) -> Ratios:
        return {"CINLJ / INLJ": max(over(curves, "CINLJ", "INLJ", n / 1e6, unit) for n in rows)}

    def reason(unit: Unit, ratios: Ratios) -> str:  # noqa: ARG001
        best = best_hits(probabilities(setting.rows, 1.0), curves["CINLJ"][last].front_rows)
        return why_front(unit, curves["INLJ"][last], curves["CINLJ"][last], best, 2.5, setting.rows)

    return Draft(
        "5c", "size of R, million rows", curves, paper={"CINLJ / INLJ": 2.5},
        title=lambda r: f"One lookup per tuple: a front stage of the same size serves {r['CINLJ / INLJ']:.1f}x as many",
        ours=ours, shape=lambda unit, r: r["CINLJ / INLJ"] > 1.5, reason=reason,  # noqa: ARG005
    )  # fmt: skip


def _one_at_a_time(setting: Setting, name: str, rows: int) -> Measured:
    """The textbook's loop, with a front stage as large as the other joins have it."""
    master, budget, stream = TimedMaster(setting.master(rows)), int(0.1 * setting.r_bytes), zipf(rows, 1.0)
    front = warm_front(master, budget, stream, 2 * setting.rows) if name == "cinlj" else None
    made = join(
        name, master, setting.profile(master), budget, lookup_tuples=1, **({"front_stage": front} if front else {})
    )
    run = Run(made, stream, master)
    run.turns(0, least_tuples=500)
    run.forget()
    run.turns(0, least_tuples=_INLJ_TUPLES)
    return run.measured()


def by_skew(setting: Setting) -> Draft:
    """5d"""
    curves = {NAMES[name]: {z: steady(setting, name, memory=0.1, exponent=z) for z in SKEWS} for name in FOUR}

    def ours(unit: Unit) -> Ratios:
        return {f"{pair} at skew {z:g}": _pair(curves, pair, z, unit) for pair in (MESH, HYBRID) for z in (0.0, 1.0)}

    def shape(unit: Unit, ratios: Ratios) -> bool:
        gains = [[_pair(curves, pair, z, unit) for z in SKEWS] for pair in (MESH, HYBRID)]
        rising = all(later > 0.95 * gain[i] for gain in gains for i, later in enumerate(gain[1:]))
        return rising and all(0.75 < gain[0] < 1.0 < gain[-1] for gain in gains) and min(ratios.values()) > 0.75

    return Draft(
        "5d", "Zipf exponent of the stream", curves,
        paper={f"{MESH} at skew 1": 6.5, f"{HYBRID} at skew 1": 2.8},
        title=lambda r: f"The more skew, the more the front stage helps: {r[f'{MESH} at skew 0']:.2f}x at 0, "
        f"{r[f'{MESH} at skew 1']:.1f}x at 1 (MESHJOIN)",
        ours=ours, shape=shape,
        reason=lambda unit, r: _why_mesh(setting, curves, 1.0, unit, 6.5)  # noqa: ARG005
        + " At skew 0 there is nothing to gain: the loss is the memory that the front stage takes from the queue, and"
        + (" its probes." if unit == "cost" else " the work of rows that come and go, each as good as the other."),
    )  # fmt: skip


def processing_time(setting: Setting) -> Draft:
    """6: the runs of 5b, looked at from the side of a tuple"""
    curves = sized(setting)
    large = SIZES[-1] * setting.rows / 1e6

    def ours(unit: Unit) -> Ratios:
        return {
            f"{plain} / {cached}": curves[plain][large].wait(unit) / curves[cached][large].wait(unit)
            for cached, plain in (pair.split(" / ") for pair in (MESH, HYBRID))
        }

    return Draft(
        "6", "size of R, million rows", curves, paper={},
        title=lambda r: f"A tuple waits {r['MESHJOIN / CMESHJOIN']:.1f}x (MESHJOIN) and "
        f"{r['HYBRIDJOIN / CHYBRIDJOIN']:.1f}x (HYBRIDJOIN) longer without a front stage",
        ours=ours, shape=lambda unit, r: min(r.values()) > 1.5,  # noqa: ARG005
        reason=lambda unit, r: why_front(  # noqa: ARG005
            unit, curves["HYBRIDJOIN"][large], curves["CHYBRIDJOIN"][large],
            best_hits(probabilities(setting.rows, 1.0), curves["CHYBRIDJOIN"][large].front_rows), 2.0,
        ),
        value=lambda measured, unit: measured.wait(unit), weighable=False,
        y={"cost": "cost units from offer to match", "time": "seconds from offer to match"},
    )  # fmt: skip
