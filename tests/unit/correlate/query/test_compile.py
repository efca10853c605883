"""Correlations from SQL: what becomes key, band, window, residual and selection, and what is refused where."""

from __future__ import annotations

import pyarrow as pa
import pytest

from etl.columnar.expression import ExpressionRefused
from etl.correlate.model import Window
from etl.correlate.query.compile import Query, StreamType, compile_query
from etl.correlate.query.order import join_order

MINUTE = 60_000_000
MOMENT, MONEY = pa.timestamp("us", "UTC"), pa.decimal128(18, 2)
ORDERS = pa.schema(
    {"order_id": pa.int64(), "customer": pa.string(), "amount": MONEY, "region": pa.string(), "ordered_at": MOMENT}
)
PAYMENTS = pa.schema(
    {"order_id": pa.int32(), "amount": MONEY, "rate": pa.float64(), "status": pa.string(), "paid_at": MOMENT}
)
SHIPMENTS = pa.schema({"order_id": pa.int64(), "shipped_at": MOMENT})
STREAMS = {"orders": StreamType(ORDERS, "ordered_at"), "payments": StreamType(PAYMENTS, "paid_at"),
           "shipments": StreamType(SHIPMENTS, "shipped_at")}  # fmt: skip
JOIN = "select o.order_id from orders o join payments p on "


def query(sql: str, within: Window | None = None) -> Query:
    return compile_query(sql, STREAMS, within=within)


def test_an_equality_becomes_a_key_and_the_rest_of_where_is_pushed_to_its_stream() -> None:
    plan = query(JOIN + "o.order_id = p.order_id where p.status = 'ok' and o.amount > 0 and o.region is not null")
    condition = plan.steps[0].condition
    assert (condition.layout, len(condition.keys), condition.exact_keys) == ("hash", 1, True)
    assert condition.residual is None
    selection = plan.sources["o"].selection
    assert selection is not None
    assert selection.columns == {"o.amount", "o.region"}
    assert plan.columns == {"o.order_id"}


def test_a_text_key_is_checked_again_on_the_rows() -> None:
    condition = query(JOIN + "o.customer = p.status").steps[0].condition
    assert not condition.exact_keys
    assert condition.residual is not None


def test_conditions_on_event_times_become_the_window_and_tighten_within() -> None:
    interval = (
        JOIN + "o.order_id = p.order_id and p.paid_at between o.ordered_at and o.ordered_at + interval 30 minutes"
    )
    assert query(interval).steps[0].condition.window == Window(0, 30 * MINUTE)
    assert query(interval, Window.within(10 * MINUTE)).steps[0].condition.window == Window(0, 10 * MINUTE)
    distance = JOIN + "abs(o.ordered_at - p.paid_at) < interval 1 hour"
    assert query(distance).steps[0].condition.window == Window(-60 * MINUTE + 1, 60 * MINUTE - 1)


def test_bands_are_indexed_and_relative_ones_checked_again() -> None:
    absolute = query(JOIN + "abs(o.amount - p.amount) <= 0.05").steps[0].condition
    relative = query(JOIN + "p.amount between o.amount * 0.99 and o.amount * 1.01").steps[0].condition
    floats = query(JOIN + "o.amount <= p.rate").steps[0].condition
    assert [one.layout for one in (absolute, relative, floats)] == ["sorted"] * 3
    assert absolute.residual is None
    assert relative.residual is not None
    assert floats.residual is not None
    assert query(JOIN + "o.amount * p.amount > 3").steps[0].condition.layout == "block"


def test_the_better_of_two_bands_is_indexed_and_the_other_checked() -> None:
    condition = query(JOIN + "o.order_id < p.order_id and abs(o.amount - p.amount) <= 1").steps[0].condition
    assert condition.band is not None
    assert condition.band.left.value.columns == {"o.amount"}
    assert condition.residual is not None
    assert condition.residual.columns == {"o.order_id", "p.order_id"}


def test_streams_are_joined_in_an_order_that_has_conditions() -> None:
    star = "from orders o, payments p, shipments s where o.order_id = p.order_id and o.order_id = s.order_id"
    steps = query(f"select o.order_id {star}").steps
    assert [(step.left, step.right) for step in steps] == [("o", ("s",)), ("p", ("o", "s"))]
    assert all(step.condition.keys for step in steps)
    assert join_order(["a", "b", "c"], []) == [("b", ("c",)), ("a", ("b", "c"))]


def test_within_holds_between_every_two_of_three_streams() -> None:
    chain = (
        "select o.order_id from orders o join payments p using (order_id) join shipments s on s.order_id = p.order_id"
    )
    last = query(chain, Window.within(MINUTE)).steps[1].condition
    assert last.window == Window(-MINUTE, MINUTE)
    assert last.band is not None
    assert last.residual is not None
    checked = last.residual.columns | last.band.left.value.columns | last.band.right.value.columns
    assert {"o.ordered_at", "p.paid_at", "s.shipped_at"} <= checked


def test_groups_and_aggregates() -> None:
    sql = "select region, count(*) as n, avg(p.rate) from orders o join payments p using (order_id) group by region"
    grouping = query(sql).grouping
    assert grouping is not None
    assert grouping.order == ("region", "n", "avg")
    assert [one.function for one in grouping.aggregates] == ["count", "avg"]


def test_a_star_names_every_column_once() -> None:
    names = [name for name, _ in query("select * from orders o join payments p using (order_id)").output]
    assert names[:3] == ["o_order_id", "customer", "o_amount"]
    assert len(names) == len(set(names)) == len(ORDERS) + len(PAYMENTS)


@pytest.mark.parametrize(
    ("sql", "line", "column", "reason"),
    [
        ("select 1 from nowhere n join orders o on true", 1, 15, "no stream 'nowhere AS n'"),
        ("select 1 as x from orders o", 1, 8, "two or more streams"),
        (JOIN + "o.nope = p.order_id", 1, 52, "no column 'o.nope'"),
        (JOIN + "o.order_id = p.status", 1, 52, "no type in common"),
        (JOIN + "o.amount", 1, 52, "bool is needed"),
        ("select o.order_id from orders o left join payments p using (order_id)", 1, 43, "inner joins only"),
        (JOIN + "true order by 1", 1, 66, "no ORDER"),
        (JOIN + "true limit 5", 1, 63, "no LIMIT"),
        ("select o.order_id, p.order_id from orders o, payments p", 1, 8, "two columns of the result"),
        ("select o.amount + 1 from orders o, payments p", 1, 8, "needs a name"),
        ("select o.region, sum(p.status) from orders o, payments p group by 1", 1, 18, "needs a number"),
        ("select o.region, p.status, count(*) from orders o, payments p group by 1", 1, 18, "neither grouped by"),
        ("select count(distinct o.region) from orders o, payments p", 1, 8, "remember every value"),
        ("select * from orders o, orders o", 1, 25, "used twice"),
        ("delete from orders", 1, 1, "one SELECT"),
        ("select * from orders o join payments p on o.order_id =\n  rand() + p.order_id", 2, 3, "rand"),
        ("select * from (select 1) o, payments p", 1, 23, "no stream"),
    ],
)
def test_what_cannot_run_is_refused_with_its_place(sql: str, line: int, column: int, reason: str) -> None:
    with pytest.raises(ExpressionRefused, match=reason) as refused:
        query(sql)
    assert (refused.value.line, refused.value.column) == (line, column), str(refused.value)
