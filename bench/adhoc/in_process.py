"""Runs of the engine in this process: overall tuples per second by number of queries, against DuckDB query by query."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import pyarrow as pa

from bench.adhoc.workload import ATTRIBUTE_MAX, STREAMS, QueryShape, make_queries, make_slot
from etl.correlate.adhoc.optimize.optimizer import Optimizer, OptimizerConfig
from etl.correlate.adhoc.optimize.statistics import sample_streams
from etl.correlate.adhoc.plan import Choice, Plan
from etl.correlate.adhoc.query.model import Query
from etl.correlate.adhoc.query.parse import parse_query
from etl.correlate.adhoc.run.changes.changelog import Changelog
from etl.correlate.adhoc.run.engine import AdhocJoin

Row = dict[str, Any]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Run:
    """One measured setting."""

    queries: int
    rows: int  # tuples per stream and slot
    shape: QueryShape = field(default_factory=QueryShape)
    slots: int = 4
    warm_up: int = 3
    seed: int = 7
    config: OptimizerConfig = field(default_factory=OptimizerConfig)
    late: bool = True
    keys: int = ATTRIBUTE_MAX  # distinct values of a join attribute
    groups: int | None = None  # None: as the optimizer groups the queries


def build_engine(run: Run) -> tuple[AdhocJoin, list[Query], Row]:
    """All queries created at once, planned by cost; how long planning took, and the plan's cost."""
    queries = make_queries(run.queries, run.shape, run.seed)
    engine = AdhocJoin(STREAMS, late=run.late)
    optimizer = Optimizer(run.config)
    start = time.perf_counter()
    optimizer.change(0, queries, [])
    sampled = sample_streams(
        STREAMS, {q.name: q for q in queries}, make_slot(1_000_000, run.rows, run.seed, run.keys), run.seed
    )
    plan, decisions = optimizer.reoptimize(0, sampled)
    if run.groups is not None:
        plan = _grouped(plan, run.groups)
    engine.apply(Changelog(create=tuple(queries), plan=plan))
    return engine, queries, {"planning_s": time.perf_counter() - start, "plan_cost": decisions[-1].numbers["cost"]}


def _grouped(plan: Plan, groups: int) -> Plan:
    """The same join orders, with queries dealt out to so many groups."""
    return Plan(
        {name: Choice(choice.tree, dict.fromkeys(choice.groups, at % groups))
         for at, (name, choice) in enumerate(plan.choices.items())}
    )  # fmt: skip


def measure(run: Run) -> Row:
    """Seconds per slot once windows are full, and the tuples per second of all queries together."""
    engine, queries, planning = build_engine(run)
    seconds, cpu, results = [], [], 0
    for slot in range(run.warm_up + run.slots):
        tables = make_slot(slot, run.rows, run.seed, run.keys)
        start, worked = time.perf_counter(), time.process_time()
        found = engine.step(slot, tables)
        made = sum(rows.to_table().num_rows for rows in found.rows.values())  # the sink's materialisation
        if slot >= run.warm_up:
            seconds.append(time.perf_counter() - start)
            cpu.append(time.process_time() - worked)
            results += made
    median = statistics.median(seconds)
    state = engine.state_bytes
    return {
        "queries": run.queries, "ways": run.shape.ways, "rows_per_slot": run.rows, "seconds_per_slot": median,
        "cpu_seconds_per_slot": statistics.median(cpu),
        "overall_tuples_per_s": overall(queries, run.rows) / median, **planning,
        "tuple_bytes": state["tuples"], "index_bytes": state["indexes"], "shared_bytes": state["shared"],
        "bytes_per_query": sum(state.values()) / run.queries, "rows_out": results,
        "groups": len(engine.plan.components()),
    }  # fmt: skip


def overall(queries: list[Query], rows: int) -> int:
    """Tuples of one slot as the paper counts them: every query's own input."""
    return sum(len(query.streams) * rows for query in queries)


