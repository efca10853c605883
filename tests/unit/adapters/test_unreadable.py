"""Landed files that cannot be opened: which, and why, and what is opened at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from etl.adapters import landing, unreadable
from etl.adapters.landing import Consumed, LandedFile, Slice
from etl.adapters.regular_file import RegularFile
from etl.adapters.unreadable import Unreadable
from tests.support.unreadable import SWAPS, refusing


def consumed(file: LandedFile) -> dict[bytes, Consumed]:
    return {file.name: Consumed(file.inode, file.size, file.modified_ns, ((0, file.size, ""),))}


def test_a_file_with_unread_bytes_that_cannot_be_opened_is_found_with_its_reason(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_bytes(b"1\n")
    files = {file.label: file for file in landing.scan(tmp_path, "jsonl")}
    with refusing(tmp_path / "a.jsonl"):
        (found,) = unreadable.find(tmp_path, files.values(), {})
        assert str(found) == "'a.jsonl' (Permission denied)"
        assert unreadable.find(tmp_path, files.values(), consumed(files["a.jsonl"])) == (), "nothing of it waits"
    assert unreadable.find(tmp_path, files.values(), {}) == ()


@pytest.mark.parametrize(("swap", "count"), [("link", 1), ("pipe", 1), ("folder", 1), ("gone", 0)])
def test_whatever_else_has_the_name_by_now_is_unreadable(tmp_path: Path, swap: str, count: int) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"1\n")
    files = landing.scan(tmp_path, "jsonl")
    SWAPS[swap](tmp_path / "a.jsonl")
    assert len(unreadable.find(tmp_path, files, {})) == count


@pytest.mark.parametrize("swap", ["link", "pipe", "folder"])
def test_what_is_no_regular_file_is_refused_at_once_and_no_descriptor_stays_open(tmp_path: Path, swap: str) -> None:
    (tmp_path / "a").write_bytes(b"1\n")
    SWAPS[swap](tmp_path / "a")
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    for _ in range(3):
        with pytest.raises(OSError), RegularFile(tmp_path, b"a"):
            pass
    assert len(os.listdir("/proc/self/fd")) == len(before)  # noqa: PTH208


def test_a_sentence_counts_the_files_and_names_the_first() -> None:
    files = [LandedFile(b"%d\xff.jsonl" % number, 1, 1, number) for number in range(5)]
    one, *_ = found = [Unreadable(file, "Permission denied") for file in files]
    assert unreadable.waiting_sentence([one]) == "1 file cannot be read and waits: '0\\\\xff.jsonl' (Permission denied)"
    assert unreadable.waiting_sentence(found).startswith("5 files cannot be read and wait: '0")
    assert unreadable.waiting_sentence(found).endswith("(Permission denied) and 2 more")
    slices = [Slice(number, files[number // 2], 0, 1) for number in range(4)]
    said = unreadable.left_out_sentence(slices, {0, 1, 2}, {0: "it went", 1: "it went"})
    assert said == ("2 files changed while they were read and are left for the next batch: '0\\\\xff.jsonl' (it went)")
