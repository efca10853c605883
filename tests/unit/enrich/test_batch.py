"""The batch facade against the simplest truth there is: a nested loop."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from etl.columnar.errors import KeyTypeMismatch, KeyTypeUnsupported
from etl.enrich.batch import ABSENT, BatchBudget, BatchResult, build, join_batch
from etl.enrich.errors import BudgetTooSmall, DuplicateMasterKey, NullMasterKey, PortMissing, UnknownChoice
from etl.masters.memory import MemoryMaster

BUDGET = 256 * 1024


def customers(keys: list) -> pa.Table:
    return pa.table({"name": [f"customer {key}" for key in keys], "id": pa.array(keys)})


def answers(result: BatchResult) -> list[str | None]:
    names = result.master.column("name").to_pylist() if result.master.num_rows else []
    return [names[place] if place >= 0 else None for place in result.position]


def nested_loop(master: pa.Table, keys: pa.Array) -> list[str | None]:
    rows = master.to_pylist()
    return [
        next((row["name"] for row in rows if key is not None and row["id"] == key), None) for key in keys.to_pylist()
    ]


KEYS = {
    "integers": [5, -3, 2**62, 0, 7, 11],
    "strings": ["five", "", "a much longer key of many words", "ünïcödé", "a", "b"],
    "pairs": [
        {"a": 1, "b": 2},
        {"a": 2, "b": 1},
        {"a": 0, "b": 0},
        {"a": 1, "b": 1},
        {"a": 5, "b": 5},
        {"a": 9, "b": 1},
    ],
    "mixed": [
        {"a": 1, "b": "x"},
        {"a": 1, "b": "y"},
        {"a": 2, "b": "x"},
        {"a": 3, "b": ""},
        {"a": 4, "b": "z"},
        {"a": 5, "b": "w"},
    ],
}


@pytest.mark.parametrize("name", ["inlj", "cinlj"])
@pytest.mark.parametrize("kind", sorted(KEYS))
def test_a_batch_gives_what_a_nested_loop_gives(name: str, kind: str) -> None:
    known, strangers = KEYS[kind][:4], KEYS[kind][4:]
    master = customers(known)
    join = build(name, lookup=MemoryMaster(master, "id"), budget_bytes=BUDGET)
    rng = np.random.default_rng(1)
    for _ in range(5):
        picked = rng.integers(0, 7, 200)
        keys = pa.array([None if i == 6 else [*known, *strangers][i] for i in picked], pa.array(known).type)
        assert answers(join_batch(join, keys)) == nested_loop(master, keys)


@pytest.mark.parametrize("name", ["inlj", "cinlj"])
def test_an_empty_batch_has_the_master_columns_and_no_rows(name: str) -> None:
    join = build(name, lookup=MemoryMaster(customers([1, 2]), "id"), budget_bytes=BUDGET)
    result = join_batch(join, pa.array([], pa.int64()))
    assert result.master.column_names == ["id", "name"]
    assert len(result.position) == len(result.hit) == result.master.num_rows == 0


@pytest.mark.parametrize("name", ["inlj", "cinlj"])
def test_null_keys_have_no_master_row(name: str) -> None:
    join = build(name, lookup=MemoryMaster(customers([1, 2]), "id"), budget_bytes=BUDGET)
    result = join_batch(join, pa.array([None, 2, None], pa.int64()))
    assert answers(result) == [None, "customer 2", None]
    assert result.metrics.nulls == 2
    only_nulls = join_batch(join, pa.nulls(3, pa.int64()))
    assert only_nulls.position.tolist() == [ABSENT] * 3
    assert only_nulls.master.column_names == ["id", "name"]


def test_an_empty_master_matches_nothing() -> None:
    master = pa.table({"id": pa.array([], pa.int64()), "name": pa.array([], pa.string())})
    join = build("cinlj", lookup=MemoryMaster(master, "id"), budget_bytes=BUDGET)
    assert join_batch(join, pa.array([1, 2, 3])).position.tolist() == [ABSENT] * 3


def test_a_struct_key_with_a_null_part_has_no_master_row() -> None:
    kind = pa.struct([("a", pa.int64()), ("b", pa.int64())])
    master = pa.table({"id": pa.array([{"a": 1, "b": 0}], kind), "name": ["one"]})
    join = build("cinlj", lookup=MemoryMaster(master, "id"), budget_bytes=BUDGET)
    keys = pa.array([{"a": 1, "b": None}, None, {"a": 1, "b": 0}], kind)
    assert answers(join_batch(join, keys)) == [None, None, "one"]


def test_the_front_stage_answers_what_it_has_seen_before() -> None:
    source = MemoryMaster(customers(list(range(100))), "id")
    join = build("cinlj", lookup=source, budget_bytes=BUDGET)
    keys = pa.array(np.arange(100).repeat(3))
    first, again = join_batch(join, keys), join_batch(join, keys)
    assert not first.hit.any()
    assert again.hit.all()
    assert again.metrics.hit_ratio == 1.0
    assert source.asked.keys == 100


def test_a_new_master_version_empties_the_front_stage() -> None:
    source = MemoryMaster(customers([1]), "id")
    join = build("cinlj", lookup=source, budget_bytes=BUDGET)
    assert join.front_stage is not None
    assert join.front_stage.pin("v1")
    join_batch(join, pa.array([1, 1]))
    assert not join.front_stage.pin("v1")
    assert len(join.front_stage) == 1
    assert join.front_stage.pin("v2")
    assert not join_batch(join, pa.array([1, 1])).hit.any()


def test_int32_stream_keys_find_int64_master_keys() -> None:
    join = build("cinlj", lookup=MemoryMaster(customers([1, 2]), "id"), budget_bytes=BUDGET)
    assert answers(join_batch(join, pa.array([2, 3], pa.int32()))) == ["customer 2", None]


def test_dictionary_and_chunked_keys_are_taken_as_they_come() -> None:
    join = build("cinlj", lookup=MemoryMaster(customers(["a", "b"]), "id"), budget_bytes=BUDGET)
    keys = pa.chunked_array([["a", "z"], [None, "b"]])
    assert answers(join_batch(join, keys)) == ["customer a", None, None, "customer b"]
    assert answers(join_batch(join, pa.array(["b", "q"]).dictionary_encode())) == ["customer b", None]


def test_keys_of_another_kind_are_refused() -> None:
    join = build("cinlj", lookup=MemoryMaster(customers([1, 2]), "id"), budget_bytes=BUDGET)
    with pytest.raises(KeyTypeMismatch, match="stream keys are string, master keys are int64; cast"):
        join_batch(join, pa.array(["1"]))
    with pytest.raises(KeyTypeUnsupported, match="double"):
        join_batch(build("inlj", lookup=MemoryMaster(customers([1]), "id"), budget_bytes=BUDGET), pa.array([1.5]))


def test_a_master_with_a_key_twice_or_without_a_key_is_refused() -> None:
    with pytest.raises(DuplicateMasterKey, match="holds key 7 more than once"):
        MemoryMaster(customers([1, 7, 7]), "id")
    with pytest.raises(NullMasterKey, match="holds 2 rows with a NULL key"):
        MemoryMaster(customers([1, None, None]), "id")


def test_wrong_choices_are_named_with_what_is_allowed() -> None:
    source = MemoryMaster(customers([1]), "id")
    with pytest.raises(UnknownChoice, match="join 'hash' is unknown; choose one of inlj, "):
        build("hash", lookup=source, budget_bytes=BUDGET)
    with pytest.raises(PortMissing, match="inlj needs a master source with lookup"):
        build("inlj", budget_bytes=BUDGET)
    with pytest.raises(BudgetTooSmall, match="10 bytes are too few"):
        build("cinlj", lookup=source, budget_bytes=10)
    with pytest.raises(UnknownChoice, match="policy 'lru'"):
        join_batch(build("cinlj", lookup=source, budget_bytes=BUDGET, policy="lru"), pa.array([1]))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["inlj", "cinlj", "chybridjoin", "cmeshjoin"])
def test_a_result_joins_rows_with_inner_or_left_semantics_in_the_order_they_came(name: str) -> None:
    master = MemoryMaster(customers([1, 2, 3]), "id")
    join = build(name, lookup=master, scan=master, index=master, budget_bytes=BUDGET)
    orders = pa.table({"order": list("abcdef"), "customer": [3, 9, 1, None, 3, 2]})
    for _ in range(2):  # from the master, then from the front stage
        result = join_batch(join, orders.column("customer"))
        inner, left = result.joined(orders), result.joined(orders, "left")
        assert inner.select(["order", "name"]).to_pylist() == [
            {"order": "a", "name": "customer 3"},
            {"order": "c", "name": "customer 1"},
            {"order": "e", "name": "customer 3"},
            {"order": "f", "name": "customer 2"},
        ]
        assert left.column("order").to_pylist() == list("abcdef")
        assert left.column("name").to_pylist() == [
            "customer 3", None, "customer 1", None, "customer 3", "customer 2",
        ]  # fmt: skip
        assert inner.schema == left.schema
    with pytest.raises(UnknownChoice, match="'outer'"):
        result.joined(orders, "outer")  # type: ignore[arg-type]


def test_shed_rows_are_in_no_joined_table() -> None:
    master = MemoryMaster(customers([1, 2, 3]), "id")
    join = build("inlj", lookup=master, budget_bytes=BUDGET, best_first=True)
    orders = pa.table({"customer": [1, 2, 3]})
    result = join_batch(join, orders.column("customer"), budget=BatchBudget(lookups=1))
    assert result.joined(orders, "left").column("customer").to_pylist() == [1]
    assert result.joined(orders, "inner").column("customer").to_pylist() == [1]
