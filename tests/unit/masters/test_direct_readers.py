"""Masters read in place: a real Postgres under change, and Delta tables as different writers leave them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

from etl.adapters import postgres
from etl.columnar.errors import KeyTypeUnsupported
from etl.contract.model import Master
from etl.enrich.batch import build, join_batch
from etl.errors import MasterUnavailable, MissingPart, PostgresUnavailable, SettingsError
from etl.masters.delta.reader import PinnedDelta, pin_delta
from etl.masters.delta.source import DeltaMaster
from etl.masters.delta.table import DeltaFilesGone
from etl.masters.direct import PostgresMasters
from etl.masters.pages.errors import ColumnMismatch, RepublishNeeded
from etl.masters.postgres.reader import PinnedTable, exported_snapshot
from tests.support.delta_tables import commit, customers, logged, mark_deleted, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def keys(*values: Any) -> pa.Array:
    return pa.array(values)


def names(rows: pa.Table) -> dict[Any, str]:
    return dict(zip(rows.column(0).to_pylist(), rows.column("name").to_pylist(), strict=True))


def everything(master: Any) -> pa.Table:
    return pa.concat_tables([master.read_pages(page, 1) for page in range(master.page_count())])


# --- Postgres

PEOPLE = """
create schema if not exists direct;
create table direct.people (id bigint primary key, name text);
insert into direct.people select number, 'person ' || number from generate_series(1, 1000) as number;
"""


@pytest.fixture
def dsn(postgres_server: str) -> Iterator[str]:
    run(postgres_server, PEOPLE)
    yield postgres_server
    run(postgres_server, "drop schema direct cascade")


def run(dsn: str, text: str) -> None:
    with postgres.connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(text)


@pytest.fixture
def people(dsn: str) -> Iterator[PinnedTable]:
    with exported_snapshot(dsn) as snapshot:
        yield snapshot.pin("direct.people", ["id"], page_rows=100, rows_per_query=64)


def test_every_reader_of_a_batch_sees_one_moment_whatever_is_committed_meanwhile(dsn: str, people: PinnedTable) -> None:
    with people.open() as early:
        assert early.page_count() == 10
        run(dsn, "update direct.people set name = 'changed' where id <= 500")
        run(dsn, "insert into direct.people values (0, 'new'), (2000, 'new')")
        run(dsn, "delete from direct.people where id between 901 and 1000")
        with people.open() as late:
            for master in (early, late):
                assert names(master.lookup(keys(0, 1, 950, 2000))) == {1: "person 1", 950: "person 950"}
                assert names(everything(master)) == {number: f"person {number}" for number in range(1, 1001)}
                rows, pages = master.pages_holding(keys(0, 1, 2000))
                assert (pages, {1, 1000} <= {*names(rows)}) == (2, True)
    with exported_snapshot(dsn) as snapshot, snapshot.pin("direct.people", ["id"]).open() as master:
        assert names(master.lookup(keys(0, 1, 950, 2000))) == {0: "new", 1: "changed", 2000: "new"}


def test_a_pinned_table_travels_and_keeps_its_dsn_to_itself(dsn: str, people: PinnedTable) -> None:
    travelled = pickle.loads(pickle.dumps(people))
    assert travelled == people
    assert dsn not in repr(travelled)
    assert (travelled.table, travelled.key, travelled.columns) == ("direct.people", ("id",), ("name",))
    with travelled.open() as master:
        assert master.lookup(keys(5)).schema == travelled.schema


IN_TRANSACTION = """
select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'
"""


def test_a_reader_has_one_connection(dsn: str, people: PinnedTable) -> None:
    with postgres.connect(dsn, autocommit=True) as watching, watching.cursor() as cursor, ExitStack() as readers:

        def connections() -> int:
            cursor.execute(IN_TRANSACTION)
            return int((cursor.fetchone() or (0,))[0])

        before = connections()
        for number in range(1, 4):
            master = readers.enter_context(people.open())
            master.lookup(keys(*range(500)))
            master.pages_holding(keys(3, 700))
            assert connections() == before + number
        readers.close()
        assert any(connections() == before for _ in range(10_000)), "the server notices in its own time"


END_EVERYBODY = """
select pg_terminate_backend(pid) from pg_stat_activity
where pid <> pg_backend_pid() and datname = current_database() and backend_type = 'client backend'
"""


def test_a_batch_that_is_over_or_a_lost_connection_is_worth_another_try(dsn: str, people: PinnedTable) -> None:
    with people.open() as master:
        run(dsn, END_EVERYBODY)
        with pytest.raises(MasterUnavailable, match=r"'direct\.people' does not answer"):
            everything(master)
    with exported_snapshot(dsn) as snapshot:
        outlived = snapshot.pin("direct.people", ["id"])
    with pytest.raises(MasterUnavailable), outlived.open():
        pass
    nowhere = "postgresql://someone:hunter2@127.0.0.1:1/x"
    with pytest.raises(PostgresUnavailable) as unreachable, exported_snapshot(nowhere):
        pass
    assert "hunter2" not in str(unreachable.value)


def test_pages_are_even_and_the_same_with_and_without_an_index(dsn: str) -> None:
    run(dsn, "create view direct.seen as select * from direct.people where id % 3 = 0")
    run(dsn, "create table direct.bare as select * from direct.people order by random()")
    with exported_snapshot(dsn) as snapshot:
        sizes = {}
        for table in ("direct.people", "direct.bare", "direct.seen"):
            with snapshot.pin(table, ["id"], page_rows=30).open() as master:
                sizes[table] = [master.read_pages(page, 1).num_rows for page in range(master.page_count())]
        assert sizes["direct.people"] == sizes["direct.bare"] == [30] * 33 + [10]
        assert sizes["direct.seen"] == [30] * 11 + [3]


def test_a_lookup_reads_the_rows_of_its_keys_and_lays_out_no_pages(dsn: str) -> None:
    run(dsn, "create view direct.trap as select * from direct.people where 1 / (id - 950) is not null")
    with exported_snapshot(dsn) as snapshot, snapshot.pin("direct.trap", ["id"]).open() as master:
        assert names(master.lookup(keys(5))) == {5: "person 5"}
        with pytest.raises(MissingPart, match=r"cannot be read \(division by zero\)"):
            master.page_count()


@pytest.mark.parametrize("fences", [[-5], [5000], [1, 2, 3, 990], [400, 100_000, 200_000], list(range(0, 2000, 7))])
def test_any_fences_give_every_row_once(dsn: str, fences: list[int]) -> None:
    with exported_snapshot(dsn) as snapshot:
        pinned = snapshot.pin("direct.people", ["id"], fences=pa.table({"id": fences}))
        with pinned.open() as master:
            assert master.page_count() == len(fences)
            assert everything(master).column("id").to_pylist() == list(range(1, 1001))
            rows, _ = master.pages_holding(keys(1, 500, 1000, -9, 5000))
            assert {1, 500, 1000} <= {*names(rows)}


def test_fences_found_once_serve_every_task_and_later_batches(dsn: str) -> None:
    with exported_snapshot(dsn) as snapshot:
        laid_out = snapshot.with_fences(snapshot.pin("direct.people", ["id"], page_rows=100))
        assert pickle.loads(pickle.dumps(laid_out)).fences.num_rows == 10
    run(dsn, "insert into direct.people select number, 'late' from generate_series(5000, 5300) as number")
    with exported_snapshot(dsn) as later, later.pin("direct.people", ["id"], fences=laid_out.fences).open() as master:
        assert everything(master).num_rows == 1301


def test_a_table_that_was_empty_is_joined_by_pages_once_it_has_rows(dsn: str) -> None:
    run(dsn, "create table direct.late (id bigint primary key, name text)")
    masters = PostgresMasters(dsn, [Master("late", "postgres", "direct.late", (("id", "id"),), ("name",))], 1_000)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    with masters.pinned("batch 1", now, print) as (empty,), empty.open() as ports:
        assert ports.page_count() == 0
    run(dsn, "insert into direct.late select number, 'late ' || number from generate_series(1, 3) as number")
    with masters.pinned("batch 2", now, print) as (filled,), filled.open() as ports:
        for tactic in ("inlj", "hybridjoin", "meshjoin", "auto"):
            join = build(tactic, lookup=ports, scan=ports, index=ports, budget_bytes=1 << 20)
            assert join_batch(join, keys(1, 2, 3, 4)).position.tolist()[3] == -1
            assert (join_batch(join, keys(1, 2, 3)).position >= 0).all()
    assert empty.rows_id != filled.rows_id


def test_rows_of_another_database_or_with_other_columns_have_another_name(dsn: str) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)

    def rows_id(at: str, *columns: str) -> str:
        masters = PostgresMasters(at, [Master("people", "postgres", "direct.people", (("id", "id"),), columns)], 1_000)
        with masters.pinned("batch", now, print) as (pinned,):
            return pinned.rows_id.replace(f":{pinned.version} ", " ")

    assert rows_id(dsn, "name") == rows_id(dsn, "name")
    assert rows_id(dsn, "name") != rows_id(dsn)
    with exported_snapshot(dsn) as here:
        server, timeline, database = here.origin.split(":")
    assert server.isdigit()
    assert timeline.isdigit()
    assert database.isdigit()


ODD = ["", " ", "NULL", "null", "a,b", "{x}", 'say "hi"', "back\\slash", "it's", "é", "É", "z", "Z", "%s", "a\nb"]


def test_any_text_can_be_a_key_under_any_name(dsn: str) -> None:
    run(dsn, 'create table direct."Odd ""names""" ("the ""key""" varchar primary key, "name" text)')
    rows = pa.table({'the "key"': ODD, "name": [f"row {number}" for number in range(len(ODD))]})
    with postgres.connect(dsn, autocommit=True) as connection:
        postgres.copy_in(connection, 'direct.Odd "names"', rows)
    with exported_snapshot(dsn) as snapshot:
        pinned = snapshot.pin('direct.Odd "names"', ['the "key"'], page_rows=2)
        with pinned.open() as master:
            assert sorted(everything(master).column(0).to_pylist()) == sorted(ODD)
            assert names(master.lookup(keys(*ODD, "absent", "nul\x00"))) == dict(
                zip(ODD, rows["name"].to_pylist(), strict=True)
            )
            for text in ODD:
                assert text in names(master.pages_holding(keys(text))[0])


