"""The benchmark's workloads are what the paper describes."""

from __future__ import annotations

from random import Random

import pytest

from bench.adhoc.in_process import Run, duck_sql, measure
from bench.adhoc.workload import QueryShape, make_queries, make_query, make_slot, sc1, sc2, similarity


@pytest.mark.parametrize("ways", [2, 3, 4, 5])
@pytest.mark.parametrize("wanted", [0.25, 0.5, 0.75, 1.0])
def test_queries_have_about_the_wanted_similarity(ways: int, wanted: float) -> None:
    random = Random(1)
    found = [similarity(make_query(random, f"q{n}", QueryShape(ways, wanted)), ways) for n in range(60)]
    assert abs(sum(found) / len(found) - wanted) <= 0.2


def test_two_way_queries_of_half_similarity_share_exactly_one_join_attribute() -> None:
    assert {similarity(query, 2) for query in make_queries(40, QueryShape(), 3)} == {0.5}


def test_a_workload_follows_from_its_seed() -> None:
    assert make_queries(5, QueryShape(3), 9) == make_queries(5, QueryShape(3), 9)
    assert make_slot(3, 10, 1)["s0"].equals(make_slot(3, 10, 1)["s0"])
    assert not make_slot(3, 10, 1)["s0"].equals(make_slot(3, 10, 1)["s1"])


def test_sc1_creates_until_so_many_run_and_sc2_comes_and_goes() -> None:
    assert [change.create for change in sc1(10, 25, 5)] == [10, 10, 5, 0, 0]
    assert [(change.create, change.delete) for change in sc2(2, 2, 5)] == [(2, 0), (2, 0), (0, 2), (0, 2), (2, 0)]


def test_duckdb_is_asked_for_exactly_what_is_new() -> None:
    (query,) = make_queries(1, QueryShape(windows=(2,), selections=False), 1)
    first, second = duck_sql(query, 3).split(" union all ")
    assert first.endswith("s0.slot between 3 and 3 and s1.slot between 2 and 3")
    assert second.endswith("s0.slot between 2 and 2 and s1.slot between 3 and 3")


def test_a_run_measures_every_querys_own_input() -> None:
    row = measure(Run(queries=3, rows=50, slots=1, warm_up=0))
    assert row["overall_tuples_per_s"] == pytest.approx(3 * 2 * 50 / row["seconds_per_slot"])
