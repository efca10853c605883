"""The landing folder: which bytes of which files a batch reads, fixed before anything is read.

    folder ── scan ──▶ LandedFile ── less what earlier batches consumed ──▶ Slice(file, first, last) ── in the ledger
    task   ── SliceReader (adapters.slice_reader): the same inode, complete lines, content hash; a file that changes
              meanwhile is `changed`, and so is one that can no longer be read
    loaded ── put_away: fully consumed files that have been quiet move to the archive

A name may hold any bytes a file system allows and is never interpreted. Text files are consumed up to their last line
end; the rest follows when the line is complete or the file has been quiet for a while. A file that grew is read on
from its consumed offset if the hash of the earlier bytes still matches; otherwise it is treated as a new file.
A file that cannot be opened waits where it is and holds up no other (`adapters.unreadable`, ADR 116).
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from etl.adapters.durable import make_folder, sync_folder
from etl.adapters.regular_file import RegularFile
from etl.adapters.unlistable import unlistable
from etl.contract.model import Format

SETTLE = timedelta(seconds=10)
"""How long a file must be unchanged before its last, unterminated line counts as complete."""
PATIENCE = timedelta(hours=1)
"""The same for a line that is the beginning of an event only: who writes in blocks may pause in the middle of one."""
QUIET = timedelta(seconds=60)
"""How long a consumed file stays in the landing folder: its writer may still append to it."""

MESSAGE_BYTES = 256
"""The assumed size of a message for sizing batches; only relative sizes matter."""

_SUFFIX: Mapping[Format, bytes] = {"jsonl": b".jsonl", "csv": b".csv", "parquet": b".parquet"}
BLOCK = 4 * 2**20
"""Bytes that are read of a file at a time."""
_LONGEST_TAIL = 2**16
_HIDDEN = (b".", b"_")
_RELEASE = re.compile(rb"frontstage-release-[0-9]{9}-[0-9a-f]{16}\.(?:jsonl|csv|parquet)(?:~[0-9]+)?")


@dataclass(frozen=True, slots=True)
class LandedFile:
    """A file as `scan` saw it. `name` is the file system's name, byte for byte."""

    name: bytes
    size: int
    modified_ns: int
    inode: int

    @property
    def label(self) -> str:
        """The name as valid text, for people and tables."""
        return self.name.decode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True)
class Slice:
    """Bytes `first` to `last` (exclusive) of one file, or offsets of one partition of a topic (`etl.adapters.kafka`).

    `ordinal` is its place among the batch's slices.
    """

    ordinal: int
    file: LandedFile
    first: int
    last: int

    @property
    def bytes(self) -> int:
        """Its size; for messages an estimate, the assumed bytes per message."""
        return (self.last - self.first) * (MESSAGE_BYTES if is_range(self.file.name) else 1)

    def as_json(self) -> dict[str, Any]:
        place = {"ordinal": self.ordinal, "first": self.first, "last": self.last}
        return {**asdict(self.file), "name": self.file.name.hex(), **place}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Slice:
        file = LandedFile(bytes.fromhex(value["name"]), value["size"], value["modified_ns"], value["inode"])
        return cls(value["ordinal"], file, value["first"], value["last"])


@dataclass(frozen=True, slots=True)
class Consumed:
    """What earlier batches read under a name: the file's identity, and offsets and hash of every part in order."""

    inode: int
    size: int
    modified_ns: int
    parts: tuple[tuple[int, int, str], ...]  # first, last, digest

    @property
    def end(self) -> int:
        return max((last for _, last, _ in self.parts), default=0)

    def is_of(self, file: LandedFile) -> bool:
        """Whether the file was not modified since."""
        return (self.inode, self.size, self.modified_ns) == (file.inode, file.size, file.modified_ns)

    def covers(self, file: LandedFile) -> bool:
        """Whether all of the file has been read."""
        return self.is_of(file) and self.end >= file.size


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one batch; the rest is left to later ones."""

    batch_bytes: int = 256 * 2**20
    files: int = 5_000
    slice_bytes: int = 16 * 2**20

    def within(self, batch_bytes: int | None) -> Limits:
        """These limits, with at most `batch_bytes` per batch."""
        return self if batch_bytes is None else replace(self, batch_bytes=min(self.batch_bytes, batch_bytes))


def is_range(name: bytes) -> bool:
    """Whether a slice is of a topic's partition, `topic/partition`; the name of a file has no slash."""
    return b"/" in name


