"""What tasks read of landed files: one slice, block by block, with its hash, or word that the file has changed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etl.adapters.landing import BLOCK, Slice, digest_of
from etl.adapters.regular_file import RegularFile, reason_of
from etl.contract.words.types import TIMESTAMP

T = TypeVar("T")


class SliceReader:
    """Reads one slice block by block; afterwards `digest` is its hash, or `changed` says to discard its lines.

    `reason` is the system's, where the file could not be read.
    """

    def __init__(self, folder: Path, slice: Slice) -> None:
        self._folder, self._slice = folder, slice
        self.digest, self.changed, self.reason = "", False, ""

    def landed_at(self, lines: npt.NDArray[np.int64]) -> pa.Array:
        """The landing time of these lines: the file's modification time."""
        landed = datetime.fromtimestamp(self._slice.file.modified_ns / 1e9, UTC)
        return pa.array([landed], TIMESTAMP).take(pa.array(np.zeros(len(lines), np.int32)))

    def header(self) -> bytes:
        """The file's first line, for formats that name their columns there."""
        try:
            with RegularFile(self._folder, self._slice.file.name) as descriptor:
                return os.pread(descriptor, 65_536, 0).split(b"\n", 1)[0]
        except OSError as error:
            self._give_up(error)
            return b""

    def blocks(self) -> Iterator[bytes]:
        """The slice's bytes, in order; none once the file has changed."""
        if not self.changed:
            try:
                yield from self._blocks()
            except OSError as error:
                self._give_up(error)

    def read_again(self, read: Callable[[BinaryIO], Iterator[T]]) -> Iterator[T]:
        """What `read` makes of the whole file, once `blocks` has hashed it; nothing if it is another one by now."""
        if not self.changed:
            try:
                yield from self._read_again(read)
            except OSError as error:
                self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self.changed, self.reason = True, reason_of(error)

    def _blocks(self) -> Iterator[bytes]:
        one = self._slice
        with RegularFile(self._folder, one.file.name) as descriptor:
            if not self._as_fixed(descriptor):
                self.changed = True
                return
            before, hashed, at = os.fstat(descriptor), hashlib.blake2b(digest_size=16), one.first
            while at < one.last and (block := os.pread(descriptor, min(BLOCK, one.last - at), at)):
                hashed.update(block)
                at += len(block)
                yield block
            self.digest = hashed.hexdigest()
            after = os.fstat(descriptor)
            touched = (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size)
            self.changed = at < one.last or (touched and digest_of(descriptor, one.first, one.last) != self.digest)

    def _read_again(self, read: Callable[[BinaryIO], Iterator[T]]) -> Iterator[T]:
        with RegularFile(self._folder, self._slice.file.name) as descriptor:
            before = os.fstat(descriptor)
            if not self._is_hashed(descriptor):
                self.changed = True
                return
            with open(descriptor, "rb", buffering=0, closefd=False) as file:
                yield from read(file)
            after = os.fstat(descriptor)
            touched = (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size)
            self.changed = touched and not self._is_hashed(descriptor)

    def _is_hashed(self, descriptor: int) -> bool:
        """Whether the file is the slice that was hashed, and nothing more."""
        one, seen = self._slice, os.fstat(descriptor)
        if (seen.st_ino, seen.st_size) != (one.file.inode, one.last):
            return False
        return seen.st_mtime_ns == one.file.modified_ns or digest_of(descriptor, one.first, one.last) == self.digest

    def _as_fixed(self, descriptor: int) -> bool:
        """Whether the file is the one that was fixed, grown at most behind a line end."""
        one, seen = self._slice, os.fstat(descriptor)
        if seen.st_ino != one.file.inode or seen.st_size < one.last:
            return False
        if (seen.st_size, seen.st_mtime_ns) == (one.file.size, one.file.modified_ns):
            return True
        return os.pread(descriptor, 1, one.last - 1) == b"\n"


def start_of_line(folder: Path, one: Slice, line: int) -> int:
    """Where a line of a slice begins, as lines of a slice are numbered; the slice's end where it has fewer lines."""
    at, before = one.first, line - 1
    if before < 1:
        return at
    for block in SliceReader(folder, one).blocks():
        ends = np.flatnonzero(np.frombuffer(block, np.uint8) == 0x0A)
        if len(ends) >= before:
            return at + int(ends[before - 1]) + 1
        at, before = at + len(block), before - len(ends)
    return one.last
