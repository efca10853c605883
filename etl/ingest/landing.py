"""The landing folder: files that were read move to the archive; a name used again is read again.

Spark's file source remembers paths, so a second file under an old name would be passed over in silence. Here such a
file is renamed and thereby read as new: orders it repeats are dropped as duplicates, so reading it again is safe and
not reading it never happens.

    landing/orders-1.jsonl ──read in batch 7, loaded──▶ archive/7/orders-1.jsonl
    landing/orders-1.jsonl (another one) ─────────────▶ landing/orders-1~1763286000123.jsonl
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

PATTERN = "*.jsonl"


@dataclass(frozen=True, slots=True)
class LandedFile:
    """A file as it was when its batch was staged."""

    name: str
    size: int
    modified_ns: int


def present(landing: Path) -> dict[str, LandedFile]:
    """The order files in the landing folder now, by name."""
    landing.mkdir(parents=True, exist_ok=True)
    found = {}
    for path in landing.glob(PATTERN):
        if path.name.startswith((".", "_")) or not path.is_file():
            continue
        stat = path.stat()
        found[path.name] = LandedFile(path.name, stat.st_size, stat.st_mtime_ns)
    return found


def files_of_batch(checkpoint: Path, stream_batch: int) -> set[str]:
    """The names of the files that Spark's file source has assigned to one of its batches."""
    log = checkpoint / "sources" / "0"
    for entry in (log / str(stream_batch), log / f"{stream_batch}.compact"):
        if entry.exists():
            _version, *lines = entry.read_text().splitlines()
            files = map(json.loads, lines)
            return {Path(unquote(urlparse(f["path"]).path)).name for f in files if f["batchId"] == stream_batch}
    return set()


def archive(landing: Path, folder: Path, files: Iterable[LandedFile]) -> int:
    """Move the files of a loaded batch out of the landing folder; a file changed since is left for `readmit`."""
    here = present(landing)
    moved = 0
    for file in files:
        if here.get(file.name) == file:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.move(landing / file.name, folder / file.name)
            moved += 1
    return moved


def readmit(landing: Path, known: Mapping[str, LandedFile]) -> list[str]:
    """Rename files that carry the name of one already read, so that they are read too. Returns the new names."""
    renamed = []
    for file in present(landing).values():
        if file.name in known and known[file.name] != file:
            fresh = f"{Path(file.name).stem}~{file.modified_ns}.jsonl"
            (landing / file.name).rename(landing / fresh)
            renamed.append(fresh)
    return renamed
