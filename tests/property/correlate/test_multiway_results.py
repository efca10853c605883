"""Whatever the plan, and however often it changes: the results are those of the nested loop."""

from __future__ import annotations

import tempfile

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.correlate.multiway.planning.partition import HashPartitioner, RangePartitioner, TablePartitioner
from etl.correlate.multiway.planning.tree import MJoin, Node, PMJoin, Source, mjoin
from etl.correlate.multiway.query import Filter, JoinQuery, TupleWindow, bits
from tests.support.multiway_oracle import nested_loop
from tests.support.multiway_worlds import SCHEMA, SECOND, SITES, World, query, seconds, stream

GRAPHS = {
    "one attribute": [("a.x", "b.x"), ("b.x", "c.x")],
    "four on one": [("a.x", "b.y"), ("b.y", "c.x"), ("c.x", "d.x")],
    "chain": [("a.x", "b.x"), ("b.y", "c.y"), ("c.x", "d.x")],
    "two at once": [("a.x", "b.x"), ("a.t", "b.t"), ("b.y", "c.y")],
    "text": [("a.t", "b.t"), ("b.t", "c.t")],
    "within a stream": [("a.x", "b.x"), ("a.y", "b.x"), ("b.y", "c.x")],
}


@st.composite
def queries(draw: st.DrawFn, root: str) -> JoinQuery:
    on = GRAPHS[draw(st.sampled_from(sorted(GRAPHS)))]
    names = sorted({side.split(".")[0] for pair in on for side in pair})
    windows = st.one_of(st.integers(1, 6).map(seconds), st.integers(1, 4).map(TupleWindow))
    filters = st.sampled_from([(), (Filter("y", ">=", 1),), (Filter("t", "!=", "p"),)])
    streams = [stream(name, draw(st.sampled_from(SITES)), draw(windows), *draw(filters)) for name in names]
    target, lateness = draw(st.sampled_from([None, *SITES])), draw(st.sampled_from([0, 1, 100]))
    return query(streams, on, target, lateness, root)


@st.composite
def trees(draw: st.DrawFn, asked: JoinQuery, inputs: tuple[Node, ...]) -> Node:
    """Any tree over the inputs whose operators are connected."""
    items = list(inputs)
    while len(items) > 1:
        chosen = [items.pop(draw(st.integers(0, len(items) - 1)))]
        for _ in range(draw(st.integers(1, len(items)))):
            held = sum(one.streams for one in chosen)
            near = [one for one in items if any(asked.neighbours[i] & one.streams for i in bits(held))]
            if near:
                chosen.append(draw(st.sampled_from(near)))
                items.remove(chosen[-1])
        items.append(mjoin(draw(st.sampled_from(SITES)), tuple(chosen)))
    return items[0]


@st.composite
def plans(draw: st.DrawFn, asked: JoinQuery) -> Node:
    sources: tuple[Node, ...] = tuple(Source(1 << i, one.site) for i, one in enumerate(asked.streams))
    plan = draw(trees(asked, sources))
    if not draw(st.booleans()):
        return plan
    return _partitioned(draw, asked, plan)


def _partitioned(draw: st.DrawFn, asked: JoinQuery, node: Node) -> Node:
    """Some operators whose inputs all have one attribute become PMJoins, with any plan for each partition."""
    if not isinstance(node, MJoin):
        return node
    for number, attribute in enumerate(asked.attributes):
        inside = all(attribute.members & child.streams for child in node.children)
        shared = sum(
            sum(bool(other.members & child.streams) for child in node.children) > 1 for other in asked.attributes
        )
        if inside and shared == 1 and draw(st.booleans()):
            partitioner = draw(
                st.sampled_from([HashPartitioner(3), RangePartitioner((1, 2)), TablePartitioner((0, 2), (1, 2), 0, 3)])
            )
            sources = tuple(Source(one.streams, one.site) for one in node.children)  # type: ignore[union-attr]
            each = tuple(draw(trees(asked, sources)) for _ in range(3))
            return PMJoin(number, partitioner, node.children, each)
    return MJoin(node.site, (*(_partitioned(draw, asked, one) for one in node.children[:-1]), node.children[-1]))


@st.composite
def batches(draw: st.DrawFn, asked: JoinQuery, number: int) -> dict[int, pa.Table]:
    made = {}
    for i in range(len(asked.streams)):
        size = draw(st.integers(0, 5))
        at = [SECOND * (3 * number + draw(st.integers(-2, 4))) for _ in range(size)]
        small = st.integers(0, 2)
        columns = [
            [100 * number + place for place in range(size)], at,
            [draw(st.one_of(small, st.none())) if draw(st.booleans()) else 1 for _ in range(size)],
            [draw(small) for _ in range(size)], [draw(st.sampled_from("pqr")) for _ in range(size)],
        ]  # fmt: skip
        made[i] = pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
    return made


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_results_are_those_of_the_nested_loop_whatever_the_plan_and_its_changes(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as root:
        asked = data.draw(queries(root))
        check(data, World(asked, root))


def check(data: st.DataObject, world: World) -> None:
    asked = world.query
    for number in range(data.draw(st.integers(1, 5))):
        plan = data.draw(plans(asked)) if number == 0 or data.draw(st.integers(0, 2)) == 0 else None
        world.feed(data.draw(batches(asked, number)), plan)
        if data.draw(st.booleans()):
            world.run()
        if data.draw(st.integers(0, 4)) == 0:
            world.restart()
    report = world.run()
    assert report.waiting == []
    assert world.results() == nested_loop(asked, world.history)
