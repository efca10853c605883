"""Work: figures 7, 8 and 9 in counters.

A cluster is as fast as its busiest unit. Its work per tuple (lookups in sub-indexes, candidates, tuples stored) stands
for the paper's throughput, what one tuple makes all units do for its latency. Beyond its memory a setting has no point:
the paper's units then turn to the disk.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.biclique.memory import CHI
from bench.biclique.result import Figure
from bench.biclique.simulate import SETTINGS, Sample, run
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
