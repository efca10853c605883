"""What is sent: figures 11, 18 and 19, and the view updates of figures 13 and 14."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from bench.biclique.result import Figure, at_most
from bench.biclique.simulate import router_of, run
from bench.biclique.workload import QUERIES, Workload, workload
from etl.correlate import aggregate
from etl.correlate.biclique.analysis import Stream, biclique_bandwidth, matrix_bandwidth
from etl.correlate.biclique.routing import BicliqueRouter
from etl.correlate.biclique.unit import step
from etl.correlate.index.chain import ChainConfig, ChainedIndex
from etl.correlate.model import Window
from etl.correlate.query.compile import StreamType, compile_query

TUPLE_BYTES = {False: 40, True: 48}  # of a message: reference, time, place, key; or value and range
SETTINGS = ("JM16", "JB8", "JB8-CR2", "JB8-CR4")
RATES = {"Q5": (4_000, 20_000, 40_000, 60_000), "Q7": (10_000, 30_000, 50_000), "Band": (200, 800, 1_600)}


def sent(scale: float) -> Figure:
    """11, 18, 19: bytes per second against the rate of both streams together."""
    series, errors = {}, []
    for query in QUERIES:
        work = workload(query, scale)
        for setting in SETTINGS:
            points = []
            for rate in RATES[query]:
                samples = list(run(work, setting, rate // 2, 1))
                if samples:
                    measured = samples[0].messages * TUPLE_BYTES[work.band]
                    points.append((rate, measured / 1e6))
                    errors.append(abs(measured / _expected(work, setting, rate) - 1))
            if points:
                series[f"{query} {setting}"] = points
    last = {setting: series[f"Q5 {setting}"][-1][1] for setting in SETTINGS}
    ours = {f"{setting} / JM16": last[setting] / last["JM16"] for setting in SETTINGS[1:]}
    return Figure(
        "11",
        "Random routing sends a quarter more than the matrix, subgroups send less",
        "tuples per second",
        "MB per second",
        series,
        ours,
        {},
        "The paper shows the order of the four curves, which is the same.",
        (at_most("bandwidth equals equations 5 and 6 (largest relative error)", max(errors), 1e-9),),
    )


def _expected(work: Workload, setting: str, rate: int) -> float:
    one = Stream(float(TUPLE_BYTES[work.band]), rate=rate // 2)
    if setting.startswith("JM"):
        return matrix_bandwidth(one, one, 4, 4)
    groups = int(setting.partition("-CR")[2] or 1)
    return biclique_bandwidth(one, one, 4, 4, groups, groups)


def views(scale: float) -> Figure:
    """13, 14: rows that units send to the merger, one per pair or one per group and batch."""
    single, batched = [], []
    for query in QUERIES:
        pairs, groups = _view_rows(workload(query, scale))
        single.append((query, float(pairs)))
        batched.append((query, float(groups)))
    saved = {query: pairs / groups for (query, pairs), (_, groups) in zip(single, batched, strict=True)}
    return Figure(
        "14",
        "Partial views per batch send far fewer rows than one update per pair",
        "query",
        "rows to the merger",
        {"one update per pair": single, "partial views per batch": batched},
        saved,
        {},
        "Groups are 25 nations, drawn by key; 10 batches of 20,000 tuples at 16 units.",
    )


def _view_rows(work: Workload) -> tuple[int, int]:
    schema = pa.schema({"nation": pa.int64(), "t": pa.timestamp("us", "UTC")})
    streams = {"r": StreamType(schema, "t"), "s": StreamType(schema, "t")}
    grouping = compile_query("select r.nation, count(*) as n from r, s group by r.nation", streams).grouping
    assert grouping is not None, "it has a GROUP BY"
    condition = work.condition(Window.full_history())
    router = router_of("JB16" if work.band else "JB16-CR4")
    assert isinstance(router, BicliqueRouter), "JB is a biclique"
    chain = ChainedIndex(ChainConfig("left", condition.window, condition.layout))
    pairs = groups = 0
    for begin in range(0, 100_000, 10_000):
        left, right = work.batch(begin, begin + 10_000)
        made = step(chain, left, right, None).pairs
        owner = router.route("left", left).store.group  # spreads pairs over units as their stored tuple is spread
        units = owner[made.left[:, 0] % len(owner)] if len(made) else np.zeros(0, np.int64)
        for unit in np.unique(units):
            nations = made.left[units == unit, 0] % 25
            groups += aggregate.partial(grouping, pa.record_batch({"r.nation": nations})).num_rows
        pairs += len(made)
    return pairs, groups
