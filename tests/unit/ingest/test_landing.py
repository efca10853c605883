from __future__ import annotations

import json
import os
from pathlib import Path

from etl.ingest import landing


def test_only_whole_order_files_are_present(tmp_path: Path) -> None:
    for name in ("a.jsonl", ".b.jsonl", "_c.jsonl", "d.json", "e.jsonl.tmp"):
        (tmp_path / name).write_text("{}")
    assert set(landing.present(tmp_path)) == {"a.jsonl"}


def test_a_loaded_file_is_archived_and_a_changed_one_is_left(tmp_path: Path) -> None:
    inbox, archive = tmp_path / "in", tmp_path / "archive"
    inbox.mkdir()
    (inbox / "a.jsonl").write_text("1")
    (inbox / "b.jsonl").write_text("2")
    read = landing.present(inbox)
    (inbox / "b.jsonl").write_text("another")
    assert landing.archive(inbox, archive, read.values()) == 1
    assert (archive / "a.jsonl").read_text() == "1"
    assert (inbox / "b.jsonl").exists()


def test_a_used_name_is_renamed_so_that_it_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("1")
    known = landing.present(tmp_path)
    assert landing.readmit(tmp_path, known) == [], "the very same file needs no second reading"
    (tmp_path / "a.jsonl").write_text("22")
    os.utime(tmp_path / "a.jsonl", ns=(5, 5))
    assert landing.readmit(tmp_path, known) == ["a~5.jsonl"]
    assert (tmp_path / "a~5.jsonl").read_text() == "22"


def test_files_of_a_batch_come_from_the_sources_log_also_when_compacted(tmp_path: Path) -> None:
    log = tmp_path / "sources" / "0"
    log.mkdir(parents=True)
    entries = [{"path": f"file:///x/with%20space-{n}.jsonl", "timestamp": 1, "batchId": n} for n in (8, 9)]
    (log / "9.compact").write_text("\n".join(["v1", *map(json.dumps, entries)]))
    assert landing.files_of_batch(tmp_path, 9) == {"with space-9.jsonl"}
    assert landing.files_of_batch(tmp_path, 10) == set()
