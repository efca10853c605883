"""Durable file operations, in one place.

A file appears atomically: written under a temporary name, synced, renamed, and the folder synced. Tests inject crashes
at these steps.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL_S = 0.02


def sync(descriptor: int) -> None:
    """Sync an open file to disk."""
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Sync a folder's entries to disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rename(source: Path, target: Path) -> None:
    """Rename a finished file, atomically."""
    source.rename(target)


def remove(path: Path) -> None:
    """Remove a file if it exists."""
    path.unlink(missing_ok=True)


def write_durably(path: Path, data: bytes) -> None:
    """Write a small file atomically and synced."""
    building = path.with_name(f".{path.name}.building")
    with building.open("wb") as file:
        file.write(data)
        file.flush()
        sync(file.fileno())
    rename(building, path)
    sync_folder(path.parent)


@contextmanager
def locked(path: Path, *, shared: bool = False, wait_s: float = 0.0) -> Iterator[bool]:
    """Hold a file lock, which the kernel releases with the process. Yields whether it was obtained in `wait_s`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        yield acquire(file.fileno(), shared=shared, wait_s=wait_s)


def acquire(descriptor: int, *, shared: bool, wait_s: float = 0.0) -> bool:
    """Try for a lock on an open file until `wait_s` have passed."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
