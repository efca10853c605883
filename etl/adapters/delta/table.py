"""Our Delta tables: settings, schema, checks, and the identity of log entries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType

from etl.adapters.durable import sync_files, sync_folder
from etl.adapters.ledger import DataFile
from etl.errors import TerminalError

CONFIGURATION: Mapping[str, str | None] = {
    "delta.checkpointInterval": "50",
    "delta.logRetentionDuration": "interval 30 days",
    "delta.deletedFileRetentionDuration": "interval 7 days",
    "delta.enableChangeDataFeed": "false",
}


Identity = tuple[int, int]
"""Of a log entry: inode and time of change."""


class FilesMissing(TerminalError):
    """Files that a decision names are gone."""

    def __init__(self, table: str, batch: int, files: Sequence[str]) -> None:
        super().__init__(table, batch, tuple(files))
        self.table, self.batch, self.files = table, batch, tuple(files)

    def __str__(self) -> str:
        return (
            f"batch {self.batch} was decided, but {len(self.files)} of its files are missing in {self.table} "
            f"({', '.join(self.files[:3])}); restore the warehouse and the ledger from the same time"
        )


class ColumnChanged(TerminalError):
    """The type of a column differs from the one in the existing table."""

    exit_code = 78

    def __init__(self, table: str, column: str, was: str, would: str) -> None:
        super().__init__(table, column, was, would)
        self.table, self.column, self.was, self.would = table, column, was, would

    def __str__(self) -> str:
        return (
            f"column {self.column!r} of table {self.table} is {self.was} and would be {self.would}: where its values "
            "come from, the type has changed; undo that, or declare a pipeline of another name"
        )


class AsksTooMuch(TerminalError):
    """A table has writer features that our own log entries do not support."""

    def __init__(self, table: str, features: Sequence[str]) -> None:
        super().__init__(table, tuple(features))
        self.table, self.features = table, tuple(features)

    def __str__(self) -> str:
        return (
            f"table {self.table} asks of its writers what Frontstage does not do ({', '.join(self.features)}); "
            "take that off the table, or put the table back to a version before it"
        )


_SERVED = frozenset({"appendOnly", "changeDataFeed", "deletionVectors", "timestampNtz"})
"""Features of Delta without requirements on writers that only append files."""
_IN_USE_ONLY = frozenset({"checkConstraints", "columnMapping", "generatedColumns", "identityColumns", "invariants"})
"""Features with an effect only where settings or columns use them; older protocols enable them by default."""
_ASKING = (
    "delta.constraints.",
    "delta.columnMapping.mode",
    "delta.enableRowTracking",
    "delta.enableInCommitTimestamps",
)
_ASKING_OF_A_COLUMN = ("delta.generationExpression", "delta.identity.", "delta.invariants")


def require_plain(table: DeltaTable, name: str) -> None:
    """Refuse a table with writer features that our own log entries do not support."""
    metadata, columns = table.metadata(), table.schema().fields
    wanted = set(table.protocol().writer_features or ()) - _SERVED - _IN_USE_ONLY
    wanted |= {key for key, value in metadata.configuration.items()
               if key.startswith(_ASKING) and value not in ("none", "false")}  # fmt: skip
    wanted |= {f"{key} of {column.name}" for column in columns for key in column.metadata
               if key.startswith(_ASKING_OF_A_COLUMN)}  # fmt: skip
    wanted |= {f"partitions by {column}" for column in metadata.partition_columns}
    if wanted:
        raise AsksTooMuch(name, sorted(wanted))


def nullable(schema: pa.Schema) -> pa.Schema:
    """The same columns, each of which may be null."""
    return pa.schema([field.with_nullable(True) for field in schema])


def missing(table: DeltaTable, schema: pa.Schema, name: str) -> list[Field]:
    """The columns that a table lacks; raises if it has one in another type."""
    have = {field.name: field.type for field in table.schema().fields}
    wanted = Schema.from_arrow(nullable(schema)).fields
    for field in wanted:
        if field.name in have and have[field.name] != field.type:
            raise ColumnChanged(name, field.name, _shown(have[field.name]), _shown(field.type))
    return [field for field in wanted if field.name not in have]


def _shown(kind: object) -> str:
    return str(kind.type) if isinstance(kind, PrimitiveType) else str(kind)


def identity(entry: Path) -> Identity | None:
    """A value that changes when a log entry is replaced by another one; None if the entry does not exist."""
    try:
        found = entry.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_ino, found.st_mtime_ns


def sync_version(folder: Path, version: int) -> None:
    """Sync a version to disk: log entry, added files, checkpoint. delta-rs syncs nothing.

    What does not exist is left out: entries and files of a version that somebody compacted are gone.
    """
    log = folder / "_delta_log"
    entry = log / f"{version:020d}.json"
    if not entry.exists():
        return
    actions = [json.loads(line) for line in entry.read_bytes().splitlines()]
    added = [folder / unquote(one["add"]["path"]) for one in actions if "add" in one]
    written = [*added, entry, log / f"{version:020d}.checkpoint.parquet", log / "_last_checkpoint"]
    sync_files(path for path in written if path.exists())
    sync_folder(folder)


def require_whole(folder: Path, files: Sequence[DataFile], batch: int) -> None:
    """Raise unless all files exist with the size that was written."""
    gone = [one.path for one in files if not _is_whole(folder / one.path, one.bytes)]
    if gone:
        raise FilesMissing(folder.name, batch, gone)


def _is_whole(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except FileNotFoundError:
        return False
