"""Copies of decisions beside the data, from which a ledger that was restored from a backup is completed.

    _decisions/<batch>-<number>.json          input and decision of one batch
    _decisions/state-<batch>-<number>.json    correlations with their runs, and queries, after a batch was published

Both are written when a batch is published, before any of it is visible and before its input leaves the landing folder.
So the input of a batch without a note may be read again, and that of a batch with a note is never read again. State is
kept as of the newest batch only, as all earlier batches are restored as well (ADR 93).

Nothing is ever overwritten. A name's number is chosen before the writer's epoch is checked, and must still be free
after it: a writer that is overtaken in between finds its number taken, or has written about an older batch than its
successor. The newest batch holds, then the highest number; names without one are of an older version (ADR 128).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etl.adapters.durable import create_durably
from etl.errors import TransientError
from etl.streams.adhoc.registry import QueryRegistry
from etl.streams.ledger import BatchRecord, StreamLedger

_NOTE = re.compile(r"([0-9]{9,})(?:-([0-9]{6,}))?\.json")
_STATE = re.compile(r"state-([0-9]{9,})-([0-9]{6,})\.json")
_OLD_STATE = "state.json"
Place = tuple[int, int]
"""A batch, and the number of its note or state."""


class NoteTaken(TransientError):
    """Two writers were about to write the same note."""

    def __init__(self, batch: int) -> None:
        super().__init__(batch)
        self.batch = batch

    def __str__(self) -> str:
        return f"another writer has noted batch {self.batch} of correlations; the batch will be retried"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Every correlation and all ad-hoc queries after a batch, as plain values."""

    batch: int
    correlations: Mapping[str, Mapping[str, Any]]
    queries: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Notes:
    """The folder of notes."""

    folder: Path

    def write(self, record: BatchRecord, ledger: StreamLedger, epoch: int) -> None:
        """Write the note of a decided, unpublished batch: the ledger's state is the state after it."""
        newest = self.newest()
        if newest is not None and newest.batch >= record.batch:
            return  # written before, by an earlier try or before the ledger was restored
        assert record.decided_at is not None, "a batch that is published was decided"
        note = {
            "batch": record.batch,
            "run_id": record.run_id,
            "started_at": record.started_at.isoformat(),
            "decided_at": record.decided_at.isoformat(),
            "decision": record.decided.as_json(),
            "slices": [one.as_json() for one in ledger.book.slices(record.batch)],
        }
        queries = QueryRegistry(ledger.connection).snapshot()
        state = {"batch": record.batch, "correlations": ledger.snapshot(), "queries": queries}

        def fence() -> None:
            ledger.book.fence(epoch)

        self._create(record.batch, self._notes(), "", note, fence)
        self._create(record.batch, self._states(), "state-", state, fence)
        self._remove_states_before(record.batch)

    def newest(self) -> Snapshot | None:
        """The state after the newest batch that was published."""
        states = self._states()
        found = [_read(states[max(states)])] if states else []
        value = max((one for one in (*found, _read(self.folder / _OLD_STATE)) if one), key=_batch_of, default=None)
        return None if value is None else Snapshot(value["batch"], value["correlations"], value.get("queries"))

    def of(self, batch: int) -> dict[str, Any] | None:
        """The note of a batch."""
        notes = {place: path for place, path in self._notes().items() if place[0] == batch}
        return _read(notes[max(notes)]) if notes else None

    def paths(self) -> list[Path]:
        """The notes of single batches."""
        return list(self._notes().values())

    def _create(
        self, batch: int, there: Mapping[Place, Path], prefix: str, value: Mapping[str, Any], fence: Callable[[], None]
    ) -> None:
        """Write under the next free number; `there` was listed before the fence."""
        number = max((number for found, number in there if found == batch), default=0) + 1
        fence()
        try:
            create_durably(self.folder / f"{prefix}{batch:09d}-{number:06d}.json", json.dumps(value).encode())
        except FileExistsError:
            raise NoteTaken(batch) from None

    def _notes(self) -> dict[Place, Path]:
        return self._named(_NOTE)

    def _states(self) -> dict[Place, Path]:
        return self._named(_STATE)

    def _named(self, pattern: re.Pattern[str]) -> dict[Place, Path]:
        names = os.listdir(self.folder) if self.folder.is_dir() else []  # noqa: PTH208 - many, and names will do
        found = [match for name in names if (match := pattern.fullmatch(name)) is not None]
        return {(int(match[1]), int(match[2] or 0)): self.folder / match[0] for match in found}

    def _remove_states_before(self, batch: int) -> None:
        """Remove states that no longer hold; only those of older batches, so an overtaken writer removes no newer."""
        for (found, _), path in self._states().items():
            if found < batch:
                path.unlink(missing_ok=True)
        old = self.folder / _OLD_STATE
        if (value := _read(old)) is not None and value["batch"] < batch:
            old.unlink(missing_ok=True)


def _batch_of(value: Mapping[str, Any]) -> int:
    return int(value["batch"])


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return value
