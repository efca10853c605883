"""The durable progress of a run, for recovery: entries of batches, plans, finished batches.

In production it is in Postgres; `FolderBook` stores it as small files, which suffices for a run over folders. Records
that no future batch needs are deleted, so a book does not grow with time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from etl.correlate.multiway.execution.folder import SiteFolder
from etl.correlate.multiway.execution.report import Shipped

Json = Mapping[str, Any]


class Book(Protocol):
    """Every write is atomic and idempotent."""

    def entries(self) -> list[Json]:
        """The entries of batches that are not deleted, in order."""
        ...

    def add_entry(self, number: int, content: Json) -> None: ...

    def plans(self) -> list[tuple[int, Json]]:
        """The plans that are not deleted, in order."""
        ...

    def add_plan(self, number: int, content: Json) -> None: ...

    def finished(self) -> list[int]:
        """The batches whose steps are all done, without deleted ones."""
        ...

    def finish(self, batch: int, shipped: Sequence[Shipped], replayed: Sequence[Shipped]) -> None:
        """Mark a batch as finished; `replayed` was shipped before it to fill the windows of a new plan."""
        ...

    def forget(self, entries_before: int, plans_before: int) -> None:
        """Delete batches and plans that are no longer needed."""
        ...


class FolderBook:
    """A book as files under a folder."""

    def __init__(self, query: str, folder: SiteFolder) -> None:
        self._query, self._folder = query, folder

    def entries(self) -> list[Json]:
        return [self._read("batches", name) for name in self._names("batches")]

    def add_entry(self, number: int, content: Json) -> None:
        self._write("batches", number, content)

    def plans(self) -> list[tuple[int, Json]]:
        return [(_number(name), self._read("plans", name)) for name in self._names("plans")]

    def add_plan(self, number: int, content: Json) -> None:
        self._write("plans", number, content)

    def finished(self) -> list[int]:
        return [_number(name) for name in self._names("finished")]

    def finish(self, batch: int, shipped: Sequence[Shipped], replayed: Sequence[Shipped]) -> None:
        self._write("finished", batch, {"shipped": _rows(shipped), "replayed": _rows(replayed)})

    def forget(self, entries_before: int, plans_before: int) -> None:
        for room, before in (("batches", entries_before), ("finished", entries_before), ("plans", plans_before)):
            for name in self._names(room):
                if _number(name) < before:
                    self._folder.remove(f"{self._query}/{room}/{name}")

    def _names(self, room: str) -> list[str]:
        return [name for name in self._folder.names(f"{self._query}/{room}") if name.endswith(".json")]

    def _read(self, room: str, name: str) -> Json:
        content: Json = json.loads(self._folder.read(f"{self._query}/{room}/{name}"))
        return content

    def _write(self, room: str, number: int, content: Json) -> None:
        self._folder.write(f"{self._query}/{room}/{number:012d}.json", json.dumps(content).encode())


def _number(name: str) -> int:
    return int(name.split(".")[0])


def _rows(shipped: Sequence[Shipped]) -> list[list[Any]]:
    return [[getattr(one, name) for name in Shipped.__slots__] for one in shipped]