def test_text_not_known_to_be_in_byte_order_is_put_in_it_and_only_a_c_index_serves(dsn: str) -> None:
    run(dsn, "create collation direct.local (provider = libc, locale = 'C.UTF-8')")
    run(dsn, "create table direct.words (word text collate direct.local primary key, name text)")
    run(dsn, "insert into direct.words select w, w from unnest(array['a', 'B', 'b', 'A', 'é', 'Z', 'z', '-', '_']) w")
    with exported_snapshot(dsn) as snapshot:
        pinned = snapshot.pin("direct.words", ["word"], page_rows=2)
        assert (pinned.unique, pinned.indexed) == (True, False)
        with pinned.open() as master:
            words = everything(master).column("word").to_pylist()
            assert words == sorted(words, key=str.encode)
            assert all(word in names(master.pages_holding(keys(word))[0]) for word in words)
    run(dsn, 'create index on direct.words (word collate "C")')
    with exported_snapshot(dsn) as snapshot:
        pinned = snapshot.pin("direct.words", ["word"], page_rows=2)
        with pinned.open() as master:
            assert pinned.indexed
            assert everything(master).column("word").to_pylist() == words


def test_values_arrive_exactly_and_those_that_cannot_are_named(dsn: str) -> None:
    run(dsn, "create table direct.kinds (id integer primary key, exact numeric(12, 2), free numeric, at timestamptz, "
             "local timestamp, day date, ok boolean, tag uuid, extra jsonb, ratio double precision)")  # fmt: skip
    run(dsn, "insert into direct.kinds values (1, 1.75, 1.000000000000000000001, '2026-01-01 10:00:00.000005+02', "
             "'2026-01-01 10:00:00.25', '2026-01-02', true, '00000000-0000-0000-0000-000000000001', "
             "'{\"a\": 1}', 0.1)")  # fmt: skip
    run(dsn, "insert into direct.kinds (id) values (2)")
    with exported_snapshot(dsn) as snapshot, snapshot.pin("direct.kinds", ["id"]).open() as master:
        # keys may be wider than the column: what it cannot hold is absent
        first, second = master.lookup(keys(1, 2, 5_000_000_000)).sort_by("id").to_pylist()
    assert (first["exact"], first["free"]) == (Decimal("1.75"), "1.000000000000000000001")
    assert first["at"] == datetime(2026, 1, 1, 8, 0, 0, 5, tzinfo=UTC)
    assert first["local"] == datetime(2026, 1, 1, 10, 0, 0, 250_000)
    assert (first["ok"], first["ratio"], first["extra"]) == (True, 0.1, '{"a": 1}')
    assert {value for name, value in second.items() if name != "id"} == {None}
    run(dsn, "insert into direct.kinds (id, exact) values (3, 'NaN')")
    with exported_snapshot(dsn) as snapshot, snapshot.pin("direct.kinds", ["id"]).open() as master:
        with pytest.raises(ColumnMismatch, match="column 'exact' is no finite value in some row"):
            master.lookup(keys(3))
        assert master.lookup(keys(1)).num_rows == 1


