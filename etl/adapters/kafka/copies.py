"""Copies of the messages that batches read: one Arrow file per slice, written directly into the archive.

    archive/2026-11-18/clicks@3@1200-1650@8f02….kafka.arrow      offset, timestamp, value: as the broker had them

Retries, audits, event traces and releases from quarantine read the copy, even after the broker has dropped the
messages. A copy appears atomically and synced; the archive's retention applies to it.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etl.adapters.durable import make_folder, sync_folder
from etl.adapters.kafka.errors import CopyMissing
from etl.adapters.landing import Slice, is_range
from etl.contract.words.types import TIMESTAMP

SCHEMA: Final = pa.schema(
    [pa.field("offset", pa.int64()), pa.field("timestamp", TIMESTAMP), pa.field("value", pa.binary())]
)
SUFFIX: Final = ".kafka.arrow"
_NAME = re.compile(
    r"(?P<topic>[A-Za-z0-9._-]+)@(?P<partition>\d+)@(?P<first>\d+)-(?P<last>\d+)@(?P<id>[0-9a-f]{16})\.kafka\.arrow"
)
_BLOCK = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy by its name."""

    path: Path
    topic: str
    topic_id: int
    partition: int
    first: int
    last: int

    @classmethod
    def at(cls, path: Path) -> Copy | None:
        """Parse a path; None if it names no copy."""
        found = _NAME.fullmatch(path.name)
        if found is None:
            return None
        numbers = (int(found[name]) for name in ("partition", "first", "last"))
        return cls(path, found["topic"], int(found["id"], 16), *numbers)


def copies_in(folder: Path) -> list[Copy]:
    """The copies of one day."""
    return [one for path in folder.glob(f"*{SUFFIX}") if (one := Copy.at(path)) is not None]


def copy_path(archive: Path, one: Slice) -> Path:
    """The path of a slice's copy: in the archive's folder of the day on which it was fixed."""
    fixed_at = datetime.fromtimestamp(one.file.modified_ns / 1e9, UTC)
    topic, _, partition = one.file.label.rpartition("/")
    name = f"{topic}@{partition}@{one.first}-{one.last}@{one.file.inode:016x}{SUFFIX}"
    return archive / f"{fixed_at:%Y-%m-%d}" / name


def missing(archive: Path, slices: tuple[Slice, ...]) -> tuple[Slice, ...]:
    """Ranges of offsets that have no copy yet."""
    return tuple(one for one in slices if is_range(one.file.name) and not copy_path(archive, one).exists())


class CopyWriter:
    """Writes a copy in parts; `close` puts it in place. Concurrent tries write the same content to separate files."""

    def __init__(self, path: Path) -> None:
        make_folder(path.parent)
        self._path, self._beside = path, path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        self._file = self._beside.open("wb")
        self._writer = pa.ipc.new_file(self._file, SCHEMA)

    def write(self, records: pa.RecordBatch) -> None:
        self._writer.write_batch(records)

    def close(self) -> None:
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._beside.replace(self._path)
        sync_folder(self._path.parent)

    def abandon(self) -> None:
        self._file.close()
        self._beside.unlink(missing_ok=True)


class CopyReader:
    """Reads the copy of one slice; afterwards `digest` is its hash. A copy never changes: it is written once."""

    changed: Final = False
    reason: Final = ""

    def __init__(self, archive: Path, slice: Slice) -> None:
        self._path, self._slice = copy_path(archive, slice), slice
        self._offset = np.zeros(0, np.int64)
        self._landed = pa.array([], TIMESTAMP)
        self.digest = ""

    def records(self) -> Iterator[pa.RecordBatch]:
        """The messages, in order."""
        fixed_at = pa.scalar(self._slice.file.modified_ns // 1000, pa.int64()).cast(TIMESTAMP)
        for records in read_copy(self._path):
            self._offset = records.column("offset").to_numpy()
            self._landed = _times(records.column("timestamp"), fixed_at)
            yield records
        self.digest = _digest(self._path)

    def landed_at(self, offsets: npt.NDArray[np.int64]) -> pa.Array:
        """Kafka's timestamps of these messages of the last block, capped at the time their batch was fixed."""
        return self._landed.take(pa.array(np.searchsorted(self._offset, offsets)))


def read_copy(path: Path) -> Iterator[pa.RecordBatch]:
    """The messages of a copy."""
    try:
        with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)
    except (OSError, pa.ArrowInvalid):
        raise CopyMissing(str(path)) from None


def _times(came: pa.Array, fixed_at: pa.Scalar) -> pa.Array:
    micros, bound = came.cast(pa.int64()).fill_null(-1).to_numpy(), fixed_at.cast(pa.int64()).as_py()
    return pa.array(np.where(micros < 0, bound, np.minimum(micros, bound))).cast(TIMESTAMP)


def _digest(path: Path) -> str:
    hashed = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            hashed.update(block)
    return hashed.hexdigest()
