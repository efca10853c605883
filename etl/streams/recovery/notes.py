"""Copies of decisions beside the data, from which a ledger that was restored from a backup is completed.

    _decisions/<batch>.json     input and decision of one batch
    _decisions/state.json       correlations with their runs, and queries, after the newest batch that was published

Both are written when a batch is published, before any of it is visible and before its input leaves the landing folder.
So the input of a batch without a note may be read again, and that of a batch with a note is never read again. State is
kept as of the newest batch only, as all earlier batches are restored as well (ADR 93).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etl.adapters.durable import write_durably
from etl.streams.adhoc.registry import QueryRegistry
from etl.streams.ledger import BatchRecord, StreamLedger


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

    def write(self, record: BatchRecord, ledger: StreamLedger) -> None:
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
        _write(self._path(record.batch), note)
        queries = QueryRegistry(ledger.connection).snapshot()
        _write(self._state, {"batch": record.batch, "correlations": ledger.snapshot(), "queries": queries})

    def newest(self) -> Snapshot | None:
        """The state after the newest batch that was published."""
        value = _read(self._state)
        return None if value is None else Snapshot(value["batch"], value["correlations"], value.get("queries"))

    def of(self, batch: int) -> dict[str, Any] | None:
        return _read(self._path(batch))

    def paths(self) -> list[Path]:
        """The notes of single batches."""
        return list(self.folder.glob("[0-9]*.json"))

    @property
    def _state(self) -> Path:
        return self.folder / "state.json"

    def _path(self, batch: int) -> Path:
        return self.folder / f"{batch:09d}.json"


def _write(path: Path, value: dict[str, Any]) -> None:
    write_durably(path, json.dumps(value).encode())


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return value