def test_what_is_missing_in_postgres_is_named_with_its_remedy(dsn: str, people: PinnedTable) -> None:
    run(dsn, "create table direct.tags (tag uuid primary key)")
    with exported_snapshot(dsn) as snapshot:
        with pytest.raises(MissingPart, match=r"direct\.nothing cannot be read \(it does not exist\); create it"):
            snapshot.pin("direct.nothing", ["id"])
        with pytest.raises(MissingPart, match="column nme does not exist"):
            snapshot.pin("direct.people", ["id"], ["nme"])
        with pytest.raises(KeyTypeUnsupported, match="keys of type uuid cannot be joined"):
            snapshot.pin("direct.tags", ["tag"])
        with pytest.raises(SettingsError, match="page_rows=0 is not positive"):
            snapshot.pin("direct.people", ["id"], page_rows=0)
    with people.open() as master, pytest.raises(IndexError, match="pages 9 to 10 are not all among 10 pages"):
        master.read_pages(9, 2)


def test_the_version_says_when_rows_may_differ(dsn: str, database: str) -> None:
    def versions(where: str, table: str, key: str) -> int:
        with exported_snapshot(where) as snapshot:
            return snapshot.pin(table, [key]).version

    before = versions(database, "master.products", "product_id")
    run(database, "delete from master.products")
    assert versions(database, "master.products", "product_id") == before + 1, "counted by the table's trigger"
    quiet = versions(dsn, "direct.people", "id")
    assert versions(dsn, "direct.people", "id") == quiet
    run(dsn, "delete from direct.people where id = 1")
    assert versions(dsn, "direct.people", "id") != quiet, "not counted, so every commit may have changed it"


