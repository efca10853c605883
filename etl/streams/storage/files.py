"""Immutable, sealed files on any file system, for segments and runs of state.

    content │ crc32 of name and content │ magic │ length          the seal is the last 24 bytes

A store may keep some folders under other roots: the segments of a stream that belongs to a site.

A name is used for one content only, so caching by name is always valid: files on a remote store are copied to a local
folder once and mapped from there, local files are mapped in place. A file is written atomically, synced and renamed.
Its seal is verified when a process first opens it, and again when the file has been modified since; a damaged file is
never read (ADR 51).
"""

from __future__ import annotations

import struct
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from etl.adapters.durable import write_durably
from etl.errors import TerminalError

_SEAL = struct.Struct("<Q8sQ")
_MAGIC = b"FSsealed"
_MOST_OPEN = 8192  # files that a process keeps mapped
_UNUSED_FOR_S = 3600.0
_Identity = tuple[int, int, int, int]
T = TypeVar("T")


class FileDamaged(TerminalError):
    """A file of the stream log or of a correlation's state is missing or damaged."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name, self.reason = name, reason

    def __str__(self) -> str:
        return (
            f"{self.name} {self.reason}; nothing was decided: restore the file, "
            "or start the correlation anew with `frontstage correlate reset`"
        )


@dataclass(frozen=True, slots=True)
class FileStore:
    """Sealed files under a root: a folder, or a URL that fsspec supports. `cache` is the folder for remote files.

    `elsewhere` maps folders (with a slash at the end) to other roots.
    """

    root: str
    cache: Path
    elsewhere: tuple[tuple[str, str], ...] = ()

    @property
    def is_local(self) -> bool:
        return "://" not in self.root

    def write(self, name: str, content: pa.Buffer) -> int:
        """Write a file; returns its size. The same name must always have the same content."""
        if (other := self._store_elsewhere(name)) is not None:
            return other.write(name, content)
        seal = _SEAL.pack(_crc(name, content), _MAGIC, content.size)
        if self.is_local:
            write_durably(Path(self.root) / name, content, seal)
        else:
            system, root = self._remote()
            path = f"{root}/{name}"
            system.makedirs(path.rpartition("/")[0], exist_ok=True)
            system.pipe_file(path, content.to_pybytes() + seal)
        return int(content.size) + _SEAL.size

    def open(self, name: str, parse: Callable[[pa.Buffer, str], T]) -> T:
        """Map and verify a file, and parse it. It stays open for later batches of this process."""
        return _OPEN.get(self._store_elsewhere(name) or self, name, parse)

    def names(self, folder: str) -> Iterator[tuple[str, float]]:
        """The files under a folder, with modification times; none under an unreachable root."""
        for inside, root in self.elsewhere:
            if inside.startswith(f"{folder}/"):
                yield from FileStore(root, self.cache)._names_if_there(inside.rstrip("/"))
        system, root = self._remote()
        if not system.exists(f"{root}/{folder}"):
            return
        for path, info in system.find(f"{root}/{folder}", detail=True).items():
            yield path[len(root) + 1 :], _modified(info)

    def _names_if_there(self, folder: str) -> list[tuple[str, float]]:
        with suppress(Exception):  # fsspec drivers raise arbitrary errors without a network
            return list(self.names(folder))
        return []

    def remove(self, name: str) -> int:
        """Remove a file if it exists; returns the freed bytes."""
        if (other := self._store_elsewhere(name)) is not None:
            return other.remove(name)
        system, root = self._remote()
        path = f"{root}/{name}"
        (self.cache / name).unlink(missing_ok=True)
        if not system.exists(path):
            return 0
        size = int(system.size(path) or 0)
        system.rm_file(path)
        return size

    def _store_elsewhere(self, name: str) -> FileStore | None:
        """The store of a file that is under another root; None: it is in this one."""
        for folder, root in self.elsewhere:
            if name.startswith(folder):
                return FileStore(root, self.cache)
        return None

    def _remote(self) -> tuple[Any, str]:
        import fsspec  # type: ignore[import-untyped]

        system, root = fsspec.core.url_to_fs(self.root)
        return system, str(root).rstrip("/")

    def local_path(self, name: str) -> Path:
        """A local path for mapping a file; remote files are copied first."""
        if self.is_local:
            return Path(self.root) / name
        copy = self.cache / name
        if not copy.exists():
            system, root = self._remote()
            try:
                write_durably(copy, system.cat_file(f"{root}/{name}"))
            except FileNotFoundError:
                raise FileDamaged(name, "is not there") from None
        return copy


def _modified(info: dict[str, Any]) -> float:
    found = info.get("mtime") or info.get("created") or info.get("LastModified") or 0.0
    return float(found.timestamp() if hasattr(found, "timestamp") else found)


def _crc(name: str, content: pa.Buffer) -> int:
    """The checksum of name and content: a file under a wrong name is damaged as well."""
    return zlib.crc32(content, zlib.crc32(name.encode()))


def _mapped(path: Path, name: str) -> pa.Buffer:
    try:
        with pa.memory_map(str(path)) as source:
            whole = source.read_buffer()
    except (OSError, pa.ArrowInvalid) as error:
        raise FileDamaged(name, "is not there" if isinstance(error, FileNotFoundError) else "cannot be read") from None
    if whole.size < _SEAL.size:
        raise FileDamaged(name, "is cut short")
    crc, magic, length = _SEAL.unpack(whole.slice(whole.size - _SEAL.size))
    content = whole.slice(0, whole.size - _SEAL.size)
    if magic != _MAGIC or length != content.size or _crc(name, content) != crc:
        raise FileDamaged(name, "does not have the content that was written")
    return content


@dataclass(slots=True)
class _Opened:
    identity: _Identity
    content: Any
    used_s: float = field(default_factory=time.monotonic)


class OpenFiles:
    """An LRU cache of files that this process has mapped."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], _Opened] = OrderedDict()

    def get(self, store: FileStore, name: str, parse: Callable[[pa.Buffer, str], T]) -> T:
        key, path = (store.root, name), store.local_path(name)
        identity = _identity(path, name)
        known = self._known.get(key)
        if known is None or known.identity != identity:
            known = self._known[key] = _Opened(identity, parse(_mapped(path, name), name))
            self._evict()
        known.used_s = time.monotonic()
        self._known.move_to_end(key)
        found: T = known.content
        return found

    def _evict(self) -> None:
        """Close the least recently used file: a mapped file occupies disk space even after it is removed."""
        unused_since = time.monotonic() - _UNUSED_FOR_S
        while len(self._known) > 1:
            oldest = next(iter(self._known))
            if len(self._known) <= _MOST_OPEN and self._known[oldest].used_s > unused_since:
                return
            del self._known[oldest]

    def clear(self) -> None:
        self._known.clear()


def _identity(path: Path, name: str) -> _Identity:
    """A value that changes when the file is modified or replaced."""
    try:
        seen = path.stat()
    except FileNotFoundError:
        raise FileDamaged(name, "is not there") from None
    return seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


_OPEN = OpenFiles()


def open_files() -> OpenFiles:
    """The open files of this process."""
    return _OPEN
