"""A disk that forgets what was not synced: what a power cut leaves, at its worst.

    fsync of a file      its content as it is now is on disk
    fsync of a folder    the names in it, and which files they mean, are on disk
    everything else      a write, a rename, a new or removed name: only in memory, and gone after `cut`

Hooks `os.fsync`, which all of our own code goes through; what Rust and C++ write without it is never on disk.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

Names = dict[str, int]


@dataclass
class Disk:
    """What is on disk of one folder and everything below it. Files are known by their inode."""

    root: Path
    ends_after: int | None = None
    syncs: list[str] = field(default_factory=list)
    _names: dict[int, Names] = field(default_factory=dict)  # by folder
    _contents: dict[int, bytes] = field(default_factory=dict)  # by file

    def remember_all(self) -> None:
        """Everything that is there now is on disk."""
        for folder, _, files in os.walk(self.root):
            self._names[Path(folder).stat().st_ino] = _names(folder)
            for name in files:
                path = Path(folder, name)
                self._contents[path.stat().st_ino] = path.read_bytes()

    @contextmanager
    def recording(self, monkeypatch: pytest.MonkeyPatch, end: Callable[[], None]) -> Iterator[None]:
        """Watch syncs; `end` is called after the chosen one."""
        real = os.fsync

        def sync(descriptor: int) -> None:
            real(descriptor)
            path = Path(f"/proc/self/fd/{descriptor}").readlink()
            if not path.is_relative_to(self.root) or len(self.syncs) - 1 == self.ends_after:
                return  # not ours, or the power is off
            inode = os.fstat(descriptor).st_ino
            if path.is_dir():
                self._names[inode] = _names(path)
            else:
                self._contents[inode] = path.read_bytes()
            self.syncs.append(str(path.relative_to(self.root)))
            if len(self.syncs) - 1 == self.ends_after:
                end()

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", sync)
            yield

    def cut(self) -> None:
        """Make the folder what it is after the power comes back."""
        attic = self.root.with_name(self.root.name + ".attic")
        attic.mkdir()
        where: dict[int, Path] = {}
        for folder, _, files in os.walk(self.root):
            for name in files:
                path = Path(folder, name)
                inode = path.stat().st_ino
                if inode not in where:
                    path.rename(attic / str(inode))  # the same file: those who know it by its inode find it again
                    where[inode] = attic / str(inode)
        self._restore(self.root, where)
        shutil.rmtree(attic)

    def _restore(self, folder: Path, where: dict[int, Path]) -> None:
        wanted = self._names.get(folder.stat().st_ino, {})
        for entry in list(folder.iterdir()):
            if entry.is_dir() and entry.name not in wanted:
                shutil.rmtree(entry)
        for name, inode in wanted.items():
            path = folder / name
            if inode < 0:  # a folder
                path.mkdir(exist_ok=True)
                self._restore(path, where)
                continue
            if inode in where and where[inode].exists():
                where[inode].rename(path)
            content = self._contents.get(inode, b"")
            if not path.exists() or path.read_bytes() != content:
                modified = path.stat().st_mtime_ns if path.exists() else None
                path.write_bytes(content)
                if modified is not None:
                    os.utime(path, ns=(modified, modified))


def _names(folder: Path | str) -> Names:
    """The names in a folder, with the inodes of files; folders are told by a negative number."""
    with os.scandir(folder) as entries:
        return {entry.name: -1 if entry.is_dir(follow_symlinks=False) else entry.inode() for entry in entries}