# --- both, under the real joins

TACTICS = ["cinlj", "chybridjoin", "cmeshjoin", "hybridjoin", "auto"]


@pytest.mark.parametrize("tactic", TACTICS)
@pytest.mark.parametrize("place", ["postgres", "delta"])
def test_every_join_finds_what_is_there_in_place(tactic: Any, place: str, people: PinnedTable, tmp_path: Path) -> None:
    write(tmp_path / "people", customers(range(1, 1001), "person"))
    pinned: PinnedTable | PinnedDelta = people if place == "postgres" else pin_delta(tmp_path / "people", ["id"])
    wanted = [number * number % 1300 for number in range(3000)]
    with pinned.open() as master:
        join = build(tactic, lookup=master, scan=master, index=master, budget_bytes=4 << 20)
        result = join_batch(join, pa.array(wanted))
    found = result.master.column("name").to_pylist()
    assert [found[at] if at >= 0 else None for at in result.position.tolist()] == [
        f"person {number}" if 1 <= number <= 1000 else None for number in wanted
    ]


# --- Delta


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Customers 0 … 999 in row groups of 100, in order."""
    write(tmp_path / "customers", customers(range(1000)))
    return tmp_path / "customers"


def test_a_pinned_version_stays_as_it_was_and_travels(path: Path) -> None:
    pinned = pickle.loads(pickle.dumps(pin_delta(path, ["id"])))
    DeltaTable(path).update(updates={"name": "'changed'"}, predicate="id = 1")
    DeltaTable(path).delete("id = 2")
    write(path, customers([5000]))
    again = pin_delta(path, ["id"], version=0)
    for old in (pinned, again):
        with old.open() as master:
            assert names(master.lookup(keys(1, 2, 5000))) == {1: "customer 1", 2: "customer 2"}
            assert master.lookup(keys(1)).schema == old.schema
    with pin_delta(path, ["id"]).open() as master:
        assert names(master.lookup(keys(1, 2, 5000))) == {1: "changed", 5000: "customer 5000"}


def test_only_files_and_row_groups_that_can_hold_a_key_are_read(path: Path) -> None:
    (first,) = path.glob("*.parquet")
    write(path, customers(range(2000, 3000)))
    pinned = pin_delta(path, ["id"])
    first.unlink()
    with pinned.open() as master:
        assert names(master.lookup(keys(2500, 1500, -3, 9000))) == {2500: "customer 2500"}
        rows, pages = master.pages_holding(keys(2500, 1500))
        assert (pages, sorted(names(rows))) == (1, list(range(2500, 2600)))
        with pytest.raises(DeltaFilesGone, match=r"files of version 1 of Delta table .*VACUUM has to keep"):
            master.lookup(keys(5))


def test_a_key_cache_of_no_size_costs_reading_and_nothing_else(path: Path) -> None:
    with pin_delta(path, ["id"], key_cache_bytes=0).open() as master:
        for _ in range(2):
            assert sorted(names(master.lookup(keys(5, 250, 999)))) == [5, 250, 999]


def test_deletion_vectors_take_rows_away_from_every_port(path: Path) -> None:
    mark_deleted(path, 3, 200, 999)
    with pin_delta(path, ["id"]).open() as master:
        assert sorted(names(everything(master))) == sorted({*range(1000)} - {3, 200, 999})
        assert names(master.lookup(keys(3, 4, 200, 999))) == {4: "customer 4"}
        rows, pages = master.pages_holding(keys(999, 998))
        assert (pages, rows.num_rows) == (1, 99)
        assert master.pages_holding(keys(999))[1] == 0
    with pin_delta(path, ["id"], version=0).open() as master:
        assert master.lookup(keys(3, 200)).num_rows == 2


def test_tables_whose_files_mean_something_else_are_refused(path: Path) -> None:
    described = logged(path, 0, "metaData")
    commit(path, {"metaData": {**described, "configuration": {"delta.columnMapping.mode": "name"}}})
    with pytest.raises(MissingPart, match=r"for its feature columnMapping\); publish it as master pages"):
        pin_delta(path, ["id"])


def test_partition_values_and_younger_columns_are_filled_in(tmp_path: Path) -> None:
    rows = customers(range(40)).append_column("region", pa.array(["a b", "ü%", "c/d", None] * 10))
    write(tmp_path / "odd place", rows, partition_by=["region"])
    DeltaTable(tmp_path / "odd place").alter.add_columns([Field("size", PrimitiveType("integer"))])
    with pin_delta(tmp_path / "odd place", ["id"]).open() as master:
        found = master.lookup(keys(0, 1, 2, 3)).sort_by("id").to_pylist()
        assert [(row["region"], row["size"]) for row in found] == [
            ("a b", None), ("ü%", None), ("c/d", None), (None, None),
        ]  # fmt: skip
    write(tmp_path / "keyed", rows.filter(rows["region"].is_valid()), partition_by=["region"])
    keyed = pin_delta(tmp_path / "keyed", ["region", "id"])
    wanted = pa.array([{"region": "ü%", "id": 5}, {"region": "a b", "id": 5}], keyed.schema.field("key").type)
    with keyed.open() as master:
        assert [row["name"] for row in master.lookup(wanted).to_pylist()] == ["customer 5"]


def test_long_text_keys_are_found_though_their_bounds_are_shortened(tmp_path: Path) -> None:
    texts = [("x" * 200) + f"{number * 7 % 500:04d}" + "\U0010ffff" * 3 for number in range(500)]
    write(tmp_path / "t", pa.table({"id": texts, "name": texts}))
    with pin_delta(tmp_path / "t", ["id"]).open() as master:
        assert sorted(names(master.lookup(pa.array(texts)))) == sorted(texts)


def test_what_is_missing_or_damaged_in_delta_is_named_with_its_remedy(path: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingPart, match="there is no Delta table"):
        pin_delta(tmp_path / "nothing", ["id"])
    with pytest.raises(MissingPart, match=r"it has no version 7 \(any more\)"):
        pin_delta(path, ["id"], version=7)
    with pytest.raises(MissingPart, match="it has no column 'code'"):
        pin_delta(path, ["code"])
    (file,) = path.glob("*.parquet")
    whole = file.read_bytes()
    pinned = pin_delta(path, ["id"])
    file.write_bytes(b"PAR1" + bytes(len(whole) // 2) + whole[4 + len(whole) // 2 :])
    with pinned.open() as master, pytest.raises(MissingPart, match=r"\.parquet is damaged"):
        master.read_pages(0, 1)
    file.write_bytes(whole[:-50])
    with pytest.raises(MissingPart, match=r"\.parquet is damaged.*restore the file"):
        pin_delta(path, ["id"])


@pytest.mark.spark
def test_a_table_that_spark_wrote_and_marked_is_read_as_spark_reads_it(spark: SparkSession, tmp_path: Path) -> None:
    where = f"delta.`{tmp_path / 'spark'}`"
    spark.sql(
        f"create table {where} (id bigint, name string, at timestamp, region int) using delta partitioned by (region) "
        "tblproperties ('delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql(f"insert into {where} select id, concat('n', id), timestamp_seconds(id + 0.5), id % 2 from range(500)")
    spark.sql(f"delete from {where} where id in (7, 8, 499)")
    source = DeltaMaster(tmp_path / "spark", ["id"])
    with source.snapshot() as snapshot:
        since = snapshot.position
        published = pa.Table.from_batches(snapshot.batches)
    with pin_delta(tmp_path / "spark", ["id"]).open() as master:
        direct = everything(master)
    assert direct.sort_by("id").equals(published.sort_by("id"))
    assert direct.schema.field("at").type == pa.timestamp("us", "UTC")
    expected = {row.id: row.name for row in spark.read.load(str(tmp_path / "spark"), format="delta").collect()}
    assert names(direct) == expected
    spark.sql(f"update {where} set name = 'changed' where id = 5")
    assert names(source.changes(since).upserts) == {5: "changed"}
    spark.sql(f"delete from {where} where region = 0")
    with pytest.raises(RepublishNeeded, match="deletion vectors"):
        source.changes(since)
