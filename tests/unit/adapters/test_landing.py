"""The landing folder: which bytes of which files a batch reads, whatever happens to the files meanwhile."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etl.adapters import landing
from etl.adapters.landing import PATIENCE, QUIET, SETTLE, Consumed, LandedFile, Limits, Slice
from etl.adapters.slice_reader import SliceReader
from tests.support.unreadable import SWAPS, refusing

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
LIMITS = Limits()


def put(path: Path, content: bytes, age: timedelta = timedelta(0)) -> LandedFile:
    """A file that was last written so long before NOW."""
    path.write_bytes(content)
    written = (NOW - age).timestamp()
    os.utime(path, (written, written))
    return next(file for file in landing.scan(path.parent, "jsonl") if os.fsdecode(file.name) == path.name)


def fix(folder: Path, consumed: dict[bytes, Consumed] | None = None, limits: Limits = LIMITS) -> tuple[Slice, ...]:
    return landing.fix_slices(folder, landing.scan(folder, "jsonl"), consumed or {}, "jsonl", NOW, limits)


def read(folder: Path, one: Slice) -> tuple[bytes, SliceReader]:
    reader = SliceReader(folder, one)
    return b"".join(reader.blocks()), reader


def consumed(folder: Path, *slices: Slice) -> dict[bytes, Consumed]:
    """What the ledger says after a batch has read these slices of one file."""
    file = slices[-1].file
    parts = tuple((one.first, one.last, read(folder, one)[1].digest) for one in slices)
    return {file.name: Consumed(file.inode, file.size, file.modified_ns, parts)}


# ── scan ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_only_whole_visible_files_of_the_format_have_landed_and_the_oldest_comes_first(tmp_path: Path) -> None:
    put(tmp_path / "b.jsonl", b"1\n", timedelta(seconds=5))
    put(tmp_path / "a.jsonl", b"1\n", timedelta(seconds=1))
    for name in (".c.jsonl", "_d.jsonl", "e.json", "f.jsonl.tmp", "g.csv"):
        (tmp_path / name).write_bytes(b"1\n")
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "a.jsonl")
    assert [file.name for file in landing.scan(tmp_path, "jsonl")] == [b"b.jsonl", b"a.jsonl"]
    assert [file.name for file in landing.scan(tmp_path, "csv")] == [b"g.csv"]
    assert landing.scan(tmp_path / "new", "jsonl") == []


@given(st.binary(min_size=1, max_size=40).filter(lambda name: not set(name) & {0, 47} and name[:1] not in (b".", b"_")))
def test_a_name_may_hold_any_bytes_and_its_label_is_always_text(
    tmp_path_factory: pytest.TempPathFactory, name: bytes
) -> None:
    folder = tmp_path_factory.mktemp("names")
    full = name + b".jsonl"
    (folder / os.fsdecode(full)).write_bytes(b"x\n")
    (file,) = landing.scan(folder, "jsonl")
    assert file.name == full
    file.label.encode()
    (one,) = fix(folder)
    assert read(folder, one)[0] == b"x\n"


# ── what a batch reads ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_half_written_last_line_waits_until_it_is_complete_or_the_file_is_quiet(tmp_path: Path) -> None:
    file = put(tmp_path / "a.jsonl", b"one\ntwo\nthr")
    (first,) = fix(tmp_path)
    assert (first.first, first.last) == (0, 8)
    before = consumed(tmp_path, first)
    assert fix(tmp_path, before) == ()
    put(tmp_path / "a.jsonl", b"one\ntwo\nthree\nfo")
    (second,) = fix(tmp_path, before)
    assert (second.first, second.last) == (8, 14)
    put(tmp_path / "a.jsonl", b"one\ntwo\nthree\n{}", SETTLE)
    (rest,) = fix(tmp_path, before)
    assert (rest.first, rest.last) == (8, 16), "nobody has written for long enough"
    assert file.size == 11


@pytest.mark.parametrize(
    ("tail", "waits"),
    [(b'{"a": {"b": 1}', True), (b'{"a": "}', True), (b"{\"a\": \"\xc3", True), (b"fo", True), (b"12", True),
     (b'{"a": {"b": 1}}', False), (b"{} \t", False), (b" ", False), (b"{" * 2**17, False), (b'{"a":' * 9_999, False)],
)  # fmt: skip
def test_the_beginning_of_an_event_waits_for_an_hour(tmp_path: Path, tail: bytes, waits: bool) -> None:
    put(tmp_path / "a.jsonl", b"{}\n" + tail, SETTLE)
    assert [(one.first, one.last) for one in fix(tmp_path)] == [(0, 3 if waits else 3 + len(tail))]
    put(tmp_path / "a.jsonl", b"{}\n" + tail, PATIENCE)
    assert [(one.first, one.last) for one in fix(tmp_path)] == [(0, 3 + len(tail))]


def test_of_a_line_of_csv_nobody_can_tell_whether_it_is_whole(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"a,b\n1,")
    os.utime(tmp_path / "a.csv", ((NOW - SETTLE).timestamp(),) * 2)
    (one,) = landing.fix_slices(tmp_path, landing.scan(tmp_path, "csv"), {}, "csv", NOW, LIMITS)
    assert one.last == 6


def test_a_file_without_any_line_end_waits_too(tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", b"half")
    assert fix(tmp_path) == ()
    put(tmp_path / "a.jsonl", b"half", PATIENCE)
    assert [(one.first, one.last) for one in fix(tmp_path)] == [(0, 4)]


def test_a_file_that_is_as_it_was_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "a.jsonl", b"one\n")
    before = consumed(tmp_path, *fix(tmp_path))
    monkeypatch.delattr(landing, "RegularFile")  # not even opened
    assert fix(tmp_path, before) == ()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"one\ntwo\nthree\n", (8, 14)),  # grew
        (b"ONE\ntwo\nthree\n", (0, 14)),  # grew, and what was read is another text now
        (b"one\n", (0, 4)),  # truncated
        (b"ONE\nTWO\n", (0, 8)),  # written over with the same length
    ],
)
def test_a_file_that_grew_is_read_on_and_any_other_is_a_new_one(
    tmp_path: Path, content: bytes, expected: tuple[int, int]
) -> None:
    put(tmp_path / "a.jsonl", b"one\ntwo\n")
    before = consumed(tmp_path, *fix(tmp_path))
    put(tmp_path / "a.jsonl", content, -timedelta(seconds=1))
    assert [(one.first, one.last) for one in fix(tmp_path, before)] == [expected]


def test_another_file_under_a_used_name_is_a_new_one(tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", b"one\ntwo\n")
    before = consumed(tmp_path, *fix(tmp_path))
    put(tmp_path / "b.jsonl", b"one\ntwo\nthree\n")
    (tmp_path / "b.jsonl").rename(tmp_path / "a.jsonl")
    assert [(one.first, one.last) for one in fix(tmp_path, before)] == [(0, 14)]


def test_the_parts_of_a_file_are_whole_lines_and_every_byte_once(tmp_path: Path) -> None:
    content = b"".join(b"%d " % number * (number % 7) + b"\n" for number in range(2_000))
    put(tmp_path / "a.jsonl", content)
    slices = fix(tmp_path, limits=Limits(slice_bytes=1_000))
    assert len(slices) > 5
    assert [one.ordinal for one in slices] == list(range(len(slices)))
    texts = [read(tmp_path, one)[0] for one in slices]
    assert b"".join(texts) == content
    assert all(text.endswith(b"\n") for text in texts)
    assert max(map(len, texts)) < 1_700


def test_what_is_beyond_the_limits_waits_its_turn_and_none_is_left_out(tmp_path: Path) -> None:
    for number in range(5):
        put(tmp_path / f"{number}.jsonl", b"x" * 99 + b"\n" + b"y" * 99 + b"\n", timedelta(seconds=9 - number))
    by_count = fix(tmp_path, limits=Limits(files=2))
    assert [one.file.name for one in by_count] == [b"0.jsonl", b"1.jsonl"]
    by_bytes = fix(tmp_path, limits=Limits(batch_bytes=250))
    assert [(one.file.name, one.last) for one in by_bytes] == [(b"0.jsonl", 200), (b"1.jsonl", 100)]
    assert len(fix(tmp_path, limits=Limits(batch_bytes=1))) == 1, "a line is read, however small the limit"


def test_a_parquet_file_is_read_whole_once_its_end_is_there(tmp_path: Path) -> None:
    def slices(age: timedelta, content: bytes) -> tuple[Slice, ...]:
        (tmp_path / "a.parquet").write_bytes(content)
        written = (NOW - age).timestamp()
        os.utime(tmp_path / "a.parquet", (written, written))
        return landing.fix_slices(tmp_path, landing.scan(tmp_path, "parquet"), {}, "parquet", NOW, LIMITS)

    assert slices(timedelta(0), b"PAR1 half of it") == ()
    assert [(one.first, one.last) for one in slices(timedelta(0), b"PAR1 all of it PAR1")] == [(0, 19)]
    assert [(one.first, one.last) for one in slices(SETTLE, b"never Parquet")] == [(0, 13)], "refused, not ignored"


def test_a_file_that_vanishes_before_it_is_looked_at_is_no_part_of_the_batch(tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", b"one\n")
    put(tmp_path / "b.jsonl", b"one\n")
    files = landing.scan(tmp_path, "jsonl")
    (tmp_path / "a.jsonl").unlink()
    slices = landing.fix_slices(tmp_path, files, {}, "jsonl", NOW, LIMITS)
    assert [one.file.name for one in slices] == [b"b.jsonl"]


@pytest.mark.parametrize("age", [timedelta(0), SETTLE])
def test_a_file_that_cannot_be_opened_is_no_part_of_the_batch(tmp_path: Path, age: timedelta) -> None:
    put(tmp_path / "a.jsonl", b"one\n", age + timedelta(seconds=1))
    put(tmp_path / "b.jsonl", b"one\n", age)
    with refusing(tmp_path / "a.jsonl"):
        assert [one.file.name for one in fix(tmp_path)] == [b"b.jsonl"]
        assert [one.file.name for one in fix(tmp_path, limits=Limits(batch_bytes=1))] == [b"b.jsonl"]
    assert [one.file.name for one in fix(tmp_path)] == [b"a.jsonl", b"b.jsonl"]


@pytest.mark.parametrize("swap", SWAPS)
def test_what_is_swapped_in_after_it_was_listed_is_no_part_of_the_batch(tmp_path: Path, swap: str) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        put(tmp_path / name, b"one\n", SETTLE)
    files = landing.scan(tmp_path, "jsonl")
    SWAPS[swap](tmp_path / "a.jsonl")
    slices = landing.fix_slices(tmp_path, files, {}, "jsonl", NOW, LIMITS)
    assert [one.file.name for one in slices] == [b"b.jsonl"]


@pytest.mark.parametrize("limits", [Limits(batch_bytes=1), Limits(slice_bytes=1)])
def test_a_file_put_away_after_it_was_listed_is_no_part_of_the_batch(tmp_path: Path, limits: Limits) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        put(tmp_path / name, b"one\ntwo\n", SETTLE)  # quiet: nothing but its division needs to be looked up
    files = landing.scan(tmp_path, "jsonl")
    (tmp_path / "a.jsonl").rename(tmp_path / "archived")
    slices = landing.fix_slices(tmp_path, files, {}, "jsonl", NOW, limits)
    assert {one.file.name for one in slices} == {b"b.jsonl"}
    assert [one.ordinal for one in slices] == list(range(len(slices)))


def test_a_header_that_is_gone_leaves_its_slice_out(tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", b"one\ntwo\n")
    (slice,) = fix(tmp_path)
    (tmp_path / "a.jsonl").unlink()
    reader = SliceReader(tmp_path, slice)
    assert (reader.header(), reader.changed) == (b"", True)


# ── reading ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_slice_is_read_with_its_hash(tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", b"one\ntwo\n")
    (one,) = fix(tmp_path)
    content, reader = read(tmp_path, one)
    assert (content, reader.changed) == (b"one\ntwo\n", False)
    assert reader.digest == hashlib.blake2b(content, digest_size=16).hexdigest()
    assert SliceReader(tmp_path, one).header() == b"one"


def test_a_file_that_grew_behind_its_slice_still_counts(tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", b"one\ntwo\n")
    (one,) = fix(tmp_path)
    put(tmp_path / "a.jsonl", b"one\ntwo\nthree\n", -timedelta(seconds=1))
    content, reader = read(tmp_path, one)
    assert (content, reader.changed) == (b"one\ntwo\n", False)


@pytest.mark.parametrize("change", ["truncated", "replaced", "gone", "line went on"])
def test_a_file_that_is_not_as_it_was_fixed_does_not_count(tmp_path: Path, change: str) -> None:
    path = tmp_path / "a.jsonl"
    put(path, b"one\ntwo\nthr", PATIENCE)
    (one,) = fix(tmp_path)
    if change == "truncated":
        put(path, b"one\n")
    elif change == "replaced":
        (tmp_path / "other").write_bytes(b"one\ntwo\nthr")
        (tmp_path / "other").rename(path)
    elif change == "gone":
        path.unlink()
    else:
        put(path, b"one\ntwo\nthree\n")
    content, reader = read(tmp_path, one)
    assert reader.changed
    assert content == b""


def test_a_file_that_is_written_over_while_it_is_read_does_not_count(tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", b"one\ntwo\n")
    (one,) = fix(tmp_path)
    reader = SliceReader(tmp_path, one)
    for _ in reader.blocks():
        put(tmp_path / "a.jsonl", b"ONE\nTWO\n", -timedelta(seconds=1))
    assert reader.changed


@pytest.mark.parametrize("swap", SWAPS)
def test_what_is_swapped_in_for_a_file_is_never_read_nor_waited_for(tmp_path: Path, swap: str) -> None:
    put(tmp_path / "a.jsonl", b"one\ntwo\n")
    (one,) = fix(tmp_path)
    SWAPS[swap](tmp_path / "a.jsonl")
    content, reader = read(tmp_path, one)
    assert (content, reader.changed) == (b"", True)
    assert reader.reason


@pytest.mark.parametrize("number", [errno.EACCES, errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.EIO])
def test_a_file_that_cannot_be_opened_any_longer_does_not_count(tmp_path: Path, number: int) -> None:
    put(tmp_path / "a.jsonl", b"one\ntwo\n")
    (one,) = fix(tmp_path)
    with refusing(tmp_path / "a.jsonl", number):
        content, reader = read(tmp_path, one)
    assert (content, reader.changed, reader.reason) == (b"", True, os.strerror(number))


def test_a_file_whose_disk_fails_while_it_is_read_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "a.jsonl", b"one\ntwo\n")
    (one,) = fix(tmp_path)

    def fail(*_: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pread", fail)
    _, reader = read(tmp_path, one)
    assert (reader.changed, reader.reason) == (True, "Input/output error")


def again(file: BinaryIO) -> Iterator[bytes]:
    """The content in two parts, the last one first."""
    for part in ((4, 8), (0, 4)):
        file.seek(part[0])
        yield file.read(part[1] - part[0])


def test_a_file_is_read_again_in_any_order_once_it_was_hashed(tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", b"one\ntwo\n")
    (one,) = fix(tmp_path)
    _, reader = read(tmp_path, one)
    assert (list(reader.read_again(again)), reader.changed) == ([b"two\n", b"one\n"], False)


@pytest.mark.parametrize("change", ["other bytes", "grown", *SWAPS])
def test_a_file_that_was_swapped_after_it_was_hashed_is_not_read_again(tmp_path: Path, change: str) -> None:
    path = tmp_path / "a.jsonl"
    put(path, b"one\ntwo\n")
    (one,) = fix(tmp_path)
    _, reader = read(tmp_path, one)
    if change in ("other bytes", "grown"):
        put(path, b"ONE\nTWO\n" if change == "other bytes" else b"one\ntwo\nthree\n", -timedelta(seconds=1))
    else:
        SWAPS[change](path)
    assert (list(reader.read_again(again)), reader.changed) == ([], True)


def test_a_file_that_changes_while_it_is_read_again_does_not_count(tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", b"one\ntwo\n")
    (one,) = fix(tmp_path)
    _, reader = read(tmp_path, one)
    for _ in reader.read_again(again):
        put(tmp_path / "a.jsonl", b"ONE\nTWO\n", -timedelta(seconds=1))
    assert reader.changed


def test_a_disk_that_fails_while_a_file_is_read_again_is_told(tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", b"one\ntwo\n")
    (one,) = fix(tmp_path)
    _, reader = read(tmp_path, one)

    def fail(_: BinaryIO) -> Iterator[bytes]:
        yield b"one"
        raise OSError(errno.EIO, "Input/output error")

    assert list(reader.read_again(fail)) == [b"one"]
    assert (reader.changed, reader.reason) == (True, "Input/output error")


def test_a_slice_whose_header_could_not_be_read_does_not_count_even_if_the_rest_can(tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", b"one\ntwo\n")
    (one,) = fix(tmp_path)
    reader = SliceReader(tmp_path, one)
    with refusing(tmp_path / "a.jsonl"):
        assert reader.header() == b""
    assert list(reader.blocks()) == []
    assert reader.changed


# ── putting away ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_consumed_file_is_put_away_once_it_is_quiet_and_a_used_name_gets_a_number(tmp_path: Path) -> None:
    inbox, archive = tmp_path / "in", tmp_path / "archive"
    inbox.mkdir()
    for turn in range(3):
        put(inbox / "a.jsonl", b"%d\n" % turn, QUIET - timedelta(seconds=1))
        known = consumed(inbox, *fix(inbox))
        assert landing.put_away(inbox, archive, known, NOW) == []
        assert landing.put_away(inbox, archive, known, NOW + timedelta(seconds=2)) == [b"a.jsonl"]
    assert {path.name: path.read_bytes() for path in archive.iterdir()} == {
        "a.jsonl": b"0\n",
        "a.jsonl~1": b"1\n",
        "a.jsonl~2": b"2\n",
    }


def test_a_file_that_takes_the_name_in_the_last_moment_stays_where_it_landed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox, archive = tmp_path / "in", tmp_path / "archive"
    inbox.mkdir()
    put(inbox / "a.jsonl", b"read\n", 2 * QUIET)
    known = consumed(inbox, *fix(inbox))
    rename = os.rename

    def replaced_first(path: bytes, target: bytes) -> None:
        put(tmp_path / "draft.jsonl", b"unread\n", 2 * QUIET)
        rename(tmp_path / "draft.jsonl", inbox / "a.jsonl")
        rename(path, target)
        put(inbox / "a.jsonl", b"later\n")

    monkeypatch.setattr(os, "rename", replaced_first)
    assert landing.put_away(inbox, archive, known, NOW + 2 * QUIET) == []
    assert list(archive.iterdir()) == []
    assert {path.name: path.read_bytes() for path in inbox.iterdir()} == {
        "a.jsonl": b"later\n",
        "a~1.jsonl": b"unread\n",
    }


@pytest.mark.parametrize("change", ["grew", "touched", "gone", "not read to its end"])
def test_a_file_that_is_not_done_stays_where_it_is(tmp_path: Path, change: str) -> None:
    path = tmp_path / "a.jsonl"
    put(path, b"one\ntwo", timedelta(0) if change == "not read to its end" else 2 * QUIET)
    known = consumed(tmp_path, *fix(tmp_path))
    if change == "grew":
        put(path, b"one\ntwo\nthree\n", 2 * QUIET)
    elif change == "touched":
        put(path, b"one\ntwo", 2 * QUIET + timedelta(seconds=1))
    elif change == "gone":
        path.unlink()
    assert landing.put_away(tmp_path, tmp_path / "archive", known, NOW + 2 * QUIET) == []
    assert not (tmp_path / "archive").exists()
