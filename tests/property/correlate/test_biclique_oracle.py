"""Every condition, routing, window and number of units returns what the nested loop over the whole history returns."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from etl.correlate.biclique.elastic import ResourceManager
from etl.correlate.biclique.pipeline import Pipeline
from etl.correlate.biclique.routing import BicliqueRouter, MatrixRouter, Router
from etl.correlate.biclique.scaling import ScalingConfig
from etl.correlate.model import Window
from etl.correlate.query.compile import Query, compile_query
from tests.support.correlate_histories import (
    CONDITIONS,
    SECOND,
    STREAMS,
    WINDOWS,
    History,
    Log,
    Row,
    histories,
    micros,
    nested_loop,
    on_time,
)

SLOW = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def query_of(condition: str, window: str, select: str = "l.id as l, r.id as r") -> Query:
    sql, _ = CONDITIONS[condition]
    length, extra, _ = WINDOWS[window]
    within = None if length is None else Window.within(length)
    return compile_query(f"select {select} from l join r on {sql}{extra}", STREAMS, within=within)


@st.composite
def routers(draw: st.DrawFn, query: Query) -> Router:
    m, n, seed = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(0, 9))
    if draw(st.booleans()) and draw(st.booleans()):
        return MatrixRouter(m, n, seed)
    if not query.steps[0].condition.keys:
        return BicliqueRouter.of(m, n, seed=seed, equality=False)
    return BicliqueRouter.of(m, n, draw(st.integers(1, m)), draw(st.integers(1, n)), seed=seed)


def pairs_of(table: pa.Table) -> Counter[tuple[int, int]]:
    return Counter(zip(table["l"].to_pylist(), table["r"].to_pylist(), strict=True))


def expected(history: History, lateness: int, condition: str, window: str) -> Counter[tuple[int, int]]:
    kept = on_time(history, lateness)
    left = [row for batch in kept for row in batch["l"]]
    right = [row for batch in kept for row in batch["r"]]
    return nested_loop(left, right, CONDITIONS[condition][1], WINDOWS[window][2])


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("condition", CONDITIONS)
@given(data=st.data(), history=histories(), lateness=st.sampled_from([0, SECOND, 20 * SECOND]))
@settings(parent=SLOW, max_examples=6)
def test_a_biclique_returns_every_pair_of_the_nested_loop_once(
    condition: str, window: str, data: st.DataObject, history: History, lateness: int
) -> None:
    query = query_of(condition, window)
    log = Log()
    period = data.draw(st.sampled_from([None, SECOND // 2, 7 * SECOND]))
    pipeline = Pipeline.of(query, log.rows, [data.draw(routers(query))], lateness, period)
    found: Counter[tuple[int, int]] = Counter()
    late = 0
    for batch in history.batches:
        result = pipeline.process(log.append(batch))
        found += pairs_of(result.rows)
        late += sum(len(refs) for refs in result.late.values())
    assert found == expected(history, lateness, condition, window)
    sent = sum(len(many) for batch in history.batches for many in batch.values())
    assert late == sent - sum(len(many) for batch in on_time(history, lateness) for many in batch.values())


@given(history=histories(max_rows=12), lateness=st.sampled_from([SECOND, 20 * SECOND]), data=st.data())
@SLOW
def test_scaling_up_and_down_in_the_middle_loses_and_doubles_nothing(
    history: History, lateness: int, data: st.DataObject
) -> None:
    condition = data.draw(st.sampled_from(["equality", "band", "theta"]))
    window = data.draw(st.sampled_from(["full history", "sliding", "interval"]))
    query, log = query_of(condition, window), Log()
    pipeline = Pipeline.of(query, log.rows, [BicliqueRouter.of(2, 2, equality=False)], lateness)
    found: Counter[tuple[int, int]] = Counter()
    changed = 0
    for batch in history.batches:
        found += pairs_of(pipeline.process(log.append(batch)).rows)
        capacity = data.draw(st.sampled_from([200, 1_000, 100_000]))
        manager = ResourceManager(ScalingConfig(capacity, confirmations=1))
        changed += len(manager.observe(pipeline.joins[0]))
    assert found == expected(history, lateness, condition, window)


@given(history=histories(max_rows=6), lateness=st.sampled_from([SECOND, 20 * SECOND]), data=st.data())
@SLOW
def test_aggregates_equal_a_recomputation_after_every_batch(
    history: History, lateness: int, data: st.DataObject
) -> None:
    select = "l.k as k, count(*) as n, sum(r.x) as total, avg(r.d) as mean, min(r.x) as least, max(r.s) as greatest"
    sql = f"select {select} from l join r on abs(l.x - r.x) <= 1 group by l.k"
    query, log = compile_query(sql, STREAMS, within=Window.within(4 * SECOND)), Log()
    pipeline = Pipeline.of(query, log.rows, [data.draw(routers(query))], lateness)
    kept = on_time(history, lateness)
    by_id = {row["id"]: row for batch in history.batches for many in batch.values() for _, row in many}
    for number, batch in enumerate(history.batches):
        pipeline.process(log.append(batch))
        left = [row for one in kept[: number + 1] for row in one["l"]]
        right = [row for one in kept[: number + 1] for row in one["r"]]
        pairs = nested_loop(left, right, lambda a, b: None not in (a["x"], b["x"]) and abs(a["x"] - b["x"]) <= 1,
                            WINDOWS["sliding"][2])  # fmt: skip
        assert groups_of(pipeline.groups()) == recomputed(pairs, by_id)


def groups_of(table: pa.Table) -> dict[object, tuple[object, ...]]:
    return {row["k"]: (row["n"], row["total"], row["mean"], row["least"], row["greatest"]) for row in table.to_pylist()}


def recomputed(pairs: Counter[tuple[int, int]], by_id: dict[int, Row]) -> dict[object, tuple[object, ...]]:
    groups: dict[object, list[Row]] = {}
    for (a, b), times in pairs.items():
        groups.setdefault(by_id[a]["k"], []).extend([by_id[b]] * times)
    return {key: _aggregated(rows) for key, rows in groups.items()}


def _aggregated(rows: list[Row]) -> tuple[object, ...]:
    amounts = [row["d"] for row in rows if row["d"] is not None]
    texts = [row["s"] for row in rows if row["s"] is not None]
    numbers = [row["x"] for row in rows]
    mean = round(sum(amounts) / len(amounts), 6) if amounts else None
    return len(rows), sum(numbers), mean, min(numbers), max(texts, default=None)


@given(history=histories(max_rows=6), data=st.data())
@SLOW
def test_distinct_returns_each_row_once_over_the_whole_history(history: History, data: st.DataObject) -> None:
    query, log = query_of("equality", "sliding", "distinct l.k as l, r.s as r"), Log()
    pipeline = Pipeline.of(query, log.rows, [data.draw(routers(query))], 20 * SECOND)
    found: Counter[tuple[object, object]] = Counter()
    for batch in history.batches:
        found += pairs_of(pipeline.process(log.append(batch)).rows)
    by_id = {row["id"]: row for batch in history.batches for many in batch.values() for _, row in many}
    pairs = expected(history, 20 * SECOND, "equality", "sliding")
    assert found == Counter({(by_id[a]["k"], by_id[b]["s"]) for a, b in pairs})


THREE = {
    "chain": ("l.k = r.k and r.x = u.x", lambda a, b, c: same(a, b, "k") and same(b, c, "x")),
    "star": ("l.k = r.k and l.x = u.x", lambda a, b, c: same(a, b, "k") and same(a, c, "x")),
    "band": ("abs(l.x - r.x) <= 1 and r.k = u.k", lambda a, b, c: near(a, b) and same(b, c, "k")),
    "mixed": ("l.k = r.k and l.x + r.x > u.x", lambda a, b, c: same(a, b, "k") and above(a, b, c)),
}


def same(a: Row, b: Row, column: str) -> bool:
    return a[column] is not None and a[column] == b[column]


def near(a: Row, b: Row) -> bool:
    return None not in (a["x"], b["x"]) and abs(a["x"] - b["x"]) <= 1


def above(a: Row, b: Row, c: Row) -> bool:
    return None not in (a["x"], b["x"], c["x"]) and a["x"] + b["x"] > c["x"]


@pytest.mark.parametrize("shape", THREE)
@pytest.mark.parametrize("within", [None, 4 * SECOND])
@given(history=histories(("l", "r", "u"), max_rows=5), lateness=st.sampled_from([SECOND, 20 * SECOND]), data=st.data())
@settings(parent=SLOW, max_examples=15)
def test_three_streams_in_a_pipeline_return_every_triple_once(
    shape: str, within: int | None, history: History, lateness: int, data: st.DataObject
) -> None:
    sql, predicate = THREE[shape]
    select = "select l.id as l, r.id as r, u.id as u from l, r, u where "
    query = compile_query(select + sql, STREAMS, within=None if within is None else Window.within(within))
    log = Log(("l", "r", "u"))
    units = [data.draw(st.integers(1, 3)) for _ in range(4)]
    routers = [BicliqueRouter.of(units[0], units[1]), BicliqueRouter.of(units[2], units[3])]
    pipeline = Pipeline.of(query, log.rows, list(routers), lateness)
    found: Counter[tuple[int, ...]] = Counter()
    for batch in history.batches:
        rows = pipeline.process(log.append(batch)).rows
        found += Counter(zip(*(rows[name].to_pylist() for name in "lru"), strict=True))
    kept = on_time(history, lateness)
    first, second, third = ([row for batch in kept for row in batch[stream]] for stream in "lru")
    truth = Counter(
        (a["id"], b["id"], c["id"])
        for a in first for b in second for c in third
        if predicate(a, b, c) and (within is None or _spread(a, b, c) <= within)
    )  # fmt: skip
    assert found == truth


def _spread(*rows: Row) -> int:
    return max(map(micros, rows)) - min(map(micros, rows))
