"""The ledger's records as plain values: files, decisions, batches. They round-trip through JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

from etl.adapters.claims import ClaimRun
from etl.errors import TerminalError
from etl.model import BatchCounts, BatchState

Cause = Literal["master", "time", "correction"]
"""What events are read again for: a master row that has not come, a batch with more room, or the row of an unknown
member with which they are in the fact meanwhile."""

RESTORED: Mapping[str, Any] = {"success": True, "expectations": [], "restored": True}
"""The verdict on a batch that is already in Delta: it has passed its audit, whose result is lost."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of one table, as its Delta log names it."""

    table: str
    path: str  # relative to the table's folder
    rows: int
    bytes: int
    stats: str  # JSON, as Delta defines it
    cause: Cause | None = None  # of a backlog file: what its events wait for


@dataclass(frozen=True, slots=True)
class Aside:
    """The set-aside events of a batch whose audit failed, both as facts and as refused lines."""

    events: int
    files: tuple[DataFile, ...]  # of the fact table
    mart: Mapping[str, tuple[str, ...]]
    refused: DataFile

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Aside:
        files = tuple(DataFile(**one) for one in value["files"])
        mart = {table: tuple(names) for table, names in value["mart"].items()}
        return cls(value["events"], files, mart, DataFile(**value["refused"]))


@dataclass(frozen=True, slots=True)
class TakenUp:
    """Set-aside events of an earlier batch that a person has decided on, now part of this one."""

    batch: int
    word: Literal["released", "rejected"]
    events: int
    files: tuple[str, ...] = ()  # of the fact table, by path
    mart: tuple[str, ...] = ()  # tables that get rows from them


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a batch: everything that publishing needs, without recomputation."""

    files: tuple[DataFile, ...]
    counts: BatchCounts
    master_versions: Mapping[str, int]
    claims: tuple[ClaimRun, ...]
    slices: tuple[tuple[int, str, int], ...]  # ordinal, digest, lines
    resolved: Mapping[str, int]  # by backlog file, events that are no longer open
    deferred: Mapping[str, int]  # by backlog file that was retried, events shed again
    mart: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by mart table, files of its rows
    replaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by mart table, rows that replace others
    corrected: Mapping[str, int] = field(default_factory=dict)  # by file of unknown members, events that have theirs
    aside: Aside | None = None
    taken_up: tuple[TakenUp, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "counts": self.counts.as_json()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Decision:
        return cls(
            files=tuple(DataFile(**one) for one in value["files"]),
            counts=BatchCounts.from_json(value["counts"]),
            master_versions=value["master_versions"],
            claims=tuple(ClaimRun(**one) for one in value["claims"]),
            slices=tuple((ordinal, digest, lines) for ordinal, digest, lines in value["slices"]),
            resolved=value["resolved"],
            deferred=value["deferred"],
            mart={table: tuple(names) for table, names in value["mart"].items()},
            replaced={table: tuple(names) for table, names in value.get("replaced", {}).items()},
            corrected=value.get("corrected", {}),
            aside=Aside.from_json(value["aside"]) if value.get("aside") else None,
            taken_up=tuple(
                TakenUp(**{**one, "files": tuple(one["files"]), "mart": tuple(one["mart"])})
                for one in value.get("taken_up", ())
            ),
        )

    @property
    def released_files(self) -> frozenset[str]:
        """Files of events that were set aside and released."""
        return frozenset(path for one in self.taken_up for path in one.files)

    def of_table(self, table: str) -> tuple[DataFile, ...]:
        return tuple(file for file in self.files if file.table == table)


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One batch in the ledger."""

    pipeline: str
    batch: int
    run_id: str
    state: BatchState
    started_at: datetime
    decided_at: datetime | None
    loaded_at: datetime | None
    decision: Decision | None
    master_versions: dict[str, int]
    seconds: dict[str, float]
    joins: dict[str, Any]
    audit: dict[str, Any] | None
    freshness: dict[str, float] | None
    control: dict[str, Any] | None = None  # its limits (`Control`), fixed with its input
    verdict: dict[str, Any] | None = None  # of a person, after its audit failed: word, by, at, note
    aside: int = 0  # events that wait for the verdict, or for the next batch to apply it

    @property
    def counts(self) -> BatchCounts:
        return self.decided.counts

    @property
    def decided(self) -> Decision:
        if self.decision is None:
            raise TerminalError(f"batch {self.batch} of {self.pipeline} is not decided yet")
        return self.decision


@dataclass(frozen=True, slots=True)
class BacklogFile:
    """A file of the backlog with open events."""

    path: str
    batch: int
    waiting: int
    cause: Cause
    since: datetime
    retry: bool = False  # a person requested another lookup, even if no master has changed
