"""Retention of archived input, batches in the ledger, run reports, results and pages of audits.

Batches that are not loaded, or that read a file which is still in the landing folder, are kept. Lines of archived files
are counted into the ledger before the files are removed, so that `frontstage audit` still adds up. A file that grew
after it was archived moves back to the landing folder, and the next batch continues at its last read offset.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from etl.adapters import landing
from etl.adapters.landing import Consumed
from etl.contract.model import Format
from etl.pipeline.input import topic_lines
from etl.pipeline.inspection import inventory
from etl.pipeline.inspection.removed_days import note_removed_day

if TYPE_CHECKING:
    from etl.pipeline.microbatch import MicroBatch

_NEWEST_KEPT = 100  # newest batches, kept at any age
_MAY_GROW = timedelta(days=2)  # after a file was archived; those that were written later still are looked at, too
_COUNTED = re.compile(rb"~\d+$")  # what the archive appends to a name that is taken


@dataclass(frozen=True, slots=True)
class Removed:
    """What a round of maintenance removed."""

    files: int = 0
    bytes: int = 0

    def __add__(self, other: Removed) -> Removed:
        return Removed(self.files + other.files, self.bytes + other.bytes)


def remove_archive(run: MicroBatch, before: datetime, *, dry_run: bool) -> Removed:
    """Remove whole days of archived input."""
    pipeline, total = run.resolved.pipeline, Removed()
    begun = run.ledger.oldest_unloaded()
    if begun is not None:  # a topic's messages are archived before they are read
        before = min(before, begun.started_at)
    refused = inventory.refused_files(pipeline, run.places)
    for folder in days(run.places.archive, until=before.date()):
        if not dry_run:
            lines = inventory.lines_under(folder, pipeline.stream.source.format, refused)
            lines += topic_lines.messages(pipeline, [folder], run.ledger)
            note_removed_day(run.places, run.ledger, folder.name, lines)
        total += remove_folder(folder, dry_run=dry_run)
    return total


def days(archive: Path, *, until: date | None = None, since: date | None = None) -> Iterator[Path]:
    """The folders of an archive, one per day."""
    for folder in sorted(archive.glob("????-??-??")):
        try:
            day = date.fromisoformat(folder.name)
        except ValueError:
            continue
        if (until is None or day < until) and (since is None or day >= since):
            yield folder


def forget_batches(run: MicroBatch, before: datetime, *, dry_run: bool) -> int:
    """Remove old batches from the ledger; returns how many."""
    if dry_run:
        return 0
    here = [file.name for file in landing.scan(run.places.landing, run.resolved.pipeline.stream.source.format)]
    return run.ledger.forget(before, here, _NEWEST_KEPT)


def remove_old_folders(roots: Iterable[Path], before: datetime, *, dry_run: bool) -> Removed:
    """Remove a root's folders that were last modified before this time; the newest one stays."""
    total = Removed()
    for root in roots:
        folders = sorted((path for path in root.glob("*") if path.is_dir()), key=lambda path: path.stat().st_mtime)
        old = [path for path in folders[:-1] if path.stat().st_mtime < before.timestamp()]
        total = sum((remove_folder(path, dry_run=dry_run) for path in old), total)
    return total


def remove_run_logs(logs: Path, before: datetime, *, dry_run: bool) -> Removed:
    """Remove the logs of old Airflow runs: a folder per DAG, in it a folder per run."""
    return remove_old_folders(logs.glob("dag_id=*"), before, dry_run=dry_run)


def remove_folder(folder: Path, *, dry_run: bool) -> Removed:
    """Remove a folder recursively."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    if not dry_run:
        shutil.rmtree(folder, ignore_errors=True)
    return Removed(len(sizes), sum(sizes))


class ArchivedInput(Protocol):
    """The ledger's record of archived files."""

    def archived(self, inodes: Sequence[int]) -> list[tuple[bytes, Consumed]]: ...

    def land_again(self, name: bytes, inode: int, landed_as: bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class Archive:
    """Landing folder and archive of a pipeline, and the ledger's record of them."""

    landing: Path
    folder: Path
    format: Format
    ledger: ArchivedInput

    def land_grown(self, now: datetime, *, dry_run: bool) -> int:
        """Move files that grew after they were archived back to the landing folder; returns how many."""
        grown = list(self._grown(now))
        for folder, archived, name, inode in () if dry_run else grown:
            landed_as = _free_name(self.landing, name)
            self.ledger.land_again(name, inode, landed_as)  # first: else it would be read from its beginning
            (folder / os.fsdecode(archived)).rename(self.landing / os.fsdecode(landed_as))
        return len(grown)

    def _grown(self, now: datetime) -> Iterator[tuple[Path, bytes, bytes, int]]:
        """Folder, archived name, landed name and inode of every file with more bytes than batches have read."""
        if self.format == "parquet":  # a file with a footer cannot grow
            return
        for folder in days(self.folder):
            day = date.fromisoformat(folder.name)
            recent = day >= (now - _MAY_GROW).date()
            seen_files = ((path, path.stat()) for path in folder.glob("*"))
            files = {seen.st_ino: (path, seen.st_size) for path, seen in seen_files if recent or _since(seen, day)}
            for name, known in self.ledger.archived(list(files)) if files else ():
                path, size = files[known.inode]
                archived = os.fsencode(path.name)
                if size > known.end and _uncounted(name) == _uncounted(archived):
                    yield folder, archived, name, known.inode


def _since(seen: os.stat_result, day: date) -> bool:
    """Whether a file was written after the day on which it was archived."""
    return datetime.fromtimestamp(seen.st_mtime, UTC).date() > day


def _uncounted(name: bytes) -> bytes:
    """A name without what archive and landing folder add where it is taken: `a.jsonl~1`, `a~1.jsonl`."""
    stem, dot, ending = _COUNTED.sub(b"", name).rpartition(b".")
    return _COUNTED.sub(b"", stem) + dot + ending


def _free_name(folder: Path, name: bytes) -> bytes:
    """The name if it is free, else a variant with the same suffix."""
    stem, dot, ending = name.rpartition(b".")
    free, count = name, 0
    while (folder / os.fsdecode(free)).exists():
        count += 1
        free = b"%s~%d%s%s" % (stem, count, dot, ending)
    return free
