"""Delta tables through their log: tasks write Parquet files, a commit adds them, once per batch.

    table/                                  create   schema, as a pipeline's file declares it
      part-<batch>-<try>-<task>.parquet     add      one log entry with the transaction (application, batch)
      _delta_log/

`add` asks for the application's newest transaction first, under the writer's lock: delta-rs records transactions but
does not refuse a repeated one. Handles are kept and brought up to date from the newest entries alone, so that a batch
does not read the log's history; where no entry has come since, which a look at the newest one tells, nothing is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import TableNotFoundError
from deltalake.transaction import AddAction, PostCommitHookProperties

from etl.adapters.delta.torn import put_aside
from etl.adapters.durable import make_folder, sync_files, sync_folder
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


@dataclass(slots=True)
class _Opened:
    """A table's handle, and what is known of the version it stands at."""

    handle: DeltaTable
    log: Path
    newest: Identity | None = None
    transactions: dict[str, int] = field(default_factory=dict)  # by application, the newest one

    def stand(self) -> None:
        """Note the version that the handle stands at."""
        self.newest = identity(self._entry(self.handle.version()))
        self.transactions.clear()

    def is_replaced(self) -> bool:
        """Whether somebody has put another log in the place of the one that the handle knows."""
        return identity(self._entry(self.handle.version())) != self.newest

    def catch_up(self) -> None:
        """Read what has come since."""
        if self._entry(self.handle.version() + 1).exists():
            self.handle.update_incremental()
            self.stand()

    def transaction(self, application: str) -> int:
        """The newest transaction of an application; 0 when there is none."""
        if application not in self.transactions:
            self.transactions[application] = int(self.handle.transaction_version(application) or 0)
        return self.transactions[application]

    def _entry(self, version: int) -> Path:
        return self.log / f"{version:020d}.json"


class DeltaLog:
    """The Delta tables of one pipeline, under one folder. Kept by the process that writes."""

    def __init__(self, root: Path, application: str) -> None:
        self.root, self.application = root, application
        self._open: dict[str, _Opened] = {}

    def folder(self, table: str) -> Path:
        return self.root / table

    def table(self, table: str) -> DeltaTable:
        """The table as it is now."""
        return self._now(table).handle

    def _now(self, table: str) -> _Opened:
        known = self._open.get(table)
        if known is None or known.is_replaced():
            put_aside(self.folder(table))
            return self._keep(table, DeltaTable(str(self.folder(table))))
        known.catch_up()
        return known

    def _keep(self, table: str, handle: DeltaTable) -> _Opened:
        opened = self._open[table] = _Opened(handle, self.folder(table) / "_delta_log")
        opened.stand()
        return opened

    def forget(self) -> None:
        """Open every table anew: somebody may have put other files in their place."""
        self._open.clear()

    def create(self, table: str, schema: pa.Schema) -> None:
        """Make the table, or add the columns that are new in its declaration."""
        try:
            existing = self.table(table)
        except TableNotFoundError:
            make_folder(self.folder(table))
            uri = str(self.folder(table))
            self._keep(table, DeltaTable.create(uri, nullable(schema), configuration=CONFIGURATION))
            self.sync(table)
            return
        have = {field.name for field in existing.schema().fields}
        missing = pa.schema([field for field in nullable(schema) if field.name not in have])
        if len(missing):
            existing.alter.add_columns(Schema.from_arrow(missing).fields)
            self.sync(table)

    def newest_batch(self, table: str) -> int:
        """The newest batch that this table holds; 0 when it holds none."""
        return self._now(table).transaction(self.application)

    def add(self, table: str, files: Sequence[DataFile], batch: int) -> bool:
        """Make a batch's files part of the table; False when they are already."""
        opened = self._now(table)
        if opened.transaction(self.application) >= batch:
            return False
        gone = [one.path for one in files if not self._is_whole(one)]
        if gone:
            raise FilesMissing(table, batch, gone)
        opened.handle.create_write_transaction(
            [self._action(one) for one in files],
            mode="append",
            schema=opened.handle.schema(),
            commit_properties=CommitProperties(
                custom_metadata={"batch": str(batch)},
                app_transactions=[Transaction(self.application, batch)],
            ),
            post_commithook_properties=PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False),
        )
        self.sync(table)
        return True

    def newest_correction(self, table: str) -> int:
        """The newest batch that has corrected rows of this table; 0 when none has."""
        return self._now(table).transaction(self._corrections)

    @property
    def _corrections(self) -> str:
        return f"{self.application}-corrections"

    def correct(self, table: str, files: Sequence[DataFile], key: Sequence[str], batch: int) -> bool:
        """Put rows in the place of earlier ones with the same key and batch; False when that is done already."""
        opened = self._now(table)
        if opened.transaction(self._corrections) >= batch:
            return False
        gone = [one.path for one in files if not self._is_whole(one)]
        if gone:
            raise FilesMissing(table, batch, gone)
        rows = pa.concat_tables([pq.read_table(self.folder(one.table) / one.path) for one in files])
        merge = opened.handle.merge(
            rows,
            " and ".join(f"old.`{name}` = new.`{name}`" for name in (*key, "batch")),
            source_alias="new",
            target_alias="old",
            commit_properties=CommitProperties(
                custom_metadata={"corrected_by": str(batch)},
                app_transactions=[Transaction(self._corrections, batch)],
            ),
        )
        merge.when_matched_update_all().execute()
        self.sync(table)
        return True

    def sync(self, table: str) -> None:
        """Make the newest version last: its log entry, the files it adds, its checkpoint. delta-rs syncs nothing."""
        log, version = self.folder(table) / "_delta_log", self.table(table).version()
        entry = log / f"{version:020d}.json"
        actions = [json.loads(line) for line in entry.read_bytes().splitlines()]
        added = [self.folder(table) / unquote(one["add"]["path"]) for one in actions if "add" in one]
        beside = [log / f"{version:020d}.checkpoint.parquet", log / "_last_checkpoint"]
        sync_files([*added, entry, *(path for path in beside if path.exists())])
        sync_folder(self.folder(table))

    def _is_whole(self, file: DataFile) -> bool:
        try:
            return (self.folder(file.table) / file.path).stat().st_size == file.bytes
        except FileNotFoundError:
            return False

    def _action(self, file: DataFile) -> AddAction:
        modified_ms = int((self.folder(file.table) / file.path).stat().st_mtime * 1000)
        return AddAction(file.path, file.bytes, {}, modified_ms, True, file.stats)

    def rows(self, table: str) -> int:
        """How many rows the table has, from the statistics in its log."""
        actions: Any = pa.table(self.table(table).get_add_actions(flatten=True))
        return int(pa.compute.sum(actions.column("num_records")).as_py() or 0) if actions.num_rows else 0


def nullable(schema: pa.Schema) -> pa.Schema:
    """The same columns, each of which may be null."""
    return pa.schema([field.with_nullable(True) for field in schema])


def identity(entry: Path) -> Identity | None:
    """What tells a log entry from another that has taken its place; nothing where there is none."""
    try:
        found = entry.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_ino, found.st_mtime_ns
