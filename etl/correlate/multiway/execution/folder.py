"""The storage root of a site: atomically written files.

A marker file at the root distinguishes the site from an empty mount point. Without it the site is unreachable. The same
when the file system's driver fails: fsspec drivers raise arbitrary errors without a network, not only `OSError`.
"""

from __future__ import annotations

import io
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import fsspec  # type: ignore[import-untyped]
import pyarrow as pa

from etl.correlate.multiway.errors import RootNotReachable
from etl.correlate.multiway.query import Site
from etl.errors import TransientError

MARKER = "_frontstage_site"


class SiteAway(TransientError):
    """A site is unreachable. Its steps wait."""

    def __init__(self, site: str) -> None:
        super().__init__(site)
        self.site = site

    def __str__(self) -> str:
        return f"site {self.site!r} is away; its part waits, nothing is lost"


class SiteFolder:
    """Files of a site, by name under its root. `durable` files survive a power cut, not only a killed process."""

    def __init__(self, site: Site, *, durable: bool = True) -> None:
        self.site, self._durable = site, durable

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        """The file system and the root in it; some file systems connect on opening."""
        try:
            system, root = fsspec.core.url_to_fs(self.site.root)
        except Exception as error:
            raise RootNotReachable(self.site.name, self.site.root, _reason(error)) from error
        return system, str(root).rstrip("/")

    @property
    def _fs(self) -> Any:
        return self._opened[0]

    def create(self) -> None:
        """Write the marker; the root itself must exist."""
        self.reach()
        try:
            if not self.is_there():
                self._put(MARKER, self.site.name.encode())
        except Exception as error:
            raise RootNotReachable(self.site.name, self.site.root, _reason(error)) from error

    def reach(self) -> None:
        """Raises `RootNotReachable` when there is no such root."""
        fs, root = self._opened
        try:
            found = fs.isdir(root or "/")
        except Exception as error:
            raise RootNotReachable(self.site.name, self.site.root, _reason(error)) from error
        if not found:
            raise RootNotReachable(self.site.name, self.site.root, "there is no such folder")

    def is_there(self) -> bool:
        try:
            return bool(self._fs.exists(self._path(MARKER)))
        except Exception:
            return False

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Translate any error inside to `SiteAway` if the site is unreachable."""
        try:
            yield
        except (OSError, TransientError):
            raise
        except Exception as error:
            if self.is_there():
                raise
            raise SiteAway(self.site.name) from error

    def exists(self, name: str) -> bool:
        with self.asking():
            return bool(self._fs.exists(self._path(name)))

    def size(self, name: str) -> int:
        with self.asking():
            return int(self._fs.size(self._path(name)))

    def read(self, name: str) -> bytes:
        with self.asking(), self._fs.open(self._path(name), "rb") as file:
            return bytes(file.read())

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically; may overwrite. Raises `SiteAway` while the site is unreachable."""
        if not self.is_there():
            raise SiteAway(self.site.name)
        with self.asking():
            self._put(name, content)

    def _put(self, name: str, content: bytes) -> None:
        path = self._path(name)
        self._fs.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
        aside = f"{path}.{uuid.uuid4().hex}.part"
        with self._fs.open(aside, "wb") as file:
            self._fill(file, content)
        self._fs.mv(aside, path)

    def _fill(self, file: Any, content: bytes) -> None:
        file.write(content)
        file.flush()
        if self._durable and "file" in self._fs.protocol:
            os.fsync(file.fileno())

    def remove(self, name: str) -> None:
        with self.asking():
            if self.exists(name):
                self._fs.rm(self._path(name), recursive=True)

    def names(self, folder: str) -> list[str]:
        """The files in a folder, without unfinished ones."""
        path = self._path(folder)
        with self.asking():
            if not self._fs.isdir(path):
                return []
            found = [str(name).rsplit("/", 1)[-1] for name in self._fs.ls(path, detail=False)]
        return sorted(name for name in found if not name.endswith(".part"))

    def _path(self, name: str) -> str:
        return f"{self._opened[1]}/{name}"


def _reason(error: Exception) -> str:
    """Why a root cannot be opened: an unknown protocol or missing driver in words, other errors by type only."""
    return str(error) if isinstance(error, ImportError | ValueError) else type(error).__name__


def to_bytes(table: pa.Table) -> bytes:
    """A table as an Arrow stream; no bytes at all if it has no rows."""
    if not table.num_rows:
        return b""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue()


def from_bytes(content: bytes, schema: pa.Schema) -> pa.Table:
    if not content:
        return schema.empty_table()
    with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
        return reader.read_all()
