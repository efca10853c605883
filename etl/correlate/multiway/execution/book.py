"""What a run must find again after a crash, whatever else is lost: the entries of batches, the plans, what is finished.

The ground keeps it in Postgres; `FolderBook` keeps it as small files, which is all that a run over folders needs. What
no batch to come can ask for is forgotten, so a book does not grow with time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from etl.correlate.multiway.execution.folder import SiteFolder
from etl.correlate.multiway.execution.report import Shipped

Json = Mapping[str, Any]


class Book(Protocol):
    """Every write is whole or not at all, and may be repeated."""

    def entries(self) -> list[Json]:
        """The batches that are not forgotten, in order."""
        ...

    def add_entry(self, number: int, content: Json) -> None: ...

    def plans(self) -> list[tuple[int, Json]]:
        """The plans that are not forgotten, in order."""
        ...

    def add_plan(self, number: int, content: Json) -> None: ...

    def finished(self) -> list[int]:
        """The batches all of whose steps are done, as far as they are not forgotten."""
        ...

    def finish(self, batch: int, shipped: Sequence[Shipped], replayed: Sequence[Shipped]) -> None:
        """A batch is done; `replayed` was shipped before it to fill the windows of a new plan."""
        ...

    def forget(self, entries_before: int, plans_before: int) -> None:
        """Batches and plans that nothing can ask for any more."""
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
