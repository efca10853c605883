"""Delta tables through their log: files become part of a table once, whatever is repeated."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from etl.adapters.delta.data_files import read_parts, write_part
from etl.adapters.delta.log import DeltaLog
from etl.adapters.delta.table import ColumnChanged, FilesMissing
from etl.adapters.ledger import DataFile
from tests.support.synced import watch_syncs

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    made = DeltaLog(tmp_path, "app")
    made.create("fact", SCHEMA)
    return made


def part(log: DeltaLog, name: str, *ids: int) -> DataFile:
    rows = pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{number}" for number in ids]})
    return write_part(log.root, "fact", name, rows)


def ids(log: DeltaLog) -> list[int]:
    return sorted(DeltaTable(str(log.folder("fact"))).to_pyarrow_table()["id"].to_pylist())


@pytest.mark.parametrize("how", ["emptied", "cut in half", "zeros"])
def test_what_a_power_cut_has_torn_is_put_aside_and_added_again(log: DeltaLog, how: str) -> None:
    files = [part(log, "a.parquet", 1, 2)]
    log.add("fact", files, 1)
    more = [part(log, "b.parquet", 3)]
    log.add("fact", more, 2)
    DeltaTable(str(log.folder("fact"))).create_checkpoint()
    folder = log.folder("fact") / "_delta_log"
    for path in (folder / f"{2:020d}.json", folder / f"{2:020d}.checkpoint.parquet", folder / "_last_checkpoint"):
        content = path.read_bytes()
        path.write_bytes(
            {"emptied": b"", "cut in half": content[: len(content) // 2], "zeros": bytes(len(content))}[how]
        )
    log.forget()
    assert log.newest_batch("fact") == 1
    assert log.add("fact", more, 2)
    assert ids(log) == [1, 2, 3]
    log.forget()
    assert not log.add("fact", more, 2)
    assert all(path.name.endswith(".tmp") for path in folder.glob(".*.torn*"))


def test_a_table_whose_first_entry_is_torn_is_made_anew(log: DeltaLog) -> None:
    (log.folder("fact") / "_delta_log" / f"{0:020d}.json").write_bytes(b"")
    log.forget()
    log.create("fact", SCHEMA)
    assert log.add("fact", [part(log, "a.parquet", 1)], 1)
    assert ids(log) == [1]


def test_files_become_part_of_a_table_when_they_are_added_and_only_once(log: DeltaLog) -> None:
    files = [part(log, "a.parquet", 1, 2), part(log, "b.parquet", 3)]
    assert ids(log) == []
    assert log.add("fact", files, 1)
    assert not log.add("fact", files, 1)
    again = DeltaLog(log.root, "app")
    assert not again.add("fact", files, 1), "another process knows it too"
    assert ids(log) == [1, 2, 3]
    assert (log.newest_batch("fact"), log.rows("fact")) == (1, 3)
    assert log.table("fact").history(1)[0]["batch"] == "1"


def test_a_batch_reads_nothing_of_the_log(log: DeltaLog, monkeypatch: pytest.MonkeyPatch) -> None:
    updates: list[int] = []
    update = DeltaTable.update_incremental
    monkeypatch.setattr(DeltaTable, "update_incremental", lambda table: (updates.append(1), update(table)))
    for batch in range(1, 4):
        log.add("fact", [part(log, f"{batch}.parquet", batch)], batch)
        assert log.newest_batch("fact") == batch
    assert not updates
    assert [log.newest_correction("fact") for _ in range(5)] == [0] * 5
    assert len(updates) == 1, "once for all that has come"


def test_a_log_that_was_put_back_to_an_earlier_time_is_seen_at_once(log: DeltaLog, tmp_path: Path) -> None:
    log.add("fact", [part(log, "a.parquet", 1)], 1)
    shutil.copytree(log.folder("fact"), tmp_path / "backup")
    more = [part(log, "b.parquet", 2)]
    log.add("fact", more, 2)
    shutil.copytree(tmp_path / "backup" / "_delta_log", tmp_path / "older")
    shutil.rmtree(log.folder("fact") / "_delta_log")
    (tmp_path / "older").rename(log.folder("fact") / "_delta_log")
    assert log.newest_batch("fact") == 1
    assert log.add("fact", more, 2)
    assert ids(log) == [1, 2]


def test_an_older_batch_is_never_added_behind_a_newer_one(log: DeltaLog) -> None:
    log.add("fact", [part(log, "b.parquet", 3)], 5)
    assert not log.add("fact", [part(log, "a.parquet", 1)], 4)
    assert ids(log) == [3]


def test_what_another_process_added_is_seen(log: DeltaLog) -> None:
    other = DeltaLog(log.root, "app")
    other.add("fact", [part(other, "a.parquet", 1)], 1)
    assert log.newest_batch("fact") == 1
    assert log.add("fact", [part(log, "b.parquet", 2)], 2)
    assert ids(other) == [1, 2]
    log.forget()
    assert log.newest_batch("fact") == 2


@pytest.mark.parametrize("damage", ["gone", "shorter"])
def test_files_that_are_not_as_they_were_written_are_refused_before_anything_is_added(
    log: DeltaLog, damage: str
) -> None:
    files = [part(log, "a.parquet", 1), part(log, "b.parquet", 2)]
    path = log.folder("fact") / "b.parquet"
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FilesMissing, match=r"1 of its files are missing in fact \(b.parquet\)"):
        log.add("fact", files, 1)
    assert ids(log) == []
    assert log.newest_batch("fact") == 0


def test_corrections_lie_in_a_folder_of_their_own_and_are_merged_once(log: DeltaLog) -> None:
    log.create("fact", SCHEMA.append(pa.field("batch", pa.int64())))
    rows = pa.table({"id": [1, 2], "name": ["?", "b"], "batch": [1, 1]})
    log.add("fact", [write_part(log.root, "fact", "a.parquet", rows)], 1)
    changed = pa.table({"id": [1], "name": ["a"], "batch": [1]})
    files = [write_part(log.root, "_corrections", "b.parquet", changed)]
    assert log.correct("fact", files, ["id"], 2)
    assert not log.correct("fact", files, ["id"], 2)
    assert log.newest_correction("fact") == 2
    assert log.add("fact", [write_part(log.root, "fact", "c.parquet", rows.slice(1).set_column(0, "id", [[3]]))], 3)
    found = DeltaTable(str(log.folder("fact"))).to_pyarrow_table().sort_by("id")
    assert found["name"].to_pylist() == ["a", "b", "b"]
    (log.root / "_corrections" / "b.parquet").unlink()
    with pytest.raises(FilesMissing, match="missing in _corrections"):
        log.correct("fact", files, ["id"], 4)


def test_a_correction_whose_writer_died_before_the_sync_is_synced_by_the_next(
    log: DeltaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.create("fact", SCHEMA.append(pa.field("batch", pa.int64())))
    rows = pa.table({"id": [1], "name": ["?"], "batch": [1]})
    log.add("fact", [write_part(log.root, "fact", "a.parquet", rows)], 1)
    correction = [write_part(log.root, "_corrections", "b.parquet", rows.set_column(1, "name", [["a"]]))]
    with monkeypatch.context() as killed:
        killed.setattr(DeltaLog, "sync", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            log.correct("fact", correction, ["id"], 2)
    version = DeltaTable(str(log.folder("fact"))).version()
    synced = watch_syncs(monkeypatch)
    assert not DeltaLog(log.root, "app").correct("fact", correction, ["id"], 2)
    assert f"{version:020d}.json" in {path.name for path in synced}


def test_a_column_that_is_new_in_the_declaration_is_added_and_old_files_have_nulls(log: DeltaLog) -> None:
    log.add("fact", [part(log, "a.parquet", 1)], 1)
    wider = SCHEMA.append(pa.field("amount", pa.decimal128(10, 2)))
    log.create("fact", wider)
    version = log.table("fact").version()
    log.create("fact", wider)
    assert log.table("fact").version() == version, "nothing is new the second time"
    rows = pa.table({"id": [2], "name": ["x"], "amount": pa.array([Decimal("1.50")], pa.decimal128(10, 2))})
    log.add("fact", [write_part(log.root, "fact", "b.parquet", rows)], 2)
    found = DeltaTable(str(log.folder("fact"))).to_pyarrow_table().sort_by("id")
    assert found["amount"].to_pylist() == [None, Decimal("1.50")]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (pa.int32(), "column 'name' of table fact is string and would be integer: "),
        (pa.decimal128(10, 2), "is string and would be decimal(10,2): where its values come from, the type"),
        (pa.list_(pa.string()), "is string and would be ArrayType("),
    ],
)
def test_a_column_of_another_type_is_refused_before_a_write(log: DeltaLog, kind: pa.DataType, words: str) -> None:
    log.add("fact", [part(log, "a.parquet", 1)], 1)
    version = log.table("fact").version()
    changed = pa.schema([("id", pa.int64()), ("name", kind), ("more", pa.bool_())])
    with pytest.raises(ColumnChanged) as refused:
        log.create("fact", changed)
    assert words in str(refused.value)
    assert log.table("fact").version() == version
    log.create("fact", pa.schema([("id", pa.int64()), ("name", pa.large_string())]))  # the same to Delta


def test_an_empty_table_has_no_rows_and_no_batch(log: DeltaLog) -> None:
    assert (log.rows("fact"), log.newest_batch("fact")) == (0, 0)


# ── files and their statistics ─────────────────────────────────────────────────────────────────────────────────────


def test_statistics_are_those_of_all_row_groups_and_never_cut_off_a_row(tmp_path: Path) -> None:
    times = [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, 0, 0, 0, 5_000, tzinfo=UTC)]
    rows = pa.table(
        {
            "id": pa.array([3, 1], pa.int64()),
            "text": ["b", "a"],
            "long": ["x" * 100, "y" * 100],
            "day": [date(2026, 1, 2), date(2026, 1, 1)],
            "at": pa.array(times, pa.timestamp("us", "UTC")),
            "exact": pa.array([times[0].replace(microsecond=1), times[1]], pa.timestamp("us", "UTC")),
            "money": pa.array([Decimal("1.5"), None], pa.decimal128(10, 2)),
            "flag": [True, False],
            "reasons": [["a"], []],
        }
    )
    file = write_part(tmp_path, "t", "a.parquet", rows)
    stats = json.loads(file.stats)
    assert stats["numRecords"] == 2 == file.rows
    assert stats["minValues"] == {
        "id": 1, "text": "a", "long": "x" * 32, "day": "2026-01-01", "at": "2026-01-01T00:00:00.000Z",
        "exact": "2026-01-01T00:00:00.000Z", "money": 1.5, "flag": False,
    }  # fmt: skip
    assert stats["maxValues"] == {
        "id": 3, "text": "b", "long": "y" * 32 + "\U0010ffff", "day": "2026-01-02", "at": "2026-01-02T00:00:00.005Z",
        "exact": "2026-01-02T00:00:00.005Z", "money": 1.5, "flag": True,
    }  # fmt: skip
    assert stats["nullCount"]["money"] == 1
    assert read_parts(tmp_path, (file,)) == rows
    assert read_parts(tmp_path, (file,), ["id"]).column_names == ["id"]


def test_a_filter_on_statistics_finds_every_row(log: DeltaLog) -> None:
    for number in range(5):
        log.add("fact", [part(log, f"{number}.parquet", number * 10, number * 10 + 9)], number + 1)
    table = DeltaTable(str(log.folder("fact")))
    assert table.to_pyarrow_table(filters=[("id", "=", 29)])["id"].to_pylist() == [29]
    assert table.to_pyarrow_table(filters=[("name", "=", "n40")])["id"].to_pylist() == [40]
