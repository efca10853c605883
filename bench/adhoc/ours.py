"""Ours through Spark: whole micro-batches for 1 to 500 queries, with queries that come and go, and with idle ones."""

from __future__ import annotations

import itertools
import multiprocessing
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from bench.adhoc.in_process import asleep_query, overall
from bench.adhoc.site import Ours, People, declared, slot_files
from bench.adhoc.workload import STREAMS, QueryShape, make_queries
from bench.measured import progress
from etl.correlate.adhoc.query.model import Query
from etl.settings import Settings
from etl.spark.correlate import SparkCorrelations
from etl.spark.session import spark_session
from etl.stack.postgres import embedded_postgres

Row = dict[str, Any]
WARM_UP, MEASURED = 4, 4
_SPAWN = multiprocessing.get_context("spawn")  # a fork would hold the connections of Spark
_READY_WITHIN_S = 60


@contextmanager
def opened(home: Path) -> Iterator[Ours]:
    settings = declared(home)
    with embedded_postgres(settings) as dsn, spark_session(settings) as spark:
        yield Ours(settings, dsn, SparkCorrelations(spark))


def batches(ours: Ours, data: Path, rows: int, count: int, read: Iterable[Query] | None = None) -> list[Row]:
    """Some micro-batches, one after the other, of all streams or of those that queries read."""
    names = set(STREAMS) if read is None else {stream for query in read for stream in query.streams}
    found = []
    for _ in range(count):
        files = slot_files(data, ours.slot, rows)
        ours.land({name: path for name, path in files.items() if name in names})
        found.append(ours.run())
    return found


def parallel(home: Path, options: Row) -> Iterator[Row]:
    """Figure 15: overall tuples per second by number of queries. The site goes on; queries are exchanged."""
    rows, data, shape = options["rows"], Path(options["data"]), QueryShape(**options.get("shape", {}))
    with opened(home) as ours:
        for count in options["counts"]:
            queries = make_queries(count, shape, 7)
            ours.create(queries, prefix=f"n{count}_")
            batches(ours, data, rows, WARM_UP, queries)
            row = _row("ours", count, queries, rows, batches(ours, data, rows, MEASURED, queries))
            progress(_line(row))
            yield row
            ours.delete([f"n{count}_{one.name}" for one in queries])


def _row(series: str, count: int, queries: list[Query], rows: int, measured: list[Row]) -> Row:
    seconds = statistics.median(one["wall_s"] for one in measured)
    last, steps = measured[-1], {"ingest": 0.0, "correlate": 0.0, "load": 0.0}
    for name in steps:
        steps[name] = statistics.median(one["seconds"][name] for one in measured)
    held = last["queries"]["bytes"]
    return {
        "figure": "15", "series": series, "queries": count, "seconds_per_batch": round(seconds, 4),
        "overall_tuples_per_s": round(overall(queries, rows) / seconds, 1), "rows_per_slot": rows,
        "joins_s": round(statistics.median(one["queries"]["seconds"] for one in measured), 4),
        **{f"{name}_s": round(value, 4) for name, value in steps.items()},
        "bytes_per_query": round(sum(held.values()) / count), "tuple_bytes": held["tuples"],
        "index_bytes": held["indexes"], "rows_out": sum(last["queries"]["rows"].values()),
    }  # fmt: skip


def _line(row: Row) -> str:
    return (
        f"{row['series']}: {row['queries']} queries, {row['seconds_per_batch']:.2f} s a micro-batch, "
        f"{row['overall_tuples_per_s'] / 1e6:.2f} M tuples/s overall"
    )


def changes(home: Path, options: Row) -> Iterator[Row]:
    """What ten changes a second cost the others: another process creates and deletes while batches run."""
    rows, data, steady = options["rows"], Path(options["data"]), make_queries(options["queries"], QueryShape(), 7)
    with opened(home) as ours:
        ours.create(steady, prefix="steady_")
        batches(ours, data, rows, WARM_UP)
        quiet = batches(ours, data, rows, MEASURED)
        stop, made = _SPAWN.Event(), _SPAWN.Value("i", 0)
        people = _begun(_changing, ours, stop, made, options["per_s"])
        began = time.perf_counter()
        try:
            batches(ours, data, rows, 1)
            busy = batches(ours, data, rows, 2 * MEASURED)
        finally:
            rate = made.value / (time.perf_counter() - began)
            stop.set()
            people.join()
        batches(ours, data, rows, 1)
        latencies = ours.deployments()
    before, after = (statistics.median(one["wall_s"] for one in some) for some in (quiet, busy))
    took = [one["deployment_s"] for one in latencies if one["name"].startswith("changing_")]
    progress(f"ten changes a second: {after:.2f} s a micro-batch, {before:.2f} s without; {rate:.1f} a second")
    yield {
        "figure": "changes", "series": "ours", "changes": made.value, "changes_per_s": round(rate, 2),
        "seconds_quiet": round(before, 4),
        "seconds_changing": round(after, 4), "throughput_ratio": round(before / after, 4),
        "deployment_s_median": round(statistics.median(took), 4), "deployment_s_most": round(max(took), 4),
        "batches_waited_most": max(one["batches_waited"] for one in latencies),
    }  # fmt: skip


