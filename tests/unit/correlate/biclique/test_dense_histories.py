"""Dense histories: few keys, times that touch the window's ends, tuples that alternate in the global order.

Where hypothesis looks for odd shapes, these make every off-by-one in order, window and expiry show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from etl.correlate.biclique.join import BicliqueJoin
from etl.correlate.biclique.pipeline import Arrivals, Pipeline
from etl.correlate.biclique.routing import BicliqueRouter, MatrixRouter, Router
from etl.correlate.model import I64, Tuples, Window, references
from etl.correlate.query.compile import StreamType, compile_query
from etl.correlate.query.condition import Condition
from etl.correlate.rows import MemoryRows
from etl.correlate.watermark import Watermark

WINDOWS = {"sliding": Window(-6, 6), "interval": Window(-2, 5), "ahead": Window(3, 7), "full": Window.full_history()}
ROUTERS: dict[str, Router] = {
    "random": BicliqueRouter.of(3, 2),
    "contrand": BicliqueRouter.of(4, 3, 2, 3),
    "hash": BicliqueRouter.of(2, 3, 2, 3),
    "matrix": MatrixRouter(2, 3),
}
Holds = Callable[[tuple[int, int], tuple[int, int], tuple[int, int]], bool]
STREAM = StreamType(pa.schema({"k": pa.int64(), "t": pa.timestamp("us", "UTC")}), "t")


def condition(layout: str, window: Window) -> Condition:
    on = {"hash": "l.k = r.k", "sorted": "abs(l.k - r.k) <= 1", "block": "true"}[layout]
    return (
        compile_query(f"select l.k as k from l join r on {on}", {"l": STREAM, "r": STREAM}, within=window)
        .steps[0]
        .condition
    )


def batch(rng: np.random.Generator, layout: str, number: int, side: int, order: I64) -> Tuples:
    count = len(order)
    keys, times = rng.integers(0, 3, count), number * 4 + rng.integers(-4, 4, count)
    refs = references(2 * number + side, np.arange(count))
    if layout == "hash":
        return Tuples(refs, times, order, keys.astype(np.uint64))
    return Tuples(refs, times, order, value=keys, low=keys - 1, high=keys + 1)


def truth(layout: str, window: Window, left: Tuples, right: Tuples) -> Counter[tuple[int, int]]:
    """The nested loop, as one comparison of everything with everything."""
    distance = right.times[None, :] - left.times[:, None]
    meets = np.ones(distance.shape, bool)
    if window.lower_us is not None and window.upper_us is not None:
        meets = (distance >= window.lower_us) & (distance <= window.upper_us)
    if layout == "hash":
        meets &= left.lo[:, None] == right.lo[None, :]
    elif layout == "sorted":
        meets &= abs(left.value[:, None] - right.value[None, :]) <= 1
    rows, columns = np.nonzero(meets)
    return Counter(zip(left.refs[rows, 0].tolist(), right.refs[columns, 0].tolist(), strict=True))


KEYED = [("hash", routing) for routing in ROUTERS]
KEYLESS = [(layout, routing) for layout in ("sorted", "block") for routing in ("random", "matrix")]


@pytest.mark.parametrize(("layout", "routing"), [*KEYED, *KEYLESS])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("lateness", [0, 5])
def test_every_pair_that_is_on_time_is_made_once(layout: str, window: str, routing: str, lateness: int) -> None:
    rng = np.random.default_rng(len(layout) * 100 + lateness)
    join = BicliqueJoin(condition(layout, WINDOWS[window]), ROUTERS[routing], period_us=2)
    marks, kept, found = [Watermark(lateness), Watermark(lateness)], ([], []), Counter[tuple[int, int]]()
    for number in range(8):
        order = rng.permutation(24)
        sent = [batch(rng, layout, number, side, order[side * 12 : side * 12 + 12]) for side in (0, 1)]
        on_time = [mark.split(tuples)[0] for mark, tuples in zip(marks, sent, strict=True)]
        marks = [mark.advanced(tuples.times) for mark, tuples in zip(marks, sent, strict=True)]
        pairs = join.process(on_time[0], on_time[1], (marks[0].value, marks[1].value)).pairs
        found += Counter(zip(pairs.left[:, 0].tolist(), pairs.right[:, 0].tolist(), strict=True))
        for stream, tuples in zip(kept, on_time, strict=True):
            stream.append(tuples)
    left, right = (Tuples.concat(stream) for stream in kept)
    assert found == truth(layout, WINDOWS[window], left, right)
    every = len(left) + len(right) if routing != "matrix" else 3 * len(left) + 2 * len(right)
    stored = sum(len(chain) for chain in join.chains.values())
    assert stored < every if WINDOWS[window].bounded else stored == every


INTERVALS = "abs(a.t - b.t) <= interval 6 microseconds and abs(b.t - c.t) <= interval 6 microseconds"
SHAPES: dict[str, tuple[Window | None, Holds]] = {
    "a.k = b.k and b.k = c.k": (Window.within(6), lambda a, b, c: a[0] == b[0] == c[0] and spread(a, b, c) <= 6),
    "a.k = b.k and abs(b.k - c.k) <= 1": (
        Window.within(6),
        lambda a, b, c: a[0] == b[0] and abs(b[0] - c[0]) <= 1 and spread(a, b, c) <= 6,
    ),
    "a.k = c.k and b.k < c.k": (
        Window.within(6),
        lambda a, b, c: a[0] == c[0] and b[0] < c[0] and spread(a, b, c) <= 6,
    ),
    f"a.k = b.k and b.k = c.k and {INTERVALS}": (
        None,
        lambda a, b, c: a[0] == b[0] == c[0] and spread(a, b) <= 6 and spread(b, c) <= 6,
    ),
}


def spread(*tuples: tuple[int, int]) -> int:
    return max(time for _, time in tuples) - min(time for _, time in tuples)


@pytest.mark.parametrize("lateness", [0, 5])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_triple_that_is_on_time_is_made_once(shape: str, lateness: int) -> None:
    rng = np.random.default_rng(7 + lateness)
    names, within = ("a", "b", "c"), SHAPES[shape][0]
    select = "select a.k as k, a.t as t, b.t as u, c.t as v, b.k as l, c.k as m from a, b, c where "
    query = compile_query(select + shape, dict.fromkeys(names, STREAM), within=within)
    rows = {name: MemoryRows(STREAM.schema) for name in names}
    pipeline = Pipeline.of(query, rows, [BicliqueRouter.of(2, 1), BicliqueRouter.of(1, 2)], lateness, period_us=2)
    found, kept = Counter[tuple[int, ...]](), {name: list[tuple[int, int]]() for name in names}
    largest = dict.fromkeys(names, -(10**6))
    for number in range(8):
        order, arrivals = rng.permutation(24), {}
        for position, name in enumerate(names):
            keys, times = rng.integers(0, 3, 8), 100 + number * 4 + rng.integers(-4, 4, 8)
            record = pa.record_batch(
                [pa.array(keys), pa.array(times).cast(STREAM.schema.field("t").type)], STREAM.schema
            )
            segment = number * 3 + position
            rows[name].append(segment, record)
            arrivals[name] = Arrivals(record, references(segment, np.arange(8)), order[position * 8 : position * 8 + 8])
            late = largest[name] - lateness
            kept[name] += [(int(k), int(t)) for k, t in zip(keys, times, strict=True) if t >= late]
            largest[name] = max(largest[name], int(times.max()))
        table = pipeline.process(arrivals).rows
        columns = [table[name].cast(pa.int64()).to_pylist() for name in ("k", "t", "l", "u", "m", "v")]
        found += Counter(zip(*columns, strict=True))
    holds = SHAPES[shape][1]
    assert found == Counter(
        (*a, *b, *c) for a in kept["a"] for b in kept["b"] for c in kept["c"] if holds(a, b, c)
    )  # fmt: skip