def duck_seconds(run: Run, most: int = 3) -> Row:
    """The same results, query by query, in DuckDB: what is new in the slot. Of many queries a few are run."""
    queries = make_queries(run.queries, run.shape, run.seed)
    chosen = queries[:: max(1, len(queries) // most)][:most]
    slots = {slot: make_slot(slot, run.rows, run.seed) for slot in range(4)}
    connection = duckdb.connect()
    connection.execute("set enable_progress_bar = false")
    for name in STREAMS:
        parts = [slots[at][name].append_column("slot", pa.array([at] * run.rows)) for at in slots]
        connection.register(f"{name}_arrow", pa.concat_tables(parts))
        connection.execute(f"create table {name} as select * from {name}_arrow")
    start = time.perf_counter()
    for query in chosen:
        connection.sql(duck_sql(query, newest=3)).to_arrow_table()
    spent = (time.perf_counter() - start) / len(chosen) * len(queries)
    return {
        "seconds_per_slot": spent,
        "overall_tuples_per_s": overall(queries, run.rows) / spent,
        "measured": len(chosen),
    }


def duck_sql(query: Query, newest: int) -> str:
    """One branch per stream that is new: it, older tuples of the streams before it, any of the streams after it."""
    branches = []
    for at in range(len(query.streams)):
        limits = []
        for other, stream in enumerate(query.streams):
            last = newest - 1 if other < at else newest
            first = newest if other == at else newest - query.window + 1
            limits.append(f"{stream}.slot between {first} and {last}")
        branches.append(f"{query.sql} and {' and '.join(limits)}")
    return " union all ".join(branches)


_PARTS = {
    "everything": (OptimizerConfig(), True),
    "no grouping": (OptimizerConfig(grouping=False), True),
    "no reordering": (OptimizerConfig(reordering=False), True),
    "no late materialisation": (OptimizerConfig(), False),
}


def ablations(say: Say, run: Run, parts: tuple[str, ...], seeds: tuple[int, ...] = (7, 8, 9)) -> list[Row]:
    """Figures 21 and 22: one part switched off at a time, over workloads of several seeds.

    All settings take a slot before any takes the next one, and CPU seconds are compared: other programs disturb both
    least.
    """
    names = ("everything", *parts)
    engines = {(name, seed): build_engine(_switched(run, name, seed)) for name in names for seed in seeds}
    cpu: dict[str, list[float]] = {name: [] for name in names}
    for slot in range(run.warm_up + run.slots):
        tables = {seed: make_slot(slot, run.rows, seed, run.keys) for seed in seeds}
        for name in names:
            start = time.process_time()
            for seed in seeds:
                found = engines[name, seed][0].step(slot, tables[seed])
                sum(rows.to_table().num_rows for rows in found.rows.values())  # the sink's materialisation
            cpu[name].append(time.process_time() - start)
    found_rows = []
    for name in names:
        spent, all_spent = (statistics.median(cpu[one][run.warm_up :]) for one in (name, "everything"))
        cost = sum(engines[name, seed][2]["plan_cost"] for seed in seeds)
        row = {
            "setting": name, "queries": run.queries, "ways": run.shape.ways, "rows_per_slot": run.rows,
            "workloads": len(seeds), "cpu_seconds_per_slot": spent, "times_everything": spent / all_spent,
            "plan_cost": cost, "groups": sum(len(engines[name, seed][0].plan.components()) for seed in seeds),
        }  # fmt: skip
        found_rows.append(row)
        say(f"{name:24s} {spent:.3f} CPU s a slot, {spent / all_spent:.2f} times all's, plan cost {cost:,.0f}")
    return found_rows


def _switched(run: Run, name: str, seed: int) -> Run:
    config, late = _PARTS[name]
    return replace(run, seed=seed, config=config, late=late)


def idle_queries(say: Say, idle: int = 990, rows: int = 10_000) -> Row:
    """Many queries, ten of them awake, against ten alone."""
    awake = make_queries(10, QueryShape(), seed=3)
    asleep = make_queries(idle, QueryShape(), seed=4)
    asleep = [asleep_query(query, at) for at, query in enumerate(asleep)]
    seconds = {}
    for name, queries in (("ten", awake), ("thousand", awake + asleep)):
        engine, optimizer = AdhocJoin(STREAMS), Optimizer()
        optimizer.change(0, queries, [])
        sampled = sample_streams(STREAMS, {q.name: q for q in queries}, make_slot(99, rows, 1), 1)
        engine.apply(Changelog(create=tuple(queries), plan=optimizer.reoptimize(0, sampled)[0]))
        spent = []
        for slot in range(24):
            tables = make_slot(slot, rows, 1)
            start = time.process_time()
            engine.step(slot, tables)
            spent.append(time.process_time() - start)
        seconds[name] = min(spent[4:])  # the slot that other programs disturbed least
    ratio = seconds["thousand"] / seconds["ten"]
    say(
        f"{idle + 10} queries, ten awake: {seconds['thousand']:.4f} CPU s a slot, "
        f"ten alone {seconds['ten']:.4f}, {ratio:.2f} times"
    )
    return {"idle": idle, "seconds_ten": seconds["ten"], "seconds_thousand": seconds["thousand"], "ratio": ratio}


def asleep_query(query: Query, at: int) -> Query:
    """The same query with a selection that no tuple passes."""
    stream = query.streams[0]
    return parse_query(f"idle{at}", f"{query.sql} and {stream}.a{at % 6} > {600 + at}", query.window, STREAMS)
