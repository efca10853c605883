"""What a task gives to the mart: rows as declared, and partial aggregates that add up to those of all rows."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from etl.contract.words.types import TIMESTAMP
from etl.pipeline.tasks import wire
from etl.pipeline.tasks.mart_rows import mart_groups, mart_rows, merge
from etl.pipeline.tasks.plan import BatchPlan
from tests.support.declared import NOW, plan, resolve

PIPELINE = """
name = "m"
[stream]
source = { landing = "m" }
key = ["id"]
[stream.fields]
id = "bigint"
team = { type = "string", required = false }
sum = { type = "int", required = false }
[mart.rows]
columns = { id = "id", team = "upper(team)", twice = "sum * 2" }
[mart.teams]
group_by = { team = "team" }
values = { n = "count(*)", known = "count(sum)", sum = "sum(sum)", least = "min(sum)", most = "max(sum)" }
[mart.alike]
group_by = { p_max = "team", "n" = "upper(team)", "n_sum" = "lower(team)" }
values = { p = "max(id)", n_count = "count(*)", total = "sum(id)" }
"""


@pytest.fixture
def mine(tmp_path: Path) -> BatchPlan:
    return plan(resolve(tmp_path, PIPELINE), tmp_path)


def accepted(plan: BatchPlan, rows: list[tuple[str | None, int | None]]) -> pa.Table:
    arrays = [
        pa.array(range(len(rows)), pa.int64()),
        pa.array([team for team, _ in rows], pa.string()),
        pa.array([value for _, value in rows], pa.int32()),
        pa.array([NOW] * len(rows), TIMESTAMP),
    ]
    return pa.table(arrays, names=[*plan.resolved.row.names, wire.LANDED])


def test_rows_are_as_declared_with_the_time_they_landed(mine: BatchPlan) -> None:
    table = mine.pipeline.mart[0]
    rows = mart_rows(accepted(mine, [("a", 2), (None, None)]), table, mine)
    assert rows.to_pylist() == [
        {"id": 0, "team": "A", "twice": 4, "batch": 1, "landed_at": NOW},
        {"id": 1, "team": None, "twice": None, "batch": 1, "landed_at": NOW},
    ]


events = st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.none() | st.integers(-5, 5)), min_size=1, max_size=12)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(events, min_size=1, max_size=3))
def test_partial_aggregates_of_tasks_merge_into_those_of_all_rows(
    mine: BatchPlan, parts: list[list[tuple[str | None, int | None]]]
) -> None:
    table = mine.pipeline.mart[1]
    merged = merge([mart_groups(accepted(mine, part), table, mine) for part in parts], table)
    groups: dict[str | None, list[int | None]] = defaultdict(list)
    for part in parts:
        for team, value in part:
            groups[team].append(value)
    assert {row.pop("team"): row for row in merged.to_pylist()} == {team: truth(all) for team, all in groups.items()}


def truth(values: list[int | None]) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    return {
        "n": len(values),
        "known": len(known),
        "sum": sum(known) if known else None,
        "least": min(known, default=None),
        "most": max(known, default=None),
    }


def test_a_group_may_be_called_like_a_value_and_a_function(mine: BatchPlan) -> None:
    table = mine.pipeline.mart[2]
    part = mart_groups(accepted(mine, [("a", 1), ("a", 2)]), table, mine)
    (row,) = merge([part, part], table).to_pylist()
    assert row == {"p_max": "a", "n": "A", "n_sum": "a", "p": 1, "n_count": 4, "total": 2}


def test_sums_of_integers_do_not_wrap(mine: BatchPlan) -> None:
    table, rows = mine.pipeline.mart[2], accepted(mine, [("a", 1), ("a", 2)])
    rows = rows.set_column(0, "id", pa.array([2**63 - 1, 2**63 - 1], pa.int64()))
    part = mart_groups(rows, table, mine)
    assert [row["total"] for row in merge([part, part], table).to_pylist()] == [4 * (2**63 - 1)]


def test_partial_sums_of_a_batch_that_was_decided_with_narrower_ones_are_merged(mine: BatchPlan) -> None:
    table = mine.pipeline.mart[2]
    part = mart_groups(accepted(mine, [("a", 1)]), table, mine)
    number = part.schema.get_field_index("total")
    narrow = part.set_column(number, "total", pa.array([2**62], pa.int64()))
    assert [row["total"] for row in merge([narrow, narrow, part], table).to_pylist()] == [2**63]
