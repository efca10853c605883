"""Figures 7 and 8: what to shed when more tuples come than can be joined, and who then chooses the page.

Overload x means: at every step x times as many tuples arrive as the join serves per step when nothing is shed. One
queue element chooses one page per step, as in the paper. Two joins are shown, because the front stage changes the
result: it takes the hot keys away, and what is left wants all pages almost alike.
"""

from __future__ import annotations

import numpy as np

from bench.figures.measure import Measured, Run, TimedMaster
from bench.figures.result import NAMES, Draft, Ratios, Unit
from bench.figures.runs import Setting, join, steady
from bench.figures.workload import probabilities, zipf
from etl.enrich.planning.cost import passing
from etl.enrich.shedding import SheddingConfig, ShedPolicy

MEMORY = 0.02
OVERLOADS = (2.0, 4.0, 8.0, 16.0, 32.0)
POSITIONS = tuple(i / 20 for i in range(21))
COARSE = (0.0, 0.05, 0.10, 0.15, 0.20, 0.3, 0.4, 0.6, 0.8, 1.0)
POSITION_OVERLOAD = 16.0
_WAITING = 1 << 30
_POLICIES: dict[str, ShedPolicy] = {"tuned": "consider", "untuned": "consider-untuned", "keep": "keep"}
TWO = ("hybridjoin", "chybridjoin")


