"""The input of the tasks of one batch: fixed by the driver, pickled once."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from etl.adapters.claims import ClaimRun
from etl.adapters.landing import Slice
from etl.adapters.ledger import BacklogFile
from etl.contract.model import Pipeline
from etl.contract.resolve import ResolvedPipeline
from etl.pipeline.tasks.enrich import EnrichPlan
from etl.pipeline.tasks.line_choice import LineChoice

FACT, QUARANTINE, BACKLOG = "fact", "quarantine", "backlog"
HELD = "_held"
"""Folder of accepted events that wait for a person's decision; part of no table."""
UNKNOWN, CORRECTIONS = "_unknown", "_corrections"
"""Folders of accepted events with an unknown member, and of their corrections; part of no table."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where a pipeline keeps what it writes. Every task must see these folders."""

    landing: Path
    archive: Path
    tables: Path  # Delta tables, a folder each
    mart: Path  # rows on their way to Postgres
    claims: Path
    notes: Path  # a copy of every decision, beside its data

    @property
    def releases(self) -> Path:
        """The folder of notes of releases."""
        return self.notes / "releases"

    def waiting(self, path: str) -> Path:
        """The path of a file of events to retry: backlog, or events with an unknown member."""
        return self.tables / (UNKNOWN if path.startswith("unknown-") else BACKLOG) / path

    def before(self, path: str) -> Path:
        """The rows of a file of unknown members, as aggregates have counted them."""
        return self.tables / UNKNOWN / f"before-{path}"

    @classmethod
    def under(cls, root: Path, landing: Path, archive: Path) -> Places:
        return cls(landing, archive, root, root / "_mart", root / "_claims", root / "_decisions")


def part_prefix(batch: int) -> str:
    """The beginning of the names of files that tasks of a batch write."""
    return f"part-{batch:09d}-"


def notes_of(places: Places, batch: int) -> list[Path]:
    """The notes of a batch's decisions, the one that holds last."""
    return sorted(places.notes.glob(f"{batch:09d}[-.]*"))


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """One try at one batch."""

    resolved: ResolvedPipeline
    places: Places
    batch: int
    attempt: str  # names the files of this try, so that two tries never write the same one
    now: datetime
    slices: tuple[Slice, ...]
    backlog: tuple[BacklogFile, ...]
    claims: tuple[ClaimRun, ...]
    enrich: EnrichPlan
    readers: int  # tasks that read
    routers: int  # tasks that route, each with its share of the keys
    waiting_rows: int  # most rows in a new file of the backlog, which is retried as a whole
    lines: LineChoice = field(default_factory=LineChoice)  # all of them, except poison lines

    @property
    def pipeline(self) -> Pipeline:
        return self.resolved.pipeline

    @property
    def unknown(self) -> tuple[str, ...]:
        """The files to retry that hold events with an unknown member."""
        return tuple(file.path for file in self.backlog if file.cause == "correction")

    def part_name(self, task: int, suffix: str = "parquet") -> str:
        return f"{part_prefix(self.batch)}{self.attempt}-{task:05d}.{suffix}"

    def share(self, reader: int) -> tuple[tuple[Slice, ...], tuple[BacklogFile, ...]]:
        """The share of one reading task: files are dealt round-robin, so that sizes even out."""
        return (
            tuple(one for index, one in enumerate(self.slices) if index % self.readers == reader),
            tuple(one for index, one in enumerate(self.backlog) if index % self.readers == reader),
        )
