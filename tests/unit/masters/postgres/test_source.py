"""Master pages from a real Postgres: a consistent snapshot, and every change once, however late it commits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg2
import pyarrow as pa
import pytest

from etl.adapters import postgres
from etl.contract.model import Master
from etl.errors import MasterUnavailable, MissingPart, PostgresUnavailable
from etl.masters.pages.errors import ColumnMismatch, RepublishNeeded
from etl.masters.pages.manifest import Manifest
from etl.masters.pages.publish import Publisher
from etl.masters.pages.store import PageStore
from etl.masters.postgres.source import PostgresMaster, keep_change_log, prune_change_log
from etl.masters.wiring import source_of
from etl.settings import load

pytestmark = pytest.mark.slow

TABLES = """
drop schema if exists master cascade;
create schema master;
create table master.customers (
    customer_id bigint primary key, name text, balance numeric(12, 2), anything numeric,
    tag uuid, extra jsonb, updated_at timestamptz not null default now()
);
insert into master.customers
select number, 'customer ' || number, number / 4.0, 1.5, gen_random_uuid(), '{"a": 1}'
from generate_series(1, 3000) as number;
"""


@contextmanager
def session(dsn: str) -> Iterator[Any]:
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        yield cursor


def run(dsn: str, text: str) -> None:
    with session(dsn) as cursor:
        cursor.execute(text)
        cursor.connection.commit()


@pytest.fixture
def dsn(module_database: str) -> str:
    run(module_database, TABLES)
    run(module_database, postgres.statement("master_change_log"))
    run(module_database, "select master.keep_change_log('master.customers', 'customer_id')")
    return module_database


@pytest.fixture
def source(dsn: str) -> PostgresMaster:
    return PostgresMaster(dsn, "master.customers", ["customer_id"])


@pytest.fixture
def store(source: PostgresMaster, tmp_path: Path) -> PageStore:
    store = PageStore(tmp_path / "customers")
    Publisher(store).publish_from(source)
    return store


def refresh(store: PageStore, source: PostgresMaster) -> Manifest:
    return Publisher(store).refresh_from(source)


def names(store: PageStore, *keys: int) -> dict[int, str]:
    with store.open() as view:
        found = view.lookup(pa.array(keys, pa.int64()))
        return dict(zip(found["customer_id"].to_pylist(), found["name"].to_pylist(), strict=True))


def in_postgres(dsn: str) -> list[tuple[Any, ...]]:
    with session(dsn) as cursor:
        cursor.execute("select customer_id, name, balance, updated_at from master.customers order by customer_id")
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def in_pages(store: PageStore) -> list[tuple[Any, ...]]:
    with store.open(columns=["name", "balance", "updated_at"]) as view:
        return [tuple(row.values()) for row in view.read_pages(0, view.page_count()).to_pylist()]


def test_a_table_is_published_as_it_is_with_exact_types(dsn: str, store: PageStore) -> None:
    assert in_pages(store) == in_postgres(dsn)
    schema = store.manifest().shape.schema
    assert schema.field("balance").type == pa.decimal128(12, 2)
    assert schema.field("anything").type == pa.string(), "a number without a scale stays exact as text"
    assert schema.field("updated_at").type == pa.timestamp("us", "UTC")
    with store.open() as view:
        (row,) = view.lookup(pa.array([7])).to_pylist()
    assert (row["balance"], row["anything"], row["extra"]) == (Decimal("1.75"), "1.5", '{"a": 1}')
    assert len(row["tag"]) == 36


def test_what_commits_while_a_snapshot_is_read_is_not_in_it_but_in_the_next_refresh(
    dsn: str, source: PostgresMaster, tmp_path: Path
) -> None:
    store = PageStore(tmp_path / "customers")
    with source.snapshot() as snapshot:
        run(dsn, "update master.customers set name = 'later' where customer_id = 2999")
        Publisher(store).publish(snapshot)
    assert names(store, 2999) == {2999: "customer 2999"}
    refresh(store, source)
    assert names(store, 2999) == {2999: "later"}


def test_a_refresh_brings_inserts_updates_deletes_and_changed_keys(
    dsn: str, source: PostgresMaster, store: PageStore
) -> None:
    run(dsn, "insert into master.customers (customer_id, name) values (5000, 'new'), (-1, 'below')")
    run(dsn, "update master.customers set name = 'other' where customer_id in (3, 4)")
    run(dsn, "delete from master.customers where customer_id in (4, 5)")
    run(dsn, "update master.customers set customer_id = 6000 where customer_id = 6")
    run(dsn, "delete from master.customers where customer_id = 7; insert into master.customers values (7, 'back')")
    manifest = refresh(store, source)
    assert names(store, -1, 3, 4, 5, 6, 7, 5000, 6000) == {
        -1: "below",
        3: "other",
        7: "back",
        5000: "new",
        6000: "customer 6",
    }
    assert in_pages(store) == in_postgres(dsn)
    assert manifest.overlays[0].rows == 8, "only what changed was written"
    assert refresh(store, source).overlays == manifest.overlays, "and it is read once"


def test_a_transaction_that_commits_late_is_not_skipped(dsn: str, source: PostgresMaster, store: PageStore) -> None:
    with session(dsn) as late:
        late.execute("update master.customers set name = 'late' where customer_id = 1")  # draws the first number
        run(dsn, "update master.customers set name = 'early' where customer_id = 2")
        refresh(store, source)
        assert names(store, 1, 2) == {1: "customer 1", 2: "early"}
        run(dsn, "update master.customers set name = 'again' where customer_id = 3")
        refresh(store, source)
        late.connection.commit()
    changes = source.changes(store.manifest().position)
    assert changes.upserts["customer_id"].to_pylist() == [1], "the late one, and nothing a second time"
    refresh(store, source)
    assert names(store, 1, 2, 3) == {1: "late", 2: "early", 3: "again"}


def test_what_was_rolled_back_never_shows(dsn: str, source: PostgresMaster, store: PageStore) -> None:
    with session(dsn) as undone:
        undone.execute("update master.customers set name = 'undone' where customer_id = 1")
        undone.connection.rollback()
    changes = source.changes(store.manifest().position)
    assert (changes.upserts.num_rows, len(changes.deletes)) == (0, 0)


def test_changes_inside_savepoints_are_followed(dsn: str, source: PostgresMaster, store: PageStore) -> None:
    run(
        dsn,
        "begin; savepoint a; update master.customers set name = 'kept' where customer_id = 1; release a;"
        "savepoint b; update master.customers set name = 'undone' where customer_id = 2; rollback to b; commit",
    )
    refresh(store, source)
    assert names(store, 1, 2) == {1: "kept", 2: "customer 2"}


@pytest.mark.parametrize(
    "statement",
    [
        "truncate master.customers",
        "insert into master.customers (customer_id) select generate_series(10000, 270000)",
    ],
    ids=["truncate", "bulk"],
)
def test_after_a_truncate_or_a_bulk_change_all_of_it_has_to_be_read_again(
    dsn: str, source: PostgresMaster, store: PageStore, statement: str
) -> None:
    run(dsn, statement)
    with pytest.raises(RepublishNeeded, match=r"master\.customers cannot be followed: it was truncated or changed"):
        refresh(store, source)
    Publisher(store).publish_from(source)
    assert in_pages(store) == in_postgres(dsn)
    run(dsn, "insert into master.customers (customer_id, name) values (0, 'first')")
    refresh(store, source)
    assert names(store, 0) == {0: "first"}


def test_a_log_that_was_pruned_too_far_is_noticed(dsn: str, source: PostgresMaster, store: PageStore) -> None:
    old = store.manifest().position
    run(dsn, "update master.customers set name = 'one' where customer_id = 1")
    current = refresh(store, source).position
    assert prune_change_log(dsn, "master.customers", current) > 0
    run(dsn, "update master.customers set name = 'two' where customer_id = 2")
    assert source.changes(current).upserts.num_rows == 1, "who has read what was pruned goes on"
    with pytest.raises(RepublishNeeded, match="pruned before they were read"):
        source.changes(old)


def test_pruning_spares_what_a_late_transaction_may_still_bring(
    dsn: str, source: PostgresMaster, store: PageStore
) -> None:
    with session(dsn) as late:
        late.execute("update master.customers set name = 'late' where customer_id = 1")
        run(dsn, "update master.customers set name = 'early' where customer_id = 2")
        position = refresh(store, source).position
        prune_change_log(dsn, "master.customers", position)
        late.connection.commit()
    refresh(store, source)
    assert names(store, 1) == {1: "late"}


def test_a_log_that_was_not_fed_all_the_time_is_noticed(dsn: str, source: PostgresMaster, store: PageStore) -> None:
    run(dsn, "drop trigger log_update on master.customers")
    with pytest.raises(RepublishNeeded, match="not fed all the time"):
        refresh(store, source)
    run(dsn, "select master.keep_change_log('master.customers', 'customer_id')")
    with pytest.raises(RepublishNeeded, match="not fed all the time"):
        refresh(store, source)
    Publisher(store).publish_from(source)
    refresh(store, source)


def test_triggers_that_were_disabled_for_a_while_are_noticed(
    dsn: str, source: PostgresMaster, store: PageStore
) -> None:
    run(dsn, "alter table master.customers disable trigger log_update")
    run(dsn, "update master.customers set name = 'unseen' where customer_id = 1")
    run(dsn, "alter table master.customers enable trigger log_update")
    with pytest.raises(RepublishNeeded, match="not fed all the time"):
        refresh(store, source)
    Publisher(store).publish_from(source)
    assert names(store, 1) == {1: "unseen"}
    run(dsn, "alter table master.customers enable replica trigger log_update")
    with pytest.raises(RepublishNeeded, match="not fed all the time"):
        refresh(store, source)


SUBSCRIBED = """
create subscription fed connection 'dbname=nowhere' publication p
with (connect = false, enabled = false, slot_name = none);
insert into pg_subscription_rel (srsubid, srrelid, srsubstate)
select oid, 'master.customers'::regclass, 'r' from pg_subscription where subname = 'fed';
"""


def test_a_table_that_a_subscription_feeds_has_no_log_that_could_be_trusted(
    dsn: str, source: PostgresMaster, store: PageStore
) -> None:
    run(dsn, SUBSCRIBED)
    try:
        with pytest.raises(RepublishNeeded, match="not fed all the time"):
            refresh(store, source)
        Publisher(store).publish_from(source)
        with pytest.raises(RepublishNeeded, match="its change log is not fed"):
            refresh(store, source)
    finally:
        run(dsn, "drop subscription fed")
    with pytest.raises(RepublishNeeded, match="not fed all the time"):
        refresh(store, source)


def test_a_table_that_is_written_anew_is_noticed(dsn: str, source: PostgresMaster, store: PageStore) -> None:
    run(dsn, "alter table master.customers alter column name type text using upper(name || 'x')")
    with pytest.raises(RepublishNeeded, match="changed in bulk"):
        refresh(store, source)


def test_a_table_without_a_log_can_be_published_but_not_followed(dsn: str, tmp_path: Path) -> None:
    run(dsn, "create table master.plain (id bigint primary key)")
    source, store = PostgresMaster(dsn, "master.plain", ["id"]), PageStore(tmp_path / "plain")
    Publisher(store).publish_from(source)
    with pytest.raises(RepublishNeeded, match="its change log is not fed; `frontstage master follow`"):
        refresh(store, source)
    assert keep_change_log(dsn, "master.plain", ["id"])
    assert not keep_change_log(dsn, "master.plain", ["id"])
    Publisher(store).publish_from(source)
    run(dsn, "insert into master.plain values (1)")
    assert refresh(store, source).rows == 1


PARTITIONED = """
drop table if exists master.parts, master.low, master.high;
create table master.parts (id bigint primary key, name text) partition by range (id);
create table master.low partition of master.parts for values from (0) to (100);
create table master.high partition of master.parts for values from (100) to (200) partition by range (id);
create table master.higher partition of master.high for values from (100) to (200);
insert into master.parts select number, 'part' from generate_series(1, 150) as number;
"""


def test_changes_of_a_partitioned_table_are_followed_whatever_table_a_statement_names(dsn: str, tmp_path: Path) -> None:
    run(dsn, PARTITIONED)
    source, store = PostgresMaster(dsn, "master.parts", ["id"]), PageStore(tmp_path / "parts")
    Publisher(store).publish_from(source)
    with pytest.raises(RepublishNeeded, match="its change log is not fed"):
        refresh(store, source)
    assert keep_change_log(dsn, "master.parts", ["id"])
    assert not keep_change_log(dsn, "master.parts", ["id"])
    Publisher(store).publish_from(source)
    run(dsn, "insert into master.low values (0, 'directly'); update master.higher set name = 'directly' where id = 150")
    run(dsn, "insert into master.parts values (199, 'whole'); delete from master.parts where id = 2")
    manifest = refresh(store, source)
    assert (manifest.rows, manifest.overlays[-1].rows) == (151, 4)
    run(dsn, "create table master.more (like master.parts including all); insert into master.more values (200, 'new')")
    run(dsn, "alter table master.parts attach partition master.more for values from (200) to (300)")
    with pytest.raises(RepublishNeeded, match="its change log was not fed all the time"):
        refresh(store, source)
    assert keep_change_log(dsn, "master.parts", ["id"]), "the new partition is followed, too"
    assert Publisher(store).publish_from(source).rows == 152
    run(dsn, "truncate master.more")
    with pytest.raises(RepublishNeeded, match="truncated"):
        refresh(store, source)
    Publisher(store).publish_from(source)
    run(dsn, "alter table master.parts detach partition master.low")
    with pytest.raises(RepublishNeeded):
        refresh(store, source)


@pytest.mark.parametrize("table", ["master.elder", "master.higher"])
def test_tables_whose_rows_change_under_another_name_are_not_followed(dsn: str, table: str) -> None:
    run(dsn, PARTITIONED)
    run(dsn, "create table master.elder (id bigint primary key); create table master.heir () inherits (master.elder)")
    assert keep_change_log(dsn, table, ["id"])
    assert keep_change_log(dsn, table, ["id"]), "a statement that names the other table fires no trigger of this one"


def test_what_cannot_be_followed_by_triggers_is_told(dsn: str) -> None:
    run(dsn, "create view master.some as select customer_id from master.customers")
    for table in ("master.some", "master.nowhere"):
        with pytest.raises(MissingPart, match=f"master table {table} cannot|changes of master table {table} cannot"):
            keep_change_log(dsn, table, ["customer_id"])


def test_an_application_without_rights_in_the_log_can_change_a_table_that_is_followed(
    dsn: str, source: PostgresMaster, store: PageStore
) -> None:
    run(dsn, "drop role if exists shop; create role shop; grant usage on schema master to shop")
    run(dsn, "grant select, update on master.customers to shop")
    run(dsn, "set role shop; update master.customers set name = 'by the shop' where customer_id = 7")
    assert refresh(store, source).overlays[-1].rows == 1
    run(dsn, "drop owned by shop; drop role shop")


def test_positions_of_another_server_or_of_the_future_are_refused(source: PostgresMaster, store: PageStore) -> None:
    here = store.manifest().position
    with pytest.raises(RepublishNeeded, match="another server"):
        source.changes({**here, "server": "1"})
    with pytest.raises(RepublishNeeded, match="went back in time"):
        source.changes({**here, "snapshot": "99999999:99999999:"})


PRICES = """
create table master.prices (shop text, "product""s id" uuid, price numeric(9, 4), primary key (shop, "product""s id"));
select master.keep_change_log('master.prices', 'shop', 'product"s id');
insert into master.prices select shop, gen_random_uuid(), 1.25
from generate_series(1, 50), unnest(array['a', 'B', 'é', 'Z', '', 'a b', 'a-b']) as shop;
"""


def test_composite_and_text_keys_are_ordered_by_bytes_and_followed(dsn: str, tmp_path: Path) -> None:
    run(dsn, PRICES)
    source = PostgresMaster(dsn, "master.prices", ["shop", 'product"s id'])
    store = PageStore(tmp_path / "prices")
    assert Publisher(store).publish_from(source).rows == 350
    run(dsn, "delete from master.prices where shop = 'B'; update master.prices set price = 9 where shop = 'é'")
    assert refresh(store, source).rows == 300
    with store.open() as view:
        rows = view.read_pages(0, view.page_count()).to_pylist()
        assert {row["key"]["shop"] for row in rows if row["price"] == 9} == {"é"}
        (found,) = view.lookup(pa.array([rows[7]["key"]], view.shape.key_type)).to_pylist()
        assert found == rows[7]


def test_following_updated_at_sees_what_a_transaction_writes_that_had_only_read_before(
    dsn: str, tmp_path: Path
) -> None:
    source = PostgresMaster(
        dsn, "master.customers", ["customer_id"], ["name"], follow="updated_at", overlap=timedelta(0)
    )
    store = PageStore(tmp_path / "customers")
    with session(dsn) as late:
        late.execute("select now()")  # its rows are dated by this moment, whenever it writes them
        Publisher(store).publish_from(source)
        late.execute("update master.customers set name = 'late', updated_at = now() where customer_id = 1")
        late.connection.commit()
    refresh(store, source)
    assert names(store, 1) == {1: "late"}


def test_following_updated_at_sees_late_commits_but_no_deletions(dsn: str, tmp_path: Path) -> None:
    source = PostgresMaster(dsn, "master.customers", ["customer_id"], ["name"], follow="updated_at")
    store = PageStore(tmp_path / "customers")
    with session(dsn) as late:
        late.execute("update master.customers set name = 'late', updated_at = now() where customer_id = 1")
        Publisher(store).publish_from(source)
        late.connection.commit()
    run(dsn, "delete from master.customers where customer_id = 2")
    refresh(store, source)
    assert names(store, 1, 2) == {1: "late", 2: "customer 2"}


def test_the_column_that_dates_rows_is_the_one_that_the_pipeline_names(dsn: str, tmp_path: Path) -> None:
    run(dsn, "alter table master.customers rename updated_at to changed_at")
    on = (("customer", "customer_id"),)
    master = Master(
        "customer", "postgres", "master.customers", on, ("name",), version="changed_at", follow="updated_at"
    )
    source, store = source_of(load(home=tmp_path), dsn, master), PageStore(tmp_path / "customers")
    Publisher(store).publish_from(source)
    run(dsn, "update master.customers set name = 'new', changed_at = now() where customer_id = 1")
    refresh(store, source)
    assert names(store, 1) == {1: "new"}


def open_snapshot(source: PostgresMaster) -> None:
    with source.snapshot():
        pass


def test_a_missing_table_and_an_unreachable_server_are_told_apart(dsn: str) -> None:
    with pytest.raises(MissingPart, match=r"master table master\.nothing cannot be read .*does not exist"):
        open_snapshot(PostgresMaster(dsn, "master.nothing", ["id"]))
    with pytest.raises(PostgresUnavailable) as unreachable:
        open_snapshot(PostgresMaster("postgresql://someone:hunter2@127.0.0.1:1/x", "master.customers", ["id"]))
    assert "hunter2" not in str(unreachable.value)


def test_a_table_that_somebody_locks_is_worth_another_try(
    dsn: str, source: PostgresMaster, store: PageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "LOCK_TIMEOUT", "set lock_timeout = '50ms'")
    with session(dsn) as altering:
        altering.execute("lock table master.customers")
        with pytest.raises(PostgresUnavailable, match="lock timeout"):
            source.changes(store.manifest().position)
        with pytest.raises(PostgresUnavailable, match="lock timeout"):
            open_snapshot(source)
    assert source.changes(store.manifest().position).upserts.num_rows == 0


def test_a_number_that_is_none_is_named_with_its_column(dsn: str, source: PostgresMaster, tmp_path: Path) -> None:
    run(dsn, "update master.customers set balance = 'NaN' where customer_id = 8")
    with pytest.raises(ColumnMismatch, match="column 'balance' is no finite number in some row"):
        Publisher(PageStore(tmp_path / "customers")).publish_from(source)


END_EVERYBODY = """
select pg_terminate_backend(pid) from pg_stat_activity
where pid <> pg_backend_pid() and datname = current_database()
"""


def test_a_connection_lost_half_way_is_worth_another_try(dsn: str, source: PostgresMaster, tmp_path: Path) -> None:
    run(dsn, "insert into master.customers select n, repeat('x', 500) from generate_series(100000, 200000) n")
    with source.snapshot() as snapshot:
        batches = iter(snapshot.batches)
        next(batches)
        run(
            dsn,
            END_EVERYBODY,
        )
        with pytest.raises(MasterUnavailable, match=r"'master\.customers' does not answer"):
            list(batches)