def overloaded(setting: Setting, name: str, policy: ShedPolicy, overload: float, position: float = 0.15) -> Measured:
    """A join under a constant overload, after the queue was refilled several times."""
    base = steady(setting, name, memory=MEMORY)
    arrivals = max(2, int(overload * base.answered / base.metrics.steps))
    master = TimedMaster(setting.master())
    made = join(
        name, master, setting.profile(master), int(MEMORY * setting.r_bytes),
        shedding=SheddingConfig(policy, _WAITING), shedding_position=position,
    )  # fmt: skip
    run = Run(made, zipf(setting.rows, 1.0), master, arrivals=arrivals)
    steps = max(setting.least_steps // 2, int(setting.warm_turns * run.capacity / arrivals))
    run.steps(steps)
    run.forget()
    run.steps(max(setting.least_steps, int(2 * setting.turns * run.capacity / arrivals)))
    return run.measured()


def page_spread(setting: Setting, front_rows: int) -> float:
    """How unequally pages are wanted by tuples that miss: standard deviation over mean."""
    wanted = passing(probabilities(setting.rows, 1.0), front_rows)
    pages = np.bincount(np.arange(setting.rows) // setting.page_rows, wanted)
    return float(pages.std() / pages.mean())


def _why(setting: Setting, cached: Measured) -> str:
    return (
        f"Choosing by position pays where some pages are wanted far more than others. Without a front stage the wants "
        f"of pages spread by {page_spread(setting, 0):.2f} of their mean, behind one, which takes the "
        f"{cached.front_rows:,} hottest keys away, only by {page_spread(setting, cached.front_rows):.2f}: hot keys lie "
        f"anywhere in R, so pages of {setting.page_rows:,} rows are nearly alike."
    )


def positions(setting: Setting) -> Draft:
    """7"""
    curves = {
        NAMES[name]: {p: overloaded(setting, name, "consider", POSITION_OVERLOAD, p) for p in places}
        for name, places in (("hybridjoin", POSITIONS), ("chybridjoin", COARSE))
    }

    def near(name: str, place: float, unit: Unit) -> float:
        """The mean rate at a position and its neighbours: single runs scatter by several per cent."""
        places = list(curves[name])
        at = places.index(place)
        return float(np.mean([curves[name][p].rate(unit) for p in places[max(0, at - 1) : at + 2]]))

    def ours(unit: Unit) -> Ratios:
        out = {f"best position, {n}": max(list(c)[1:], key=lambda p: near(n, p, unit)) for n, c in curves.items()}
        for name, curve in curves.items():
            middle = near(name, 0.15, unit)
            out[f"at 15 % / newest, {name}"] = middle / curve[0.0].rate(unit)
            out[f"at 15 % / oldest, {name}"] = middle / near(name, 1.0, unit)
        return out

    def title(ratios: Ratios) -> str:
        newest, oldest = (ratios[f"at 15 % / {end}, HYBRIDJOIN"] for end in ("newest", "oldest"))
        return (
            f"Under {POSITION_OVERLOAD:g}-fold overload the queue element at 15% serves {newest:.1f}x what the newest "
            f"does and {oldest:.2f}x what the oldest does (HYBRIDJOIN)"
        )

    return Draft(
        "7", "position in the queue that chooses the page (0 newest, 1 oldest)", curves,
        paper={"best position, CHYBRIDJOIN": 0.15}, title=title, ours=ours,
        shape=lambda unit, r: min(r[f"at 15 % / {end}, CHYBRIDJOIN"] for end in ("newest", "oldest")) > 1.0  # noqa: ARG005
        and 0.05 <= r["best position, CHYBRIDJOIN"] <= 0.3,
        reason=lambda unit, r: _why(setting, curves["CHYBRIDJOIN"][0.15]),  # noqa: ARG005
    )  # fmt: skip


def policies(setting: Setting) -> Draft:
    """8"""
    curves = {
        f"{NAMES[name]}, {label}": {x: overloaded(setting, name, policy, x) for x in OVERLOADS}
        for name in TWO for label, policy in _POLICIES.items()
    }  # fmt: skip
    curves["MESHJOIN, keep"] = {x: overloaded(setting, "meshjoin", "keep", x) for x in OVERLOADS[-1:]}

    def ratio(name: str, one: str, other: str, x: float, unit: Unit) -> float:
        return curves[f"{name}, {one}"][x].rate(unit) / curves[f"{name}, {other}"][x].rate(unit)

    def ours(unit: Unit) -> Ratios:
        last = OVERLOADS[-1]
        out = {}
        for name in ("CHYBRIDJOIN", "HYBRIDJOIN"):
            out[f"tuned / untuned, {name}, {last:g}-fold"] = ratio(name, "tuned", "untuned", last, unit)
            out[f"consider / keep, {name}, {last:g}-fold"] = ratio(name, "tuned", "keep", last, unit)
            out[f"consider / keep, {name}, 4-fold"] = ratio(name, "tuned", "keep", 4.0, unit)
        return out

    def reason(unit: Unit, ratios: Ratios) -> str:  # noqa: ARG001
        gains = ", ".join(f"{ratio('HYBRIDJOIN', 'tuned', 'untuned', x, unit):.2f} at {x:g}" for x in OVERLOADS)
        return (
            f"The paper does not say how large its overload was. Tuned against untuned without a front stage, by "
            f"overload: {gains}. {_why(setting, curves['CHYBRIDJOIN, tuned'][OVERLOADS[-1]])}"
        )

    last = f"{OVERLOADS[-1]:g}-fold"
    return Draft(
        "8", "overload, times the rate served without shedding", curves,
        paper={f"tuned / untuned, CHYBRIDJOIN, {last}": 1.33, f"consider / keep, CHYBRIDJOIN, {last}": 3.1},
        title=lambda r: f"Shedding after considering serves {r[f'consider / keep, CHYBRIDJOIN, {last}']:.1f}x as many "
        f"tuples as keep, tuned {r[f'tuned / untuned, HYBRIDJOIN, {last}']:.2f}x untuned (HYBRIDJOIN), {last} overload",
        ours=ours,
        shape=lambda unit, r: r[f"consider / keep, CHYBRIDJOIN, {last}"] > 1.0  # noqa: ARG005
        and r[f"consider / keep, HYBRIDJOIN, {last}"] > 1.0
        and r[f"tuned / untuned, CHYBRIDJOIN, {last}"] > 1.0,
        reason=reason,
    )  # fmt: skip
