"""Master data as a pure function of (seed, key)."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.samples import customers, dictionary, products
from etl.samples.master import money, retail_cents

KEYS = np.arange(1, 5_001)


def test_a_row_is_the_same_alone_and_among_thousands() -> None:
    assert customers(9, [77]).equals(customers(9, KEYS).slice(76, 1).combine_chunks())
    assert products(9, [77]).equals(products(9, KEYS).slice(76, 1).combine_chunks())


def test_another_seed_makes_other_people() -> None:
    same = pc.equal(customers(1, KEYS)["address"], customers(2, KEYS)["address"])
    assert pc.sum(same).as_py() < 20


def test_tables_have_the_columns_of_the_master_schema() -> None:
    assert customers(1, []).schema == pa.schema(
        {
            "customer_id": pa.int64(), "name": pa.string(), "address": pa.string(), "nation": pa.string(),
            "region": pa.string(), "market_segment": pa.string(), "phone": pa.string(),
            "account_balance": pa.decimal128(12, 2),
        }
    )  # fmt: skip
    assert products(1, []).schema == pa.schema(
        {
            "product_id": pa.int64(), "name": pa.string(), "brand": pa.string(), "category": pa.string(),
            "size": pa.int32(), "container": pa.string(), "retail_price": pa.decimal128(12, 2),
        }
    )  # fmt: skip


def test_nothing_is_null_and_values_are_plausible() -> None:
    people, goods = customers(1, KEYS), products(1, KEYS)
    assert all(column.null_count == 0 for table in (people, goods) for column in table.columns)
    balances = pc.min_max(people["account_balance"]).as_py()
    assert Decimal("-999.99") <= balances["min"] < 0 < balances["max"] <= Decimal("10000.00")
    prices = pc.min_max(goods["retail_price"]).as_py()
    assert Decimal(1) <= prices["min"] < Decimal(2)
    assert Decimal(1900) < prices["max"] <= Decimal(2000)
    assert pc.min_max(goods["size"]).as_py() == {"min": 1, "max": 50}


def test_a_nation_lies_in_its_region_and_all_turn_up() -> None:
    people = customers(1, KEYS)
    pairs = set(zip(people["nation"].to_pylist(), people["region"].to_pylist(), strict=True))
    assert pairs == {(nation, region) for nation, region, _ in dictionary.NATIONS}


def test_a_later_version_has_moved_and_is_otherwise_the_same_person() -> None:
    before, after = customers(1, KEYS), customers(1, KEYS, version=1)
    for column in ("customer_id", "name", "nation", "region", "phone", "account_balance"):
        assert before[column].equals(after[column]), column
    assert pc.sum(pc.equal(before["address"], after["address"])).as_py() < 20
    assert 0 < pc.sum(pc.equal(before["market_segment"], after["market_segment"])).as_py() < 2_000


def test_money_is_exact_on_both_sides_of_zero() -> None:
    given = np.array([0, 1, -1, -99_999, 123_456_789])
    assert money(given).to_pylist() == [Decimal(int(cents)).scaleb(-2) for cents in given]
    assert products(4, KEYS)["retail_price"].to_pylist()[:3] == money(retail_cents(4, KEYS[:3])).to_pylist()
