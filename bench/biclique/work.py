"""Work: figures 7, 8 and 9 in counters and in time.

A cluster is as fast as its busiest unit. Its work per tuple (lookups in sub-indexes, candidates, tuples stored) stands
for the paper's throughput, what one tuple makes all units do for its latency. Beyond its memory a setting has no point:
the paper's units then turn to the disk. Times are CPU seconds of all units together, since one process plays them all:
what a setting costs, where the counters say how well it is spread.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from bench.biclique.memory import CHI
from bench.biclique.result import Figure
from bench.biclique.simulate import SETTINGS, Sample, joined, run, sample
from bench.biclique.workload import QUERIES, workload

CAPACITY = 700_000  # bytes per unit: JM16 is full at a quarter of the largest volume of figure 7, JB8 at a half


def along(scale: float) -> Figure:
    """7: tuples per unit of the busiest unit's work, against tuples ingested, Q5."""
    work, series = workload("Q5", scale), {}
    full = {}
    for setting in SETTINGS:
        points = []
        for before, one in _pairs(run(work, setting, 208_000, 26)):
            if max(one.stored_bytes) > CAPACITY:
                break
            points.append((one.volume / 1e3, (one.volume - before) / max(one.work)))
            full[setting] = one.volume / 1e3
        series[setting] = points
    ours = {f"{name} / JM16, last volume in memory": full[name] / full["JM16"] for name in ("JB8", "JB16")}
    return Figure(
        "7",
        "Subgroups make every unit work less per tuple; the matrix is the first to run out of memory",
        "thousand tuples ingested",
        "tuples per unit of work of the busiest unit",
        series,
        ours,
        {"JB8 / JM16, last volume in memory": 52 / 28},
        "Counted, not timed: Storm's cost per message is not in it. JB16 with random routing does more lookups than "
        "JM16, as in the paper.",
    )


def _pairs(samples: Iterator[Sample]) -> list[tuple[int, Sample]]:
    every = list(samples)
    return [(every[i - 1].volume if i else 0, one) for i, one in enumerate(every)]


def volumes(scale: float) -> Figure:
    """8: average over a small, a medium and a large volume (10, 80 and 320 GB there)."""
    series: dict[str, list[tuple[str, float]]] = {setting: [] for setting in SETTINGS}
    for query in QUERIES:
        work = workload(query, scale)
        for label, tuples in (("small", 8_000), ("medium", 64_000), ("large", 128_000)):
            tuples = min(tuples, len(work.left))
            for setting in SETTINGS:
                samples = list(run(work, setting, tuples, 4))
                if samples and max(samples[-1].stored_bytes) <= CAPACITY:
                    busiest = max(map(sum, zip(*(one.work for one in samples), strict=True)))
                    series[setting].append((f"{query} {label}", samples[-1].volume / busiest))
    series = {name: points for name, points in series.items() if points}
    return Figure(
        "8",
        "What does not fit in memory has no bar: the matrix drops out first",
        "query and volume",
        "tuples per unit of work of the busiest unit",
        series,
        reason=f"A tuple stored is {CHI[False]:g} bytes, a unit has {CAPACITY / 1e6:g} MB. The paper's drop by one to "
        "two orders beyond memory is its disk.",
    )


def latency(scale: float) -> Figure:
    """9: messages and work that one tuple causes."""
    messages, busiest = [], []
    work = workload("Q5", scale)
    for setting in SETTINGS:
        *_, last = run(work, setting, 40_000, 4)
        batch = last.volume / 4
        messages.append((setting, last.messages / batch))
        busiest.append((setting, sum(last.work) / batch))
    ours = {f"{name} / JM16": value / dict(messages)["JM16"] for name, value in messages if name != "JM16"}
    return Figure(
        "9",
        "What one tuple causes before its last pair is out",
        "setting",
        "per tuple",
        {"messages": messages, "lookups, candidates and stores": busiest},
        ours,
        {},
        "The paper's latency is dominated by the network and by queues, which messages and work stand for; its order "
        "is the same: JB16 most, subgroups less.",
    )


def along_in_time(scale: float) -> Figure:
    """7 in time: thousand tuples per CPU second, against tuples ingested, Q5."""
    work, series, overall = workload("Q5", scale), {}, {}
    _compile(scale)
    for setting in SETTINGS:
        samples = _pairs(run(work, setting, 208_000, 13))
        series[setting] = [(one.volume / 1e3, (one.volume - before) / one.seconds / 1e3) for before, one in samples]
        overall[setting] = samples[-1][1].volume / sum(one.seconds for _, one in samples)
    ours = {f"{name} / JM16": value / overall["JM16"] for name, value in overall.items() if name != "JM16"}
    return Figure(
        "7t",
        "In time: what all units together compute for a tuple",
        "thousand tuples ingested",
        "thousand tuples per CPU second of all units",
        series,
        ours,
        {},
        "One process plays all units, so this is what a setting costs in sum. The matrix stores a tuple four times and "
        "probes four units, the biclique stores it once and probes the other side; subgroups leave fewer to probe.",
    )


def volumes_in_time(scale: float) -> Figure:
    """8 in time: every query, three volumes."""
    series: dict[str, list[tuple[str, float]]] = {setting: [] for setting in SETTINGS}
    _compile(scale)
    for query in QUERIES:
        work = workload(query, scale)
        for label, tuples in (("small", 8_000), ("medium", 64_000), ("large", 128_000)):
            tuples = min(tuples, len(work.left))
            for setting in SETTINGS:
                samples = list(run(work, setting, tuples, 4))
                if samples:
                    rate = samples[-1].volume / sum(one.seconds for one in samples)
                    series[setting].append((f"{query} {label}", rate / 1e3))
    series = {name: points for name, points in series.items() if points}
    title, unit = "In time: every query and volume", "thousand tuples per CPU second of all units"
    reason = "Nothing is left out here: what would not fit a unit's memory is joined in memory all the same."
    return Figure("8t", title, "query and volume", unit, series, reason=reason)


def latency_in_time(scale: float) -> Figure:
    """9 in time: one tuple of either stream at a time, once 80,000 are stored."""
    work, points = workload("Q5", scale), []
    _compile(scale)
    for setting in SETTINGS:
        join, stored = joined(work, setting, 40_000), 40_000
        one_by_one = [sample(join, *work.batch(at, at + 1, 1), 2).seconds for at in range(stored, stored + 200)]
        points.append((setting, statistics.median(one_by_one) * 1e6))
    ours = {f"{name} / JM16": value / dict(points)["JM16"] for name, value in points if name != "JM16"}
    return Figure(
        "9t",
        "In time: from one tuple of either stream to its last pair",
        "setting",
        "microseconds of CPU",
        {"median of 200": points},
        ours,
        {},
        "Without network and queues, of which the paper's milliseconds mostly consist: what remains is the cost of a "
        "batch of two tuples, a call per unit that hears of them.",
    )


def _compile(scale: float) -> None:
    """Let kernels be compiled before anything is timed."""
    for query in QUERIES:
        for setting in ("JM16", "JB16"):
            list(run(workload(query, scale), setting, 400, 2))
