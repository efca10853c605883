"""Figure 12: units follow the load. JB8, Q7, a window of 5 minutes, 50 minutes, one check a minute."""

from __future__ import annotations

from dataclasses import replace

from bench.biclique.result import Aim, Figure
from bench.biclique.simulate import router_of, sample
from bench.biclique.workload import workload
from etl.correlate.biclique.elastic import ResourceManager
from etl.correlate.biclique.join import BicliqueJoin
from etl.correlate.biclique.routing import BicliqueRouter
from etl.correlate.biclique.scaling import ScalingConfig
from etl.correlate.model import Tuples, Window

MINUTE = 60_000_000
LOW, HIGH = 60, 240  # tuples per second of either stream
CAPACITY = 300_000  # bytes per unit
# The paper's course: quiet, a rise that lasts, short ups and downs around minute 22 to 31, a fall that lasts.
PROFILE = [(0, 120), (6, HIGH), (22, 120), (24, HIGH), (26, 300), (28, HIGH), (33, LOW), (50, LOW)]


def rate_at(minute: int) -> int:
    return next(rate for begin, rate in reversed(PROFILE) if minute >= begin)


def following(scale: float) -> Figure:
    work = workload("Q7", scale)
    join = BicliqueJoin(work.condition(Window.within(5 * MINUTE)), router_of("JB8"))
    manager = ResourceManager(ScalingConfig(CAPACITY))
    rates, units, loads, events, begin, clock = [], [], [], [], 0, 0
    for minute in range(50):
        tuples = 60 * rate_at(minute)
        spacing = MINUTE // tuples
        left, right = work.batch(begin, begin + tuples, spacing)
        shift = clock - int(left.times[0])
        one = sample(join, _moved(left, shift), _moved(right, shift), 0)
        begin, clock = begin + tuples, clock + MINUTE
        changes = manager.observe(join)
        events += [(minute, len(done.added) - len(done.released)) for done in changes]
        router = join.router
        assert isinstance(router, BicliqueRouter), "it began as one"
        storing = sum(len(group.storing) for side in (router.left, router.right) for group in side.subgroups)
        rates.append((minute, float(2 * rate_at(minute))))
        units.append((minute, float(storing)))
        loads.append((minute, sum(one.stored_bytes) / storing / 1e3))
    added, removed = (sum(change for _, change in events if (change > 0) == up) for up in (True, False))
    calm = not [minute for minute, _ in events if 22 <= minute <= 31]
    return Figure(
        "12",
        f"{added} units are added and {-removed} released; short swings change nothing",
        "minute",
        "see series",
        {"tuples per second": rates, "units that store": units, "kB per storing unit": loads},
        {"added": float(added), "released": float(-removed)},
        {"added": 4.0, "released": 6.0},
        "Rates and units are smaller than the paper's, and so is the number of steps between them; "
        "thresholds are its own (0.8, 0.3, 0.6, three confirmations).",
        (Aim("short swings of the load change no units", "0 changes in minutes 22 to 31", float(not calm), calm),),
    )


def _moved(tuples: Tuples, shift: int) -> Tuples:
    return replace(tuples, times=tuples.times + shift)
