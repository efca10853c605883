"""Durable writes: content synced, put in place by rename, folder synced."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa


def write_durably(path: Path, *content: bytes | pa.Buffer) -> None:
    """Write the parts of `content` atomically; after this returns, the file survives a power cut."""
    make_folder(path.parent)
    beside = path.with_name(f".{path.name}.tmp")  # one writer at a time: leftovers of a killed one are overwritten
    try:
        _write_synced(beside, content)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    sync_folder(path.parent)


def create_durably(path: Path, *content: bytes | pa.Buffer) -> None:
    """The same under a name that must be free, whoever writes meanwhile; raises `FileExistsError`."""
    make_folder(path.parent)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")  # two writers may be here at once
    try:
        _write_synced(beside, content)
        os.link(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    sync_folder(path.parent)


def _write_synced(path: Path, content: Iterable[bytes | pa.Buffer]) -> None:
    with path.open("wb") as file:
        for part in content:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, each synced."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def renew(paths: Iterable[Path]) -> None:
    """Let the age of files begin anew: retention counts from their last use.

    No batch fails for it: a file may be gone, or belong to the account that runs tasks on a cluster.
    """
    for path in paths:
        with suppress(OSError):
            os.utime(path)


def sync_files(paths: Iterable[Path]) -> None:
    """Sync existing files, then the folders that contain them, in the order in which they were given.

    What refers to other files is given after them: after a power cut it may be missing, but never refers to nothing.
    """
    folders: dict[Path, None] = {}
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        folders[path.parent] = None
    for folder in folders:
        sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Sync a folder's entries."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
