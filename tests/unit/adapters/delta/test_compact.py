"""Compaction of chosen files: which are merged, how many at once, and that no row changes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import TableFeatures

from etl.adapters.delta import compact as compaction
from etl.adapters.delta.compact import compact, mergeable
from etl.adapters.delta.data_files import write_part
from etl.adapters.delta.log import DeltaLog

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
LONG = "x" * 10_000


@pytest.fixture
def delta(tmp_path: Path) -> DeltaLog:
    log = DeltaLog(tmp_path, "test")
    log.create("events", SCHEMA)
    for batch in range(1, 9):
        rows = pa.table({"id": [batch, -batch], "text": [LONG, LONG]}, SCHEMA)
        log.add("events", [write_part(tmp_path, "events", f"part-{batch:09d}-a-00000.parquet", rows)], batch)
    return log


def rows(delta: DeltaLog) -> pa.Table:
    return delta.table("events").to_pyarrow_table().sort_by("id")


def test_files_become_one_and_those_to_keep_stay(delta: DeltaLog) -> None:
    before, kept = rows(delta), "part-000000003-a-00000.parquet"
    files = mergeable(delta, "events", {kept})
    assert (len(files), compact(delta, "events", files)) == (7, 6)
    assert rows(delta).equals(before)
    assert {kept} < set(mergeable(delta, "events", ()))
    assert delta.newest_batch("events") == 8
    assert not delta.add("events", [], 8), "the batches are still in the table"


def test_what_is_merged_at_once_is_bounded_in_memory(delta: DeltaLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "MOST_DECODED", 5 * len(LONG))  # two files, which take a few hundred bytes each
    before = rows(delta)
    assert compact(delta, "events", mergeable(delta, "events", ())) == 4
    names = [Path(uri).name for uri in delta.table("events").file_uris()]
    assert [pq.read_metadata(delta.folder("events") / name).num_rows for name in names] == [4] * 4
    assert rows(delta).equals(before)


def test_a_table_whose_files_may_have_deleted_rows_is_left_alone(delta: DeltaLog) -> None:
    feature = TableFeatures.DeletionVectors
    delta.table("events").alter.add_feature(feature, allow_protocol_versions_increase=True)
    delta.forget()
    assert mergeable(delta, "events", ()) == {}
