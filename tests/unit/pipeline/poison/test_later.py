"""Where a batch ends that leaves some of its input to a later one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from etl.adapters.landing import LandedFile, Slice
from etl.adapters.losses import Part
from etl.adapters.slice_reader import start_of_line
from etl.contract.model import Format
from etl.pipeline.poison.later import _cuts
from etl.pipeline.tasks.line_choice import LineChoice

CONTENT = b"a\n\nccc\r\nd\nlast"


@dataclass(frozen=True)
class Landed:
    """A batch of these slices."""

    folder: Path
    slices: Sequence[Slice]
    format: Format = "jsonl"
    name: str = "orders"
    batch: int = 1

    def source(self, one: Slice) -> tuple[Path, Format]:
        return self.folder, self.format

    def backlog(self) -> Sequence[Part]:
        return ()

    def settled(self) -> Mapping[int | str, frozenset[int]]:
        return {}

    def run(self, lines: LineChoice, only: Collection[int | str] | None) -> Any:
        raise AssertionError("cutting off runs nothing")


def landed(folder: Path, name: str = "a.jsonl", content: bytes = CONTENT) -> LandedFile:
    path = folder / name
    path.write_bytes(content)
    seen = path.stat()
    return LandedFile(name.encode(), seen.st_size, seen.st_mtime_ns, seen.st_ino)


@pytest.mark.parametrize(("line", "start"), [(1, 0), (2, 2), (3, 3), (4, 8), (5, 10), (6, 14), (99, 14)])
def test_a_line_of_a_slice_begins_behind_the_line_before_it(tmp_path: Path, line: int, start: int) -> None:
    file = landed(tmp_path)
    assert start_of_line(tmp_path, Slice(0, file, 0, file.size), line) == start
    if start >= 3:
        assert start_of_line(tmp_path, Slice(0, file, 3, file.size), line - 2) == start


def test_a_slice_ends_before_the_line_that_is_left_and_later_slices_of_its_file_are_left_whole(tmp_path: Path) -> None:
    one, other = landed(tmp_path), landed(tmp_path, "b.jsonl")
    slices = [Slice(0, one, 0, 8), Slice(1, one, 8, 10), Slice(2, one, 10, 14), Slice(3, other, 0, 14)]
    assert dict(_cuts(Landed(tmp_path, slices), {0: 3})) == {0: 3, 1: None, 2: None}
    assert dict(_cuts(Landed(tmp_path, slices), {1: 1})) == {1: None, 2: None}
    assert dict(_cuts(Landed(tmp_path, slices), {2: 1, 3: 4})) == {2: None, 3: 8}


def test_a_parquet_file_is_left_whole_and_a_topic_from_an_offset_on(tmp_path: Path) -> None:
    file, topic = landed(tmp_path), LandedFile(b"clicks/3", 0, 0, 7)
    assert dict(_cuts(Landed(tmp_path, [Slice(0, file, 0, file.size)], "parquet"), {0: 9})) == {0: None}
    slices = [Slice(0, topic, 100, 200), Slice(1, topic, 200, 300)]
    assert dict(_cuts(Landed(tmp_path, slices), {0: 150})) == {0: 150, 1: None}
    assert dict(_cuts(Landed(tmp_path, slices), {1: 200})) == {1: None}
