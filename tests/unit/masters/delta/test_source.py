"""Master pages from real Delta tables: one version whole, and every change once, or the word that it cannot be told."""

from __future__ import annotations

import random
import shutil
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

from etl.enrich.errors import DuplicateMasterKey, NullMasterKey
from etl.errors import MissingPart
from etl.masters.delta.source import DeltaMaster
from etl.masters.delta.table import DeltaFilesGone
from etl.masters.pages.errors import RepublishNeeded
from etl.masters.pages.publish import Publisher
from etl.masters.pages.store import PageStore
from etl.masters.source import Changes
from tests.support.delta_tables import commit, customers, logged, mark_deleted, write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table of customers 0 … 999 with its change data feed on."""
    write(tmp_path / "customers", customers(range(1000)))
    return tmp_path / "customers"


@pytest.fixture
def source(path: Path) -> DeltaMaster:
    return DeltaMaster(path, ["id"])


def position(source: DeltaMaster) -> Any:
    with source.snapshot() as snapshot:
        return snapshot.position


def as_dicts(changes: Changes) -> tuple[dict[int, str], set[int]]:
    upserts = changes.upserts
    return dict(zip(upserts["id"].to_pylist(), upserts["name"].to_pylist(), strict=True)), set(
        changes.deletes.to_pylist()
    )


def in_delta(path: Path) -> dict[int, str]:
    rows = pa.table(DeltaTable(path).scan().read_all())
    return dict(zip(rows["id"].to_pylist(), rows["name"].to_pylist(), strict=True))


def in_pages(store: PageStore) -> dict[int, str]:
    with store.open() as view:
        rows = view.read_pages(0, view.page_count())
        return dict(zip(rows["id"].to_pylist(), rows["name"].to_pylist(), strict=True))


def remove_rows(path: Path) -> None:
    """From now on, whoever reads rows fails."""
    for file in path.rglob("*.parquet"):
        file.unlink()


def test_a_version_is_published_whole_with_the_types_postgres_gives(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "note": pa.array(["late", None, "early"]),
            "id": pa.array([7, -1, 3], pa.int64()),
            "balance": pa.array([Decimal("1.75"), None, Decimal("-2.00")], pa.decimal128(12, 2)),
            "updated_at": pa.array([datetime(2026, 1, 1, 10, 0, 0, 5, tzinfo=UTC)] * 3, pa.timestamp("us", "UTC")),
            "born": pa.array([1, 2, None], pa.date32()),
            "active": pa.array([True, None, False]),
            "size": pa.array([1, 2, 3], pa.int32()),
        }
    )
    write(tmp_path / "t", rows.slice(0, 2))
    write(tmp_path / "t", rows.slice(2))
    store = PageStore(tmp_path / "pages")
    assert Publisher(store).publish_from(DeltaMaster(tmp_path / "t", ["id"])).rows == 3
    with store.open() as view:
        published = view.read_pages(0, view.page_count())
    assert published.select(rows.column_names).to_pylist() == rows.sort_by("id").to_pylist()
    assert published.select(rows.column_names).schema.types == rows.schema.types


def test_only_the_columns_asked_for_are_published(path: Path, tmp_path: Path) -> None:
    with DeltaMaster(path, ["name"], []).snapshot() as snapshot:
        assert snapshot.schema.names == ["name"]
        assert sum(batch.num_rows for batch in snapshot.batches) == 1000


def test_changes_bring_every_key_once_in_its_latest_state(path: Path, source: DeltaMaster) -> None:
    since = position(source)
    table = DeltaTable(path)
    table.update(updates={"name": "'first'"}, predicate="id in (1, 2)")
    table.update(updates={"name": "'second'"}, predicate="id = 1")
    table.delete("id in (3, 4)")
    write(path, customers([3], "back"))  # deleted and put back
    write(path, customers([2000, 2001], "new"))
    DeltaTable(path).delete("id = 2001")  # came and went
    DeltaTable(path).update(updates={"id": "3000"}, predicate="id = 5")  # the key itself changed
    upserts, deletes = as_dicts(source.changes(since))
    assert upserts == {1: "second", 2: "first", 3: "back 3", 2000: "new 2000", 3000: "customer 5"}
    assert deletes == {4, 5, 2001}


def test_a_merge_and_an_overwrite_are_followed(path: Path, source: DeltaMaster) -> None:
    since = position(source)
    arriving = customers([998, 999, 1000, 1001], "merged")
    (
        DeltaTable(path)
        .merge(arriving, "t.id = s.id", source_alias="s", target_alias="t")
        .when_matched_delete("s.id = 998")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )
    assert as_dicts(source.changes(since)) == ({n: f"merged {n}" for n in (999, 1000, 1001)}, {998})
    write(path, customers(range(5), "anew"), mode="overwrite")
    upserts, deletes = as_dicts(source.changes(since))
    assert upserts == {n: f"anew {n}" for n in range(5)}
    assert {5, 997, 999, 1001} <= deletes
    assert not deletes & {*upserts}


def test_refreshed_pages_are_the_table_after_any_history(path: Path, source: DeltaMaster, tmp_path: Path) -> None:
    store = PageStore(tmp_path / "pages")
    publisher = Publisher(store)
    publisher.publish_from(source)
    draw = random.Random(7)
    for step in range(12):
        for _ in range(draw.randrange(1, 4)):
            low = draw.randrange(0, 1500)
            present = in_delta(path)
            missing = [number for number in range(low, low + 40) if number not in present]
            match draw.choice(["delete", "update", "insert", "move", "optimize"]):
                case "delete":
                    DeltaTable(path).delete(f"id >= {low} and id < {low + 20}")
                case "update":
                    DeltaTable(path).update(updates={"name": f"'step {step}'"}, predicate=f"id % 50 = {low % 50}")
                case "insert" if missing:
                    write(path, customers(missing, f"step {step}"))
                case "move":
                    DeltaTable(path).update(updates={"id": f"id + {10_000 * (step + 1)}"}, predicate=f"id = {low}")
                case _:
                    DeltaTable(path).optimize.compact()
        publisher.refresh_from(source)
        assert in_pages(store) == in_delta(path)


def test_composite_keys_are_followed(tmp_path: Path) -> None:
    rows = pa.table({"region": [1, 1, 2], "code": ["a", "b", "a"], "name": ["x", "y", "z"]})
    write(tmp_path / "t", rows, partition_by=["region"])
    source = DeltaMaster(tmp_path / "t", ["region", "code"])
    since = position(source)
    DeltaTable(tmp_path / "t").delete("region = 1 and code = 'b'")
    DeltaTable(tmp_path / "t").update(updates={"name": "'w'"}, predicate="region = 2")
    changes = source.changes(since)
    assert changes.upserts.to_pylist() == [{"region": 2, "code": "a", "name": "w"}]
    assert changes.deletes.to_pylist() == [{"region": 1, "code": "b"}]


def test_nothing_new_is_told_without_reading_any_row(path: Path, source: DeltaMaster) -> None:
    since = position(source)
    remove_rows(path)
    changes = source.changes(since)
    assert (as_dicts(changes), changes.position) == (({}, set()), since)


def test_files_that_were_only_rearranged_are_not_read(path: Path, source: DeltaMaster) -> None:
    write(path, customers(range(1000, 1100)))
    since = position(source)
    DeltaTable(path).optimize.compact()
    remove_rows(path)
    changes = source.changes(since)
    assert as_dicts(changes) == ({}, set())
    assert changes.position["delta_version"] == since["delta_version"] + 1


def feed_off(path: Path) -> None:
    DeltaTable(path).alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
    DeltaTable(path).delete("id = 1")
    DeltaTable(path).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})


def made_anew(path: Path) -> None:
    shutil.rmtree(path)
    write(path, customers(range(3)))
    write(path, customers(range(3, 5)))


def column_added(path: Path) -> None:
    DeltaTable(path).alter.add_columns([Field("size", PrimitiveType("integer"))])


def log_cleaned(path: Path) -> None:
    for _ in range(2):
        DeltaTable(path).delete("id = 1")
        write(path, customers([1]))
    DeltaTable(path).create_checkpoint()
    for version in range(3):
        (path / "_delta_log" / f"{version:020d}.json").unlink()


def vacuumed(path: Path) -> None:
    DeltaTable(path).delete("id = 1")
    shutil.rmtree(path / "_change_data")


def marked(path: Path) -> None:
    mark_deleted(path, 3, 200, 999)


HISTORIES = {
    "feed off": (feed_off, "its change data feed was not on all the time"),
    "made anew": (made_anew, "another table is there now"),
    "column added": (column_added, "its columns changed"),
    "log cleaned": (log_cleaned, "was cleaned up"),
    "vacuumed": (vacuumed, "files of its change data feed are gone"),
    "deletion vectors": (marked, "version 1 marks rows deleted by deletion vectors"),
}


@pytest.mark.parametrize("history", list(HISTORIES))
def test_changes_that_cannot_be_told_ask_for_publishing_anew(path: Path, source: DeltaMaster, history: str) -> None:
    happen, why = HISTORIES[history]
    since = position(source)
    happen(path)
    with pytest.raises(RepublishNeeded, match=why) as refused:
        source.changes(since)
    assert "run `frontstage master publish`" in str(refused.value)


def test_a_table_without_a_feed_can_be_published_but_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "t", customers(range(3)), feed=False)
    source = DeltaMaster(tmp_path / "t", ["id"])
    since = position(source)
    write(tmp_path / "t", customers(range(3, 5)), feed=False)
    with pytest.raises(RepublishNeeded, match=r"set delta\.enableChangeDataFeed=true"):
        source.changes(since)


def test_deletion_vectors_are_honoured_when_publishing(path: Path, source: DeltaMaster, tmp_path: Path) -> None:
    mark_deleted(path, 3, 200, 999)
    store = PageStore(tmp_path / "pages")
    assert Publisher(store).publish_from(source).rows == 997
    assert not {3, 200, 999} & {*in_pages(store)}


def test_a_column_that_nobody_asked_for_may_come(path: Path) -> None:
    source = DeltaMaster(path, ["id"], ["name"])
    since = position(source)
    column_added(path)
    DeltaTable(path).delete("id = 1")
    assert as_dicts(source.changes(since)) == ({}, {1})


def test_a_key_twice_or_missing_among_changes_is_named(path: Path, source: DeltaMaster) -> None:
    since = position(source)
    write(path, customers([2000, 2000]))
    with pytest.raises(DuplicateMasterKey, match="2000 more than once"):
        source.changes(since)
    write(path, customers([2000, 2001]).slice(1).set_column(0, "id", pa.array([None], pa.int64())))
    with pytest.raises(NullMasterKey):
        source.changes(since)


def test_what_is_missing_is_named_with_its_remedy(path: Path, source: DeltaMaster, tmp_path: Path) -> None:
    with pytest.raises(MissingPart, match=r"nothing cannot be read \(there is no Delta table\); create it"):
        position(DeltaMaster(tmp_path / "nothing", ["id"]))
    with pytest.raises(MissingPart, match=r"it has no column 'nme'.*name one of its columns: id, name"):
        position(DeltaMaster(path, ["id"], ["nme"]))
    with source.snapshot() as snapshot:
        remove_rows(path)
        with pytest.raises(DeltaFilesGone, match=r"version 0 of Delta table .* are gone"):
            list(snapshot.batches)


def test_a_log_entry_that_only_notes_something_changes_nothing(path: Path, source: DeltaMaster) -> None:
    since = position(source)
    commit(path, {"commitInfo": {"operation": "VACUUM END", "timestamp": 0}})
    assert logged(path, 0, "metaData")["id"] == since["table"]
    assert as_dicts(source.changes(since)) == ({}, set())