def release_name(number: int, token: str, format: Format) -> str:
    """The name of a file of released lines."""
    return f"frontstage-release-{number:09d}-{token}{_SUFFIX[format].decode()}"


def is_release(name: bytes) -> bool:
    """Whether a file has the name of a file of released lines, landed, or archived where the name was taken (`~1`)."""
    return _RELEASE.fullmatch(name) is not None


def format_of(name: bytes, format: Format) -> Format:
    """A file's format: files of released lines are JSON lines, whatever the pipeline's format is."""
    return "jsonl" if is_release(name) else format


def scan(folder: Path, format: Format) -> list[LandedFile]:
    """The files that have landed, oldest first. Links, folders and hidden files are ignored.

    Raises `LandingAway` or `LandingShut` for a folder that cannot be listed.
    """
    try:
        return _listed(folder, format)
    except OSError as error:
        raise unlistable(folder, error) from None


def _listed(folder: Path, format: Format) -> list[LandedFile]:
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    with os.scandir(os.fsencode(folder)) as entries:
        for entry in entries:
            if not entry.name.endswith(_SUFFIX[format]) or entry.name.startswith(_HIDDEN):
                continue
            try:
                seen = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(seen.st_mode) and seen.st_size:
                found.append(LandedFile(entry.name, seen.st_size, seen.st_mtime_ns, seen.st_ino))
    return sorted(found, key=lambda file: (file.modified_ns, file.name))


def fix_slices(
    folder: Path,
    files: Iterable[LandedFile],
    consumed: Mapping[bytes, Consumed],
    format: Format,
    now: datetime,
    limits: Limits,
) -> tuple[Slice, ...]:
    """The slices of the next batch: the unread bytes of every readable file, up to the limits."""
    slices: list[Slice] = []
    total = taken = 0
    for file in files:
        if total >= limits.batch_bytes or taken >= limits.files:
            break
        before = consumed.get(file.name)
        if before is not None and before.covers(file):  # it need not even be opened
            continue
        try:
            with RegularFile(folder, file.name) as descriptor:
                parts = _parts(descriptor, file, before, format_of(file.name, format), now, limits, total)
        except OSError:  # removed, archived or not readable: `unreadable.find` says why
            continue
        slices += [Slice(len(slices) + number, file, *part) for number, part in enumerate(parts)]
        total, taken = total + sum(last - first for first, last in parts), taken + bool(parts)
    return tuple(slices)


def _parts(
    descriptor: int,
    file: LandedFile,
    before: Consumed | None,
    format: Format,
    now: datetime,
    limits: Limits,
    total: int,
) -> list[tuple[int, int]]:
    """Ranges of whole lines that a batch, with `total` bytes so far, reads from a file."""
    first, last = _unread(descriptor, file, before, format, now)
    if first >= last:
        return []
    if format != "parquet":
        last = _cut(descriptor, first, last, limits.batch_bytes - total)
    return list(_split(descriptor, first, last, format, limits.slice_bytes))


def _unread(
    descriptor: int, file: LandedFile, before: Consumed | None, format: Format, now: datetime
) -> tuple[int, int]:
    first = 0 if before is None else _consumed_end(descriptor, file, before)
    quiet_s = now.timestamp() - _written_at(os.fstat(descriptor))
    if format == "parquet":
        whole = quiet_s >= SETTLE.total_seconds() or _has_footer(descriptor, file)
        return (0, file.size) if first == 0 and whole else (0, 0)
    end = file.size if first >= file.size else _last_line_end(descriptor, file, first)
    if end < file.size:
        patience = SETTLE if _may_be_whole(descriptor, end, file.size, format) else PATIENCE
        end = file.size if quiet_s >= patience.total_seconds() else end
    return first, end


def _may_be_whole(descriptor: int, first: int, last: int, format: Format) -> bool:
    """Whether a line without an end may be complete: of JSON that can be told, unless it is no event for its length."""
    if format != "jsonl" or last - first > _LONGEST_TAIL:
        return True
    tail = os.pread(descriptor, last - first, first)
    try:
        return not tail.strip() or isinstance(json.loads(tail), dict)
    except RecursionError:
        return True
    except ValueError:
        return False


