"""Input of streams that waits because it cannot be read: files, or a landing folder that cannot be listed.

    streams, landing folders, ledger ── look ──▶ ShutInput(stream, files, folder)
         ├─ a batch: said, and kept in its record and report
         └─ now: `frontstage correlate status`, `frontstage doctor`, the page

It holds up no other stream, and is read by itself once it can be (ADR 116, 126). Light: knows nothing of joins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from etl.adapters import landing, unreadable
from etl.adapters.landing import Consumed
from etl.adapters.ledger import Ledger
from etl.adapters.unlistable import LandingAway, LandingShut, Unlistable, is_absent
from etl.adapters.unreadable import Unreadable
from etl.contract.correlations.correlation import LoggedStream

_NAMED = 100  # files of a stream that a record names
_TRIED = 1_000  # oldest unread files that a look tries: it must not take longer with every file that waits


@dataclass(frozen=True, slots=True)
class ShutInput:
    """What cannot be read of one stream: some files, or its whole folder."""

    stream: str
    files: tuple[Unreadable, ...] = ()
    folder: Unlistable | None = None

    @property
    def what(self) -> str:
        return unreadable.waiting_sentence(self.files) if self.folder is None else self.folder.what

    @property
    def remedy(self) -> str:
        return unreadable.REMEDY if self.folder is None else self.folder.remedy

    @property
    def since(self) -> datetime | None:
        """When the oldest of the files was written; None for a folder."""
        oldest = min((one.file.modified_ns for one in self.files), default=None)
        return None if oldest is None else datetime.fromtimestamp(oldest / 1e9, UTC)

    def as_json(self) -> dict[str, Any]:
        files = {one.file.label: one.reason for one in self.files[:_NAMED]}
        return {"what": self.what, "remedy": self.remedy, "files": files}


def shut_input(streams: Iterable[LoggedStream], book: Ledger) -> tuple[ShutInput, ...]:
    """The streams with input that cannot be read now. Creates no folder."""
    found = (_of(one, book) for one in streams if not is_absent(one.stream.source.landing))
    return tuple(one for one in found if one is not None)


def _of(one: LoggedStream, book: Ledger) -> ShutInput | None:
    source = one.stream.source
    try:
        files = landing.scan(source.landing, source.format)
    except (LandingAway, LandingShut) as error:
        return ShutInput(one.name, folder=error)
    consumed = consumed_of(book, one.name, [file.name for file in files])
    unread = [file for file in files if file.name not in consumed or not consumed[file.name].covers(file)]
    shut = unreadable.find(source.landing, unread[:_TRIED], consumed)
    return ShutInput(one.name, shut) if shut else None


def consumed_of(book: Ledger, stream: str, names: Sequence[bytes]) -> dict[bytes, Consumed]:
    """What batches have consumed of a stream's files, which the ledger knows as `<stream>/<file>`."""
    prefix = stream.encode() + b"/"
    found = book.consumed([prefix + name for name in names]) if names else {}
    return {name.removeprefix(prefix): known for name, known in found.items()}
