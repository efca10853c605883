"""What the engine shares, keeps and forgets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from etl.correlate.adhoc.errors import BucketsOutOfOrder, SnapshotRefused
from etl.correlate.adhoc.optimize.optimizer import Optimizer
from etl.correlate.adhoc.plan import Choice, Plan, left_deep
from etl.correlate.adhoc.query.model import Query
from etl.correlate.adhoc.query.parse import parse_query
from etl.correlate.adhoc.run.changes.changelog import Changelog
from etl.correlate.adhoc.run.components import Running
from etl.correlate.adhoc.run.engine import AdhocJoin
from etl.correlate.adhoc.run.joins.bucket import When
from etl.correlate.adhoc.run.sinks.result import finalise, merge_partials
from tests.support.adhoc_oracle import STREAMS, Row, tables


def query(name: str, sql: str, window: int = 1) -> Query:
    return parse_query(name, sql, window, STREAMS)


def vw(name: str, window: int = 1, where: str = "") -> Query:
    return query(name, f"select V.vid, W.usr from V, W where V.vid = W.vid {where}", window)


def v(vid: int, **more: Any) -> Row:
    return {"vid": vid, "length": 1, "geo": "US", "price": None, **more}


def w(vid: int, usr: int, **more: Any) -> Row:
    return {"vid": vid, "usr": usr, "duration": 1.0, "geo": "US", **more}


def together(*queries: Query) -> Plan:
    return Plan({q.name: Choice(left_deep(q), dict.fromkeys(q.edges, 0)) for q in queries})


def rows_of(result: Any, name: str) -> list[tuple[Any, ...]]:
    found = result.rows[name].to_table() if name in result.rows else None
    return [] if found is None else sorted(zip(*(c.to_pylist() for c in found.columns), strict=True))


def test_windows_of_different_length_share_the_joins_of_buckets() -> None:
    """Figure 8: 3 ⋈ 3 is shared, 2 ⋈ 3 and 3 ⋈ 2 are of the longer window only."""
    short, long = vw("short"), vw("long", 2)
    engine = AdhocJoin(STREAMS)
    engine.apply(Changelog(create=(short, long), plan=together(short, long)))
    engine.step(0, tables({"V": [v(1)], "W": [w(1, 10)]}))
    found = engine.step(1, tables({"V": [v(1)], "W": [w(1, 11)]}))
    assert found.joins == 3
    assert rows_of(found, "short") == [(1, 11)]
    assert rows_of(found, "long") == [(1, 10), (1, 11), (1, 11)]


def test_a_query_sees_tuples_from_its_creation_to_its_deletion() -> None:
    engine = AdhocJoin(STREAMS)
    engine.apply(Changelog(create=(vw("old", 3),)))
    engine.step(0, tables({"V": [v(1)], "W": []}))
    engine.apply(Changelog(create=(vw("new", 3),)))
    found = engine.step(1, tables({"V": [], "W": [w(1, 10)]}))
    assert rows_of(found, "old") == [(1, 10)]
    assert rows_of(found, "new") == []
    engine.apply(Changelog(delete=("old",)))
    assert not engine.step(2, tables({"V": [v(1)], "W": []})).rows.keys() & {"old"}


def test_only_what_some_query_uses_is_kept() -> None:
    engine = AdhocJoin(STREAMS)
    engine.apply(Changelog(create=(vw("q", 2),)))
    for slot in range(5):
        engine.step(slot, tables({"V": [v(1)], "W": [w(1, 2)], "C": [{"usr": 1, "length": 1, "emojis": 0, "vid": 1}]}))
    kept = engine.snapshot().buckets
    assert sorted((b.stream, b.slot) for b in kept) == [("V", 3), ("V", 4), ("W", 3), ("W", 4)]
    assert [b.table.column_names for b in kept if b.stream == "W"] == [["usr", "vid"]] * 2
    engine.apply(Changelog(delete=("q",)))
    engine.step(5, tables({"V": [v(1)]}))
    assert engine.snapshot().buckets == ()


def test_an_idle_query_has_no_bits() -> None:
    awake, asleep = vw("awake"), [vw(f"idle{n}", 1, f"and V.length = {100 + n}") for n in range(80)]
    engine = AdhocJoin(STREAMS)
    engine.apply(Changelog(create=(awake, *asleep), plan=together(awake, *asleep)))
    engine.step(0, tables({"V": [v(1), v(2)], "W": [w(1, 2)]}))
    (component,) = engine._components
    leaf = component.leaves["V", When(0, 0)].factor
    assert leaf is not None
    assert leaf.sets["V"].words.shape == (2, 1)
    assert leaf.sets["V"].mask == 1 << engine.running["awake"].number


def test_a_query_that_wakes_up_finds_the_tuples_that_came_while_it_slept() -> None:
    """Its bits were not made, for there was nothing on the other side; now there is, also for results kept since."""
    three = "select V.vid from V, W, C where V.vid = W.vid and W.usr = C.usr"
    busy, sleeper = query("busy", three, 3), query("sleeper", f"{three} and C.length > 50", 3)
    engine = AdhocJoin(STREAMS)
    engine.apply(Changelog(create=(busy, sleeper), plan=together(busy, sleeper)))
    c = {"usr": 2, "length": 1, "emojis": 0, "vid": 1}
    engine.step(0, tables({"V": [v(1)], "W": [w(1, 2)], "C": [c]}))
    (component,) = engine._components
    assert component.awake == 1 << engine.running["busy"].number
    found = engine.step(1, tables({"V": [], "W": [], "C": [{**c, "length": 99}]}))
    assert rows_of(found, "sleeper") == [(1,)]
    assert rows_of(found, "busy") == [(1,)]


def test_an_index_is_made_once_for_all_queries() -> None:
    queries = [vw(f"q{n}", 1, f"and V.length > {n - 5}") for n in range(5)]
    engine = AdhocJoin(STREAMS)
    engine.apply(Changelog(create=tuple(queries)))
    engine.step(0, tables({"V": [v(1)], "W": [w(1, 2)]}))
    (bucket,) = [b for b in engine.snapshot().buckets if b.stream == "V"]
    assert bucket.attributes == (("vid",),)


def test_partials_of_slots_merge_into_the_whole() -> None:
    total = query(
        "q", "select W.geo, count(*) n, avg(V.price) a, max(W.usr) m from V, W where V.vid = W.vid group by W.geo"
    )
    engine = AdhocJoin(STREAMS)
    engine.apply(Changelog(create=(total,)))
    partials = []
    for slot in range(3):
        found = engine.step(slot, tables({"V": [v(1, price=slot), v(1)], "W": [w(1, slot), w(1, 9, geo=None)]}))
        partials.append(found.partials["q"])
    merged = merge_partials(total, partials)
    assert merged is not None
    rows = sorted(finalise(total, merged).to_pylist(), key=lambda row: str(row["geo"]))
    assert rows == [{"geo": None, "n": 6, "a": 1.0, "m": 9}, {"geo": "US", "n": 6, "a": 1.0, "m": 2}]


def test_slots_come_one_after_the_other() -> None:
    engine = AdhocJoin(STREAMS, first_slot=4)
    with pytest.raises(BucketsOutOfOrder, match="slot 6 was handed in, slot 4 is next"):
        engine.step(6, {})


def test_a_snapshot_whose_arrays_do_not_fit_is_refused() -> None:
    engine = AdhocJoin(STREAMS)
    engine.apply(Changelog(create=(vw("q"),)))
    engine.step(0, tables({"V": [v(1)], "W": [w(1, 2)]}))
    snapshot = engine.snapshot()
    first = snapshot.buckets[0]
    wrong = replace(first, arrays={**first.arrays, "vid/members": np.array([7], np.int32)})
    with pytest.raises(SnapshotRefused, match="does not fit its rows"):
        AdhocJoin.restore(STREAMS, replace(snapshot, buckets=(wrong,)))
    with pytest.raises(SnapshotRefused, match="lacks the array"):
        AdhocJoin.restore(STREAMS, replace(snapshot, buckets=(replace(first, arrays={}),)))


def test_a_join_that_runs_on_keeps_its_results_when_another_query_comes() -> None:
    three = query("a", "select count(*) from V, W, C where V.vid = W.vid and W.usr = C.usr", 3)
    optimizer, engine = Optimizer(), AdhocJoin(STREAMS)
    engine.apply(Changelog(create=(three,), plan=optimizer.change(0, [three], [])[0]))
    slot = {"V": [v(1)], "W": [w(1, 2)], "C": [{"usr": 2, "length": 1, "emojis": 0, "vid": 1}]}
    engine.step(0, tables(slot))
    before = set(engine._components[0].results)
    other = vw("b", 2)
    engine.apply(Changelog(create=(other,), plan=optimizer.change(1, [other], [])[0]))
    (component,) = engine._components
    assert before
    assert before <= set(component.results)
    engine.step(1, tables(slot))
    assert set(component.members) == {"a", "b"}


def test_what_was_located_stays_when_others_come_and_is_made_anew_for_who_moves_in_from_elsewhere() -> None:
    a, moved, new = (vw(name, 3, "and V.length > 0") for name in ("a", "moved", "new"))
    engine = AdhocJoin(STREAMS)
    engine.adopt(0, {"a": Running(a, 0, 0)}, together(a))
    engine.step(0, tables({"V": [v(1)], "W": []}))
    before = engine._located["V", When(0, 0)]
    engine.adopt(1, {"a": Running(a, 0, 0), "new": Running(new, 1, 1)}, together(a, new))
    assert engine._located["V", When(0, 0)].cells is before.cells
    found = engine.step(1, tables({"V": [], "W": [w(1, 2)]}))
    assert (rows_of(found, "a"), rows_of(found, "new")) == ([(1, 2)], [])
    engine.adopt(2, {"moved": Running(moved, 0, 0), "new": Running(new, 1, 1)}, together(moved, new))
    assert ("V", When(0, 0)) not in engine._located, "who moved in was there when the tuples came"
    found = engine.step(2, tables({"V": [v(2)], "W": [w(1, 3), w(2, 4)]}))
    assert rows_of(found, "moved") == [(1, 3), (2, 4)]
    assert rows_of(found, "new") == [(2, 4)]