def _written_at(seen: os.stat_result) -> float:
    """When a file was last written. A sender may give it any time, also one to come; nobody sets the time of change."""
    return min(seen.st_mtime, seen.st_ctime)


def _consumed_end(descriptor: int, file: LandedFile, before: Consumed) -> int:
    """The consumed offset of a file: its old end if the file is as it was or only grew, else 0."""
    if before.is_of(file):
        return before.end
    if file.inode != before.inode or file.size < before.end:
        return 0
    unchanged = all(digest_of(descriptor, first, last) == digest for first, last, digest in before.parts)
    return before.end if unchanged else 0


def _last_line_end(descriptor: int, file: LandedFile, first: int) -> int:
    end = file.size
    while end > first:
        start = max(first, end - BLOCK)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return first


def _has_footer(descriptor: int, file: LandedFile) -> bool:
    return os.pread(descriptor, 4, max(0, file.size - 4)) == b"PAR1"


def _cut(descriptor: int, first: int, last: int, room: int) -> int:
    """The end of a part that fits into the batch, at a line end."""
    return last if last - first <= room else min(last, _line_end_after(descriptor, first + room, last))


def _split(descriptor: int, first: int, last: int, format: Format, slice_bytes: int) -> Iterator[tuple[int, int]]:
    while format != "parquet" and last - first > slice_bytes * 3 // 2:
        end = _line_end_after(descriptor, first + slice_bytes, last)
        yield first, end
        first = end
    if last > first:
        yield first, last


def _line_end_after(descriptor: int, position: int, last: int) -> int:
    while position < last:
        block = os.pread(descriptor, min(BLOCK, last - position), position)
        found = block.find(b"\n")
        if found >= 0:
            return position + found + 1
        if not block:
            break
        position += len(block)
    return last


def digest_of(descriptor: int, first: int, last: int) -> str:
    """The hash of some bytes of a file."""
    hashed = hashlib.blake2b(digest_size=16)
    while first < last:
        block = os.pread(descriptor, min(BLOCK, last - first), first)
        if not block:
            return "truncated"
        hashed.update(block)
        first += len(block)
    return hashed.hexdigest()


def put_away(folder: Path, archive: Path, consumed: Mapping[bytes, Consumed], now: datetime) -> list[bytes]:
    """Move fully consumed files that have been quiet into the archive; returns their names."""
    moved = []
    for name, known in consumed.items():
        path = os.path.join(os.fsencode(folder), name)  # noqa: PTH118 - names are bytes
        try:
            seen = os.lstat(path)
        except FileNotFoundError:
            continue
        unchanged = (seen.st_ino, seen.st_size, seen.st_mtime_ns) == (known.inode, known.size, known.modified_ns)
        if unchanged and known.end >= known.size and now.timestamp() - _written_at(seen) >= QUIET.total_seconds():
            make_folder(archive)
            put = _free_name(archive, name)
            os.rename(path, put)  # noqa: PTH104
            if os.lstat(put).st_ino == known.inode:
                moved.append(name)
            else:  # the name belongs to another, unread file by now
                _land_again(folder, name, put)
    if moved:  # else a power cut could undo the move after the ledger has recorded it
        sync_folder(archive)
        sync_folder(folder)
    return moved


def _land_again(folder: Path, name: bytes, path: bytes) -> None:
    """Move a file back to the landing folder, under its name or a variant of it."""
    stem, dot, ending = name.rpartition(b".")
    for count in itertools.count():
        free = name if count == 0 else b"%s~%d%s%s" % (stem, count, dot, ending)
        try:
            os.link(path, os.path.join(os.fsencode(folder), free))  # noqa: PTH118
        except FileExistsError:
            continue
        break
    os.unlink(path)  # noqa: PTH108


def _free_name(archive: Path, name: bytes) -> bytes:
    target, count = os.path.join(os.fsencode(archive), name), 0  # noqa: PTH118
    while os.path.lexists(target):
        count += 1
        target = os.path.join(os.fsencode(archive), b"%s~%d" % (name, count))  # noqa: PTH118
    return target
