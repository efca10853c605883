"""The port to the stream log for a batch's tuples; and an implementation as plain files at the stream's site."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from etl.correlate.multiway.execution.folder import SiteAway, SiteFolder, from_bytes, to_bytes
from etl.correlate.multiway.query import JoinQuery


class Segments(Protocol):
    """The stream log: a batch's tuples of a stream, read at the stream's site."""

    def read(self, stream: int, batch: int) -> pa.Table: ...


class FolderSegments:
    def __init__(self, query: JoinQuery, folders: Mapping[str, SiteFolder]) -> None:
        self._query, self._folders = query, folders

    def read(self, stream: int, batch: int) -> pa.Table:
        declared = self._query.streams[stream]
        folder = self._folders[declared.site]
        if not folder.is_there():
            raise SiteAway(declared.site)
        return from_bytes(folder.read(self._name(stream, batch)), declared.schema)

    def write(self, stream: int, batch: int, segment: pa.Table) -> None:
        self._folders[self._query.streams[stream].site].write(self._name(stream, batch), to_bytes(segment))

    def _name(self, stream: int, batch: int) -> str:
        return f"streams/{self._query.streams[stream].name}/{batch:012d}.arrow"
