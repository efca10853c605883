"""Queries that only count: sides of joins are weighed once, whoever meets them."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import Any

import numpy as np
import pytest

from etl.columnar import bitsets
from etl.correlate.adhoc.plan import Choice, Plan, left_deep
from etl.correlate.adhoc.query.parse import parse_query
from etl.correlate.adhoc.run.changes.changelog import Changelog
from etl.correlate.adhoc.run.engine import AdhocJoin
from etl.correlate.adhoc.run.joins.factor import Factor, multiply_out
from etl.correlate.adhoc.run.sinks.count import counts
from tests.support.adhoc_oracle import STREAMS, tables

_TWO = "V, W where V.vid = W.vid"
_THREE = "V, W, C where V.vid = W.vid and W.usr = C.usr"


def _joined(sql: str, queries: int) -> list[tuple[Factor, int]]:
    """What queries with windows of one to three slots count in the last of five slots."""
    many = [
        parse_query(f"q{at}", f"select count(*) from {sql} and V.length > {at % 5}", 1 + at % 3, STREAMS)
        for at in range(queries)
    ]
    engine = AdhocJoin(STREAMS)
    plan = Plan({one.name: Choice(left_deep(one), dict.fromkeys(one.edges, 0)) for one in many})
    engine.apply(Changelog(create=tuple(many), plan=plan))
    random = np.random.default_rng(5)
    for slot in range(5):
        engine.step(slot, tables(_slot(random)))
    (component,) = engine._components
    ((root, team),) = component.roots.items()
    found = [
        (engine._join(component, root, slots, mask), mask)
        for slots, mask in engine._combinations(component, root, team)
    ]
    return [(factor, mask) for factor, mask in found if isinstance(factor, Factor)]


def _slot(random: np.random.Generator) -> dict[str, list[dict[str, Any]]]:
    def some(most: int) -> list[int]:
        return random.integers(0, most, 30).tolist()

    return {
        "V": [{"vid": vid, "length": at, "geo": "US", "price": None} for vid, at in zip(some(6), some(8), strict=True)],
        "W": [
            {"vid": vid, "usr": usr, "duration": 1.0, "geo": "US"} for vid, usr in zip(some(6), some(6), strict=True)
        ],
        "C": [{"usr": usr, "length": 1, "emojis": 0, "vid": 1} for usr in some(6)],
    }


@pytest.mark.parametrize("sql", [_TWO, _THREE])
@pytest.mark.parametrize("queries", [3, 70])  # one word of bits, and two
def test_counts_are_as_many_as_the_rows_that_would_be_multiplied_out(sql: str, queries: int) -> None:
    joined, naive = _joined(sql, queries), Counter[int]()
    for factor, mask in joined:
        for rows in multiply_out(factor, mask):
            for number in bitsets.positions_of(mask & rows.numbering):
                naive[number] += len(next(iter(rows.of(number).values())))
    assert len(joined) > 3
    assert counts(joined) == {number: many for number, many in naive.items() if many}


def test_what_is_weighed_again_for_want_of_memory_gives_the_same() -> None:
    joined = _joined(_THREE, 70)
    assert counts(joined, most_bytes=1) == counts(joined)


def test_trees_are_hashed_anew_in_another_process() -> None:
    """Texts hash differently there."""
    tree = left_deep(parse_query("q", f"select count(*) from {_THREE}", 1, STREAMS))
    (_, node) = Choice(
        tree, dict.fromkeys(parse_query("q", f"select count(*) from {_THREE}", 1, STREAMS).edges, 0)
    ).nodes()
    hash(node)
    there = pickle.loads(pickle.dumps(node))
    assert there == node
    assert "_hash" not in vars(there)
    assert "_hash" not in vars(there.tree)
