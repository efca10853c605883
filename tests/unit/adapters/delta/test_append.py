"""Log entries written here: delta-rs reads them, others may write between them, and nothing is added twice."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from etl.adapters.delta import append
from etl.adapters.delta.append import DeltaAppender
from etl.adapters.delta.data_files import write_part
from etl.adapters.delta.log import DeltaLog
from etl.adapters.delta.table import AsksTooMuch, FilesMissing
from etl.adapters.ledger import DataFile
from tests.support.synced import watch_syncs


@pytest.fixture
def table(tmp_path: Path) -> DeltaAppender:
    return DeltaAppender(tmp_path / "results", "app")


def part(table: DeltaAppender, name: str, *ids: int) -> DataFile:
    rows = pa.table({"id": pa.array(ids, pa.int64()), "at": pa.array([0] * len(ids), pa.timestamp("us", "UTC"))})
    return write_part(table.folder.parent, "results", name, rows)


def ids(table: DeltaAppender) -> list[int]:
    return sorted(DeltaTable(str(table.folder)).to_pyarrow_table()["id"].to_pylist())


def entries(table: DeltaAppender) -> list[str]:
    return sorted(path.name for path in (table.folder / "_delta_log").iterdir())


def test_a_table_begins_with_its_first_batch_and_gets_every_batch_once(table: DeltaAppender) -> None:
    first, second = part(table, "a 1.parquet", 1, 2), part(table, "b.parquet", 3)
    assert table.newest_batch() == 0
    assert table.add([first], 1)
    assert not table.add([first], 1)
    assert table.add([second], 4)
    again = DeltaAppender(table.folder, "app")
    assert not again.add([second], 4), "another process knows it too"
    assert not again.add([second], 3), "an older batch does not come behind a newer one"
    assert ids(table) == [1, 2, 3]
    assert entries(table) == [f"{0:020d}.json", f"{1:020d}.json"]
    opened = DeltaTable(str(table.folder))
    assert opened.history(1)[0]["batch"] == "4"
    assert pa.table(opened.get_add_actions(flatten=True))["num_records"].to_pylist() == [1, 2]


def test_it_goes_on_from_a_table_that_delta_rs_has_begun_and_delta_rs_goes_on_from_it(table: DeltaAppender) -> None:
    log = DeltaLog(table.folder.parent, "app")
    file = part(table, "a.parquet", 1)
    log.create("results", pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))]))
    assert log.add("results", [file], 1)
    assert table.newest_batch() == 1
    assert table.add([part(table, "b.parquet", 2)], 2)
    assert log.newest_batch("results") == 2
    assert log.add("results", [part(table, "c.parquet", 3)], 3)
    assert not table.add([part(table, "d.parquet", 4)], 3), "what somebody else has committed is seen"
    assert ids(table) == [1, 2, 3]


def test_a_compaction_in_between_is_no_batch(table: DeltaAppender) -> None:
    for batch in (1, 2):
        table.add([part(table, f"{batch}.parquet", batch)], batch)
    DeltaTable(str(table.folder)).optimize.compact()
    assert DeltaAppender(table.folder, "app").newest_batch() == 2
    assert table.add([part(table, "3.parquet", 3)], 3)
    assert ids(table) == [1, 2, 3]


def test_who_comes_second_with_an_entry_looks_again(table: DeltaAppender, monkeypatch: pytest.MonkeyPatch) -> None:
    table.add([part(table, "a.parquet", 1)], 1)
    other, link = DeltaAppender(table.folder, "app"), append.os.link

    def slow(beside: Path, entry: Path) -> None:
        monkeypatch.setattr(append.os, "link", link)
        other.add([part(other, "b.parquet", 2)], 2)
        link(beside, entry)

    monkeypatch.setattr(append.os, "link", slow)
    assert not table.add([part(table, "c.parquet", 2)], 2)
    assert ids(table) == [1, 2]
    assert not [name for name in entries(table) if name.endswith(".tmp")]


def test_a_log_that_was_put_back_to_an_earlier_time_is_gone_on_with(table: DeltaAppender) -> None:
    for batch in (1, 2):
        table.add([part(table, f"{batch}.parquet", batch)], batch)
    (table.folder / "_delta_log" / f"{1:020d}.json").unlink()
    assert table.newest_batch() == 1
    assert table.add([part(table, "again.parquet", 2)], 2)
    assert ids(table) == [1, 2]


def test_a_folder_of_a_log_without_an_entry_is_no_table_yet(table: DeltaAppender) -> None:
    (table.folder / "_delta_log").mkdir(parents=True)
    assert table.newest_batch() == 0
    assert table.add([part(table, "a.parquet", 1)], 1)
    assert ids(table) == [1]


def test_checkpoints_are_made_and_found(table: DeltaAppender) -> None:
    for batch in range(1, 62):
        table.add([part(table, f"{batch}.parquet", batch)], batch)
    last = json.loads((table.folder / "_delta_log" / "_last_checkpoint").read_text())["version"]
    for version in range(last):
        (table.folder / "_delta_log" / f"{version:020d}.json").unlink()
    assert ids(table) == list(range(1, 62))
    assert DeltaAppender(table.folder, "app").newest_batch() == 61


@pytest.mark.parametrize("first", [1, 2])
def test_checkpoints_are_made_though_every_other_entry_is_somebody_elses(table: DeltaAppender, first: int) -> None:
    table.add([part(table, "0.parquet", 0)], 1)
    log = table.folder / "_delta_log"
    for version in range(1, 110):
        if version % 2 == first % 2:
            table.add([part(table, f"{version}.parquet", version)], version + 1)
        else:
            (log / f"{version:020d}.json").write_text('{"commitInfo": {"timestamp": 0, "operation": "OTHER"}}')
    made = sorted(int(name[:20]) for name in entries(table) if ".checkpoint." in name)
    assert len(made) >= 2, "how many fit depends on the table's turn"
    assert all(50 <= later - earlier <= 51 for earlier, later in pairwise(made))
    assert ids(table) == [0, *range(first, 110, 2)]


def test_a_checkpoint_that_fails_takes_nothing_from_its_batch_and_is_made_with_the_next(
    table: DeltaAppender, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: DeltaTable) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(append, "_CHECKPOINT_EVERY", 1)
        full.setattr(DeltaTable, "create_checkpoint", fail)
        assert table.add([part(table, "a.parquet", 1)], 1)
        assert table.add([part(table, "b.parquet", 2)], 2)
    assert not any(".checkpoint." in name for name in entries(table))
    monkeypatch.setattr(append, "_CHECKPOINT_EVERY", 1)
    assert table.add([part(table, "c.parquet", 3)], 3)
    assert any(".checkpoint." in name for name in entries(table))
    assert ids(table) == [1, 2, 3]


def test_an_entry_that_its_writer_may_not_have_synced_is_synced_by_the_next(
    table: DeltaAppender, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.add([part(table, "a.parquet", 1)], 1)
    synced = watch_syncs(monkeypatch)
    assert not DeltaAppender(table.folder, "app").add([part(table, "a.parquet", 1)], 1)
    assert {f"{0:020d}.json", "_delta_log"} <= {path.name for path in synced}


def test_files_that_are_not_as_they_were_written_are_refused(table: DeltaAppender) -> None:
    file = part(table, "a.parquet", 1)
    (table.folder / "a.parquet").unlink()
    with pytest.raises(FilesMissing, match="1 of its files are missing in results"):
        table.add([file], 1)
    assert not (table.folder / "_delta_log").exists()


def test_a_table_that_was_given_a_constraint_is_refused_in_a_sentence(table: DeltaAppender) -> None:
    table.add([part(table, "a.parquet", 1)], 1)
    DeltaTable(str(table.folder)).alter.add_constraint({"small": "id < 2"})
    with pytest.raises(AsksTooMuch, match=r"results asks of its writers .*constraints"):
        table.add([part(table, "b.parquet", 3)], 2)
    assert ids(table) == [1], "nothing was added past the constraint"
    with pytest.raises(AsksTooMuch):
        DeltaAppender(table.folder, "app").add([part(table, "c.parquet", 1)], 2)


def test_a_feed_of_changes_asks_nothing_of_who_appends(table: DeltaAppender) -> None:
    table.add([part(table, "a.parquet", 1)], 1)
    DeltaTable(str(table.folder)).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    assert table.add([part(table, "b.parquet", 2)], 2)
    assert ids(table) == [1, 2]


def changed(table: DeltaAppender, *actions: dict[str, Any]) -> None:
    """Let somebody else commit these actions."""
    version = DeltaTable(str(table.folder)).version() + 1
    entry = table.folder / "_delta_log" / f"{version:020d}.json"
    entry.write_text("\n".join(json.dumps(one) for one in actions))


def test_a_table_that_was_given_partitions_is_refused(table: DeltaAppender) -> None:
    table.add([part(table, "a.parquet", 1)], 1)
    rows = DeltaTable(str(table.folder)).to_pyarrow_table()
    write_deltalake(str(table.folder), rows, mode="overwrite", schema_mode="overwrite", partition_by=["id"])
    with pytest.raises(AsksTooMuch, match="partitions by id"):
        table.add([part(table, "b.parquet", 2)], 2)
    assert ids(table) == [1]


def test_columns_that_ask_something_of_writers_are_refused(table: DeltaAppender) -> None:
    table.add([part(table, "a.parquet", 1)], 1)
    entry = (table.folder / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
    (metadata,) = (one for one in map(json.loads, entry) if "metaData" in one)
    schema = json.loads(metadata["metaData"]["schemaString"])
    schema["fields"][0]["metadata"] = {"delta.invariants": json.dumps({"expression": {"expression": "id < 2"}})}
    changed(table, {"metaData": metadata["metaData"] | {"schemaString": json.dumps(schema)}})
    with pytest.raises(AsksTooMuch, match=r"delta\.invariants of id"):
        table.add([part(table, "b.parquet", 2)], 2)


def test_features_that_are_on_and_not_in_use_ask_nothing(table: DeltaAppender) -> None:
    table.add([part(table, "a.parquet", 1)], 1)
    features = ["appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"]
    changed(table, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}})
    assert table.add([part(table, "b.parquet", 2)], 2)
    assert ids(table) == [1, 2]
