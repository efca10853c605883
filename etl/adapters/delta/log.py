"""Delta tables through their log: tasks write Parquet files, one commit per batch adds them.

    table/                                  create   schema, as a pipeline's file declares it
      part-<batch>-<try>-<task>.parquet     add      one log entry with the transaction (application, batch)
      _delta_log/

Entries that add files are written here (`append`, ADR 103), so that a batch's cost does not depend on the number of
entries since the last checkpoint. Everything else goes through delta-rs, whose handles are kept open and updated from
the newest entries alone; nothing is read when the newest entry is unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import TableNotFoundError

from etl.adapters.delta.append import DeltaAppender
from etl.adapters.delta.table import CONFIGURATION, Identity, identity, missing, nullable, require_whole, sync_version
from etl.adapters.delta.torn import put_aside
from etl.adapters.durable import make_folder, sync_files
from etl.adapters.ledger import DataFile


@dataclass(slots=True)
class _Opened:
    """A table's handle, and cached facts about its version."""

    handle: DeltaTable
    log: Path
    appender: DeltaAppender
    newest: Identity | None = None
    transactions: dict[str, int] = field(default_factory=dict)  # by application, the newest one

    def record_version(self) -> None:
        """Record the handle's current version."""
        self.newest = identity(self._entry(self.handle.version()))
        self.transactions.clear()

    def is_replaced(self) -> bool:
        """Whether the log was replaced since the handle was opened, as by a restore."""
        return identity(self._entry(self.handle.version())) != self.newest

    def catch_up(self) -> None:
        """Read the newer entries."""
        if self._entry(self.handle.version() + 1).exists():
            self.handle.update_incremental()
            self.record_version()

    def transaction(self, application: str) -> int:
        """The newest transaction of an application; 0 when there is none."""
        if application not in self.transactions:
            self.transactions[application] = int(self.handle.transaction_version(application) or 0)
        return self.transactions[application]

    def _entry(self, version: int) -> Path:
        return self.log / f"{version:020d}.json"


class DeltaLog:
    """The Delta tables of one pipeline, under one folder; kept open by the writing process."""

    def __init__(self, root: Path, application: str) -> None:
        self.root, self.application = root, application
        self._open: dict[str, _Opened] = {}

    def folder(self, table: str) -> Path:
        return self.root / table

    def table(self, table: str) -> DeltaTable:
        """The table as it is now."""
        return self._now(table).handle

    def _now(self, table: str) -> _Opened:
        known = self._known(table)
        known.catch_up()
        return known

    def _known(self, table: str) -> _Opened:
        """The table at its last known version, reopened if it was replaced."""
        known = self._open.get(table)
        if known is None or known.is_replaced():
            put_aside(self.folder(table))
            opened = self._keep(table, DeltaTable(str(self.folder(table))))
            # Whoever wrote the newest version may have died before they synced it, and the ledger relies on it.
            sync_version(self.folder(table), opened.handle.version())
            return opened
        return known

    def _keep(self, table: str, handle: DeltaTable) -> _Opened:
        folder = self.folder(table)
        opened = self._open[table] = _Opened(handle, folder / "_delta_log", DeltaAppender(folder, self.application))
        opened.record_version()
        return opened

    def forget(self) -> None:
        """Close all handles, as the tables' files may have been replaced."""
        self._open.clear()

    def create(self, table: str, schema: pa.Schema) -> None:
        """Create the table, or add the columns that are new in its declaration; changed types are refused."""
        try:
            existing = self.table(table)
        except TableNotFoundError:
            make_folder(self.folder(table))
            uri = str(self.folder(table))
            self._keep(table, DeltaTable.create(uri, nullable(schema), configuration=CONFIGURATION))
            self.sync(table)
            return
        new = missing(existing, schema, table)
        if new:
            existing.alter.add_columns(new)
            self.sync(table)

    def newest_batch(self, table: str) -> int:
        """The newest batch that this table holds; 0 when it holds none."""
        return self._known(table).appender.newest_batch()

    def add(self, table: str, files: Sequence[DataFile], batch: int) -> bool:
        """Add a batch's files to the table; False when they are in it already."""
        appender = self._known(table).appender
        if appender.newest_batch() >= batch:
            return False
        require_whole(self.folder(table), files, batch)
        sync_files(self.folder(table) / one.path for one in files)  # before an entry relies on them
        return appender.add(files, batch)

    def replace(self, table: str, files: Mapping[str, int], merged: DataFile) -> bool:
        """Replace files, given with their sizes, by one with the same rows; False when somebody else has committed."""
        opened = self._now(table)
        return opened.appender.replace(files, merged, opened.handle.version())

    def newest_correction(self, table: str) -> int:
        """The newest batch that has corrected rows of this table; 0 when none has."""
        return self._now(table).transaction(self._corrections)

    @property
    def _corrections(self) -> str:
        return f"{self.application}-corrections"

    def correct(self, table: str, files: Sequence[DataFile], key: Sequence[str], batch: int) -> bool:
        """Replace earlier rows with the same key and batch; False when that is done already."""
        opened = self._now(table)
        if opened.transaction(self._corrections) >= batch:
            return False
        for one in files:
            require_whole(self.folder(one.table), [one], batch)
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
        """Sync the newest version to disk."""
        sync_version(self.folder(table), self.table(table).version())

    def rows(self, table: str) -> int:
        """The number of rows, from the statistics in the log."""
        actions: Any = pa.table(self.table(table).get_add_actions(flatten=True))
        return int(pa.compute.sum(actions.column("num_records")).as_py() or 0) if actions.num_rows else 0