def _begun(work: Callable[..., None], ours: Ours, *given: object) -> BaseProcess:
    """Somebody at work in a process of their own, as users are; begun when this returns."""
    ready = _SPAWN.Event()
    people = _SPAWN.Process(target=work, args=(ours.settings, ours.dsn, ready, *given), daemon=True)
    people.start()
    if not ready.wait(_READY_WITHIN_S):
        raise RuntimeError(f"nobody was ready to ask for queries within {_READY_WITHIN_S} s")
    return people


def _changing(settings: Settings, dsn: str, ready: Event, stop: Event, made: Synchronized[int], per_s: int) -> None:
    """So many requests a second: one created, one deleted, in turn, so that as many run all the time."""
    people, queries, last = People(settings, dsn), make_queries(10_000, QueryShape(), 99), ""
    ready.set()
    for due in _rhythm(per_s):
        if stop.wait(max(0.0, due - time.perf_counter())):
            return
        if last:
            people.delete([last])
            last = ""
        else:
            query = queries[made.value]
            people.create([query], prefix="changing_")
            last = f"changing_{query.name}"
        made.value += 1


def deployment(home: Path, options: Row) -> Iterator[Row]:
    """Figure 18b: SC1, queries come at a rate until so many run in parallel. How long each waits for its effect."""
    rows, data = options["rows"], Path(options["data"])
    with opened(home) as ours:
        batches(ours, data, rows, WARM_UP)
        for ways in options["ways"]:
            for per_s, parallel in options["rates"]:
                queries = make_queries(parallel, QueryShape(ways=ways, selectivity=0.5), 7)
                prefix = f"w{ways}_r{per_s}_"
                people = _begun(_coming, ours, queries, prefix, per_s)
                ran = []
                while people.is_alive():
                    ran += batches(ours, data, rows, 1)
                ran += batches(ours, data, rows, 1)
                people.join()
                took = [one["deployment_s"] for one in ours.deployments() if one["name"].startswith(prefix)]
                row = {
                    "figure": "18b", "series": f"{per_s} a second until {parallel}", "x": ways, "queries": len(took),
                    "deployment_s_mean": round(statistics.mean(took), 4), "deployment_s_most": round(max(took), 4),
                    "seconds_per_batch": round(statistics.median(one["wall_s"] for one in ran), 4),
                }  # fmt: skip
                progress(f"{ways}-way, {row['series']}: in effect after {row['deployment_s_mean']:.2f} s")
                yield row
                ours.delete([f"{prefix}{one.name}" for one in queries])


def _coming(settings: Settings, dsn: str, ready: Event, queries: list[Query], prefix: str, per_s: int) -> None:
    """Requests at an even rate, one after the other."""
    people, pause = People(settings, dsn), threading.Event()
    ready.set()
    for due, query in zip(_rhythm(per_s), queries, strict=False):
        pause.wait(max(0.0, due - time.perf_counter()))
        people.create([query], prefix=prefix)


def _rhythm(per_s: int) -> Iterator[float]:
    """When each request is due: who was held up is not asked for less."""
    start = time.perf_counter()
    return (start + number / per_s for number in itertools.count(1))


def idle(home: Path, options: Row) -> Iterator[Row]:
    """Many queries, ten of them awake, against ten alone: micro-batches of ten thousand tuples."""
    rows, data = options["rows"], Path(options["data"])
    awake = make_queries(10, QueryShape(), 3)
    asleep = [asleep_query(query, at) for at, query in enumerate(make_queries(options["idle"], QueryShape(), 4))]
    with opened(home) as ours:
        ours.create(awake, prefix="awake_")
        batches(ours, data, rows, WARM_UP + 2)
        ten = min(one["wall_s"] for one in batches(ours, data, rows, 2 * MEASURED))
        ours.create(asleep, prefix="")
        batches(ours, data, rows, WARM_UP + 2)
        thousand = min(one["wall_s"] for one in batches(ours, data, rows, 2 * MEASURED))
    progress(f"ten queries {ten:.2f} s a micro-batch, with {len(asleep)} idle ones {thousand:.2f} s")
    yield {
        "figure": "idle", "series": "ours", "idle": len(asleep), "seconds_ten": round(ten, 4),
        "seconds_thousand": round(thousand, 4), "ratio": round(thousand / ten, 4),
    }  # fmt: skip
