"""Master data in a real Postgres: a database that is migrated as the project migrates it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pyarrow as pa
import pytest

from etl.adapters.postgres import Connection
from etl.samples import (
    OptionRefused,
    OrderConfig,
    arrive_late_customers,
    copy_into,
    customers,
    generate_master,
    late_customers,
    touch_customers,
)

SEED = 11


@pytest.fixture
def connection(module_database: str) -> Iterator[Connection]:
    with closing(psycopg2.connect(module_database)) as connection:
        with connection, connection.cursor() as cursor:
            cursor.execute("truncate master.customers, master.products")
        yield connection


def rows(connection: Connection, query: str) -> list[tuple[object, ...]]:
    with connection, connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchall()


EVERYBODY = (
    "select customer_id, name, address, nation, region, market_segment, phone, account_balance "
    "from master.customers order by customer_id"
)


def test_what_is_copied_is_what_was_made(connection: Connection) -> None:
    made = customers(SEED, range(1, 1_001))
    with connection:
        assert copy_into(connection, "master.customers", made) == 1_000
    assert rows(connection, EVERYBODY) == [tuple(row.values()) for row in made.to_pylist()]


def test_text_that_looks_like_csv_survives(connection: Connection) -> None:
    awkward = ['say "hi", twice', "two\nlines", "", "back\\slash", "\\.", "Zoë,", "'; drop table x --"]
    made = customers(SEED, range(1, len(awkward) + 1)).set_column(1, "name", pa.array(awkward))
    for key in (None, "customer_id"):
        with connection:
            copy_into(connection, "master.customers", made, key=key)
        names = rows(connection, "select name from master.customers order by customer_id")
        assert [name for (name,) in names] == awkward


def test_generating_again_changes_nothing(connection: Connection) -> None:
    seen: list[tuple[str, int, int]] = []
    assert generate_master(connection, SEED, 3_000, 400, lambda *step: seen.append(step)) == (3_000, 400)
    assert seen == [("customers", 3_000, 3_000), ("products", 400, 400)]
    before = rows(connection, "select * from master.customers order by customer_id")
    assert generate_master(connection, SEED, 3_000, 400) == (0, 0)
    assert rows(connection, "select * from master.customers order by customer_id") == before
    assert rows(connection, "select count(*) from master.products") == [(400,)]


def test_a_larger_master_adds_only_what_is_missing(connection: Connection) -> None:
    generate_master(connection, SEED, 100, 10)
    assert generate_master(connection, SEED, 250, 10) == (150, 0)


def test_touched_customers_move_and_are_stamped_later_and_nobody_else_is(connection: Connection) -> None:
    generate_master(connection, SEED, 2_000, 1)
    before = {row[0]: row for row in rows(connection, "select * from master.customers")}
    moved = set(touch_customers(connection, SEED, 2_000, 0.1, version=1).tolist())
    after = {row[0]: row for row in rows(connection, "select * from master.customers")}
    assert 140 < len(moved) < 260
    assert {key for key in before if before[key] != after[key]} == moved
    for key in moved:
        assert after[key][8] > before[key][8]  # type: ignore[operator]
        assert (after[key][1], after[key][7]) == (before[key][1], before[key][7]), "still the same person"


def test_the_same_version_moves_a_customer_once(connection: Connection) -> None:
    generate_master(connection, SEED, 500, 1)
    first = touch_customers(connection, SEED, 500, 0.2, version=1).tolist()
    before = rows(connection, "select * from master.customers order by customer_id")
    assert touch_customers(connection, SEED, 500, 0.2, version=1).tolist() == first
    assert rows(connection, "select * from master.customers order by customer_id") == before
    assert touch_customers(connection, SEED, 500, 0.2, version=2).tolist() != first


def test_a_change_is_stamped_later_even_when_the_row_came_from_the_future(connection: Connection) -> None:
    generate_master(connection, SEED, 1, 1)
    with connection, connection.cursor() as cursor:
        cursor.execute("update master.customers set updated_at = '2999-01-01T00:00:00Z'")
    touch_customers(connection, SEED, 1, 1.0, version=1)
    later = "select updated_at > '2999-01-01T00:00:00Z' from master.customers"
    assert rows(connection, later) == [(True,)]


def test_late_customers_arrive_once(connection: Connection) -> None:
    config = OrderConfig(seed=SEED, customers=50, late_customers=7)
    generate_master(connection, SEED, 50, 1)
    assert arrive_late_customers(connection, config) == 7
    assert arrive_late_customers(connection, config) == 0
    keys = rows(connection, "select customer_id from master.customers where customer_id > 50 order by 1")
    assert [key for (key,) in keys] == late_customers(config).tolist()


def test_a_failed_upsert_leaves_the_table_as_it_was(connection: Connection) -> None:
    generate_master(connection, SEED, 10, 1)
    before = rows(connection, EVERYBODY)
    made = customers(SEED, range(1, 11), version=1)
    broken = made.set_column(1, "name", pa.array([None] * 10, pa.string()))
    with pytest.raises(psycopg2.errors.NotNullViolation), connection:
        copy_into(connection, "master.customers", broken, key="customer_id")
    assert rows(connection, EVERYBODY) == before
    with connection:
        assert copy_into(connection, "master.customers", made, key="customer_id") == 10


def test_sizes_and_shares_that_make_no_sense_are_refused(connection: Connection) -> None:
    with pytest.raises(OptionRefused, match=r"^customers=0 "):
        generate_master(connection, SEED, 0, 1)
    with pytest.raises(OptionRefused, match=r"^share=2 "):
        touch_customers(connection, SEED, 10, 2, version=1)
    with pytest.raises(OptionRefused, match=r"^version=0 "):
        touch_customers(connection, SEED, 10, 0.5, version=0)
