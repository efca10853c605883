"""Every query's rows equal those of the query run alone, whatever happens beside it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from etl.correlate.adhoc.optimize.optimizer import Optimizer
from etl.correlate.adhoc.optimize.statistics import sample_streams
from etl.correlate.adhoc.plan import plan_as_data, plan_from_data
from etl.correlate.adhoc.query.model import Query
from etl.correlate.adhoc.run.changes.changelog import Changelog
from etl.correlate.adhoc.run.changes.partitioning import even
from etl.correlate.adhoc.run.engine import AdhocJoin, SlotResult
from etl.correlate.adhoc.run.sinks.result import finalise, merge_partials
from tests.support.adhoc_histories import random_plan, random_query, random_slot
from tests.support.adhoc_oracle import STREAMS, Slot, answer, tables


def got(query: Query, parts: list[SlotResult]) -> Counter[tuple[Any, ...]]:
    if query.materialises:
        found = [part.rows[query.name].to_table() for part in parts if query.name in part.rows]
    else:
        merged = merge_partials(query, [p.partials[query.name] for p in parts if query.name in p.partials])
        found = [] if merged is None else [finalise(query, merged)]
    averages = {at for at, each in enumerate(query.outputs) if getattr(each, "kind", "") == "avg"}
    rows: Counter[tuple[Any, ...]] = Counter()
    for table in found:
        columns = [column.to_pylist() for column in table.columns]
        for at in averages:
            columns[at] = [None if v is None else round(v, 6) for v in columns[at]]
        rows.update(zip(*columns, strict=True))
    return rows


def change(random: Random, engine: AdhocJoin, serial: int) -> Changelog:
    """Some queries come, some go; sometimes the plan or the number of tasks changes."""
    create = tuple(random_query(random, f"q{serial}_{n}") for n in range(random.choice([0, 0, 1, 2, 3])))
    names = sorted(engine.running)
    delete = tuple(random.sample(names, min(len(names), random.choice([0, 0, 0, 1, 2]))))
    live = [each.query for name, each in engine.running.items() if name not in delete] + list(create)
    plan = random_plan(random, live) if random.random() < 0.4 else None
    return Changelog(create, delete, plan, even(random.randint(1, 4)) if random.random() < 0.3 else None)


def planned(random: Random, engine: AdhocJoin, optimizer: Optimizer, changes: Changelog, last: Slot) -> Changelog:
    """The same changes with the optimizer's plan: eager, then sometimes by cost."""
    plan, _ = optimizer.change(engine.next_slot, changes.create, changes.delete)
    if random.random() < 0.5:
        statistics = sample_streams(STREAMS, optimizer.state.queries, tables(last), seed=1)
        plan, _ = optimizer.reoptimize(engine.next_slot, statistics)
    return replace(changes, plan=plan_from_data(json.loads(json.dumps(plan_as_data(plan)))))


def run(random: Random, *, late: bool, slots: int = 6) -> None:
    engine = AdhocJoin(STREAMS, late=late, tasks=random.randint(1, 3))
    optimizer = Optimizer() if random.random() < 0.5 else None
    history: dict[int, Slot] = {}
    for slot in range(slots):
        history[slot] = random_slot(random)
        changes = change(random, engine, slot)
        engine.apply(planned(random, engine, optimizer, changes, history[slot]) if optimizer else changes)
        if random.random() < 0.3:  # a failure: everything in memory is lost but the snapshot
            engine = AdhocJoin.restore(STREAMS, engine.snapshot(), late=late)
        engine.ingest(slot, tables(history[slot]))
        if random.random() < 0.3:  # a failure after the slot was ingested and before its results were
            engine = AdhocJoin.restore(STREAMS, engine.snapshot(), late=late)
        if random.random() < 0.4:
            oldest = engine.history.needed(slot, 3)
            parts = [engine.results(task) for task in range(max(each.tasks for each in oldest))]
        else:
            parts = [engine.results()]
        for each in engine.running.values():
            assert got(each.query, parts) == answer(each.query, history, slot, each.created), each.query.sql


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32))
def test_every_query_gets_what_it_gets_alone(seed: int) -> None:
    run(Random(seed), late=True)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_joins_that_multiply_out_at_every_step_give_the_same(seed: int) -> None:
    run(Random(seed), late=False)
