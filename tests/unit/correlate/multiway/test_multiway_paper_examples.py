"""Examples 1 and 2 of the paper, to its digits."""

from __future__ import annotations

import pytest

from etl.correlate.multiway.planning.baselines import centralised, simple
from etl.correlate.multiway.planning.heuristic import algorithm1, sources
from etl.correlate.multiway.planning.optimal import optimal
from etl.correlate.multiway.planning.partition import By
from etl.correlate.multiway.planning.pmjoin import plan_pmjoin
from etl.correlate.multiway.planning.several import partition_plan
from etl.correlate.multiway.planning.tree import MJoin, PMJoin, Source, cost, shipments
from tests.support.multiway_examples import example_1, example_2

S1, S2, S3 = 1, 2, 4


def test_example_1_has_the_rates_of_table_1() -> None:
    model = example_1()
    assert [model.rate_per_s(s) for s in (S1, S2, S3)] == pytest.approx([100.2, 50.07, 50.03])
    assert [model.rate_per_s(s) for s in (S1 | S2, S1 | S3, S2 | S3)] == pytest.approx([9.003, 7.001, 2.0008])


def test_example_1_centralised_ships_100_1_bytes_per_second() -> None:
    model = example_1()
    assert round(cost(centralised(model), model), 1) == 100.1
    assert round(cost(simple(model), model), 1) == 100.1


@pytest.mark.parametrize("planner", [algorithm1, optimal])
def test_example_1_distributed_ships_54_03_bytes_per_second(planner: object) -> None:
    model = example_1()
    plan = planner(model)  # type: ignore[operator]
    assert round(cost(plan, model), 2) == 54.03
    assert [(one.streams, one.origin, one.destination) for one in shipments(plan)] == [
        (S3, "n3", "n2"), (S2 | S3, "n2", "n1"),
    ]  # fmt: skip


@pytest.mark.parametrize("by", ["range", "rate"])
def test_example_1_partitioned_ships_0_07_bytes_per_second(by: By) -> None:
    model = example_1()
    plan = plan_pmjoin(model, 0, by, 3)
    assert round(cost(plan, model), 2) == 0.07
    assert cost(plan, model) == pytest.approx(0.036 + 0.012 + 0.0216)


def test_example_1_every_value_has_the_plan_of_figure_4() -> None:
    plan = partition_plan(example_1(), "range", 3)
    assert isinstance(plan, PMJoin)
    routes = [[(s.streams, s.origin, s.destination) for s in shipments(one)] for one in plan.plans]
    assert routes == [
        [(S2, "n2", "n1"), (S1 | S2, "n1", "n3")],
        [(S3, "n3", "n1"), (S1 | S3, "n1", "n2")],
        [(S3, "n3", "n2"), (S2 | S3, "n2", "n1")],
    ]


def test_example_2_has_the_rates_and_windows_of_table_2() -> None:
    model = example_2()
    assert [model.rate_per_s(1 << i) for i in range(5)] == [10, 35, 25, 30, 15]
    assert [model.window(1 << i) for i in range(5)] == [100, 350, 250, 300, 150]
    assert (model.rate_per_s(0b01100), model.window(0b01100)) == pytest.approx((15, 75))
    assert (model.rate_per_s(0b01101), model.window(0b01101)) == pytest.approx((9, 30))
    assert model.rate_per_s(0b00011) == pytest.approx(70)


def test_example_2_has_the_plan_tree_of_figure_3() -> None:
    """S2 ⋈ S3 at n1, then S0 to n1, then that and S4 to n0, where S1 is."""
    s0, s1, s2, s3, s4 = sources(example_2())
    joined = MJoin("n1", (s0, MJoin("n1", (s2, s3))))
    assert algorithm1(example_2()) == MJoin("n0", (joined, s4, s1))
    assert cost(algorithm1(example_2()), example_2()) == pytest.approx(10 + 9 + 15)


def test_the_right_child_of_every_operator_is_at_its_site() -> None:
    def check(node: object) -> None:
        if isinstance(node, MJoin):
            assert isinstance(node.children[-1], Source | MJoin)
            assert node.children[-1].site == node.site
            for child in node.children:
                check(child)

    for model in (example_1(), example_2()):
        check(algorithm1(model))
        check(optimal(model))
