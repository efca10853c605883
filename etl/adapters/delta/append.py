"""Append to a Delta table by writing its log entries here.

    table/_delta_log/<version>.json     version 0: protocol, metadata, and the first batch's files in one entry
                                        after it:  the transaction (application, batch) and the files it adds

delta-rs needs 3 to 20 ms of CPU time for an entry, growing with the entries since the last checkpoint, and hundreds of
queries would pay that in every batch; yet an entry is a few lines of JSON. It is put in place by a hard link, which
fails if the version exists, so nothing is overwritten and nothing is added twice. Everything else (checkpoints, foreign
commits, creating a table) is left to delta-rs (ADR 103).
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from etl.adapters.delta.table import (
    CONFIGURATION,
    Identity,
    identity,
    nullable,
    require_plain,
    require_whole,
    sync_version,
)
from etl.adapters.durable import make_folder, sync_files, sync_folder
from etl.adapters.ledger import DataFile

_CHECKPOINT_EVERY = 50
_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\.")
Action = dict[str, Any]


class DeltaAppender:
    """Appends to one table; kept open by the writing process. `folder` is the table's."""

    def __init__(self, folder: Path, application: str) -> None:
        self.folder, self.application = folder, application
        self._log = folder / "_delta_log"
        self._version, self._batch = -1, 0
        self._seen: Identity | None = None  # of the newest entry
        self._checkpointed = 0  # version of the newest checkpoint

    def newest_batch(self) -> int:
        """The newest batch that the table holds; 0 when it holds none."""
        self._refresh()
        return self._batch

    def add(self, files: Sequence[DataFile], batch: int) -> bool:
        """Add a batch's files to the table, creating it with the first; False when they are in it already.

        No files: the entry says only that the batch was here. The table has to exist then.
        """
        while self.newest_batch() < batch:
            require_whole(self.folder, files, batch)
            actions = [
                _commit_info("WRITE", batch=str(batch), operationParameters={"mode": "Append"}),
                *self._first(files),
                self._transaction(batch),
            ]
            if self._commit([*actions, *map(self._added, files)]):
                self._batch = batch
                # The batch is in the table; without a checkpoint readers only take longer. The next entry tries again.
                with suppress(DeltaError, OSError):
                    self._checkpoint()
                return True
        return False

    def replace(self, files: Mapping[str, int], merged: DataFile, version: int) -> bool:
        """Replace files, given with their sizes, by one with the same rows; False unless `version` is the newest."""
        self._refresh()
        if self._version != version:
            return False
        now = {"deletionTimestamp": _now_ms(), "dataChange": False, "partitionValues": {}}
        removed = [{"remove": {"path": quote(path), "size": size, **now}} for path, size in files.items()]
        added = self._added(merged)["add"] | {"dataChange": False}
        if not self._commit([_commit_info("OPTIMIZE"), *removed, {"add": added}]):
            return False
        with suppress(DeltaError, OSError):
            self._checkpoint()
        return True

    # ── what is there ──────────────────────────────────────────────────────────────────────────────────────────

    def _entry(self, version: int) -> Path:
        return self._log / f"{version:020d}.json"

    def _refresh(self) -> None:
        """Read the log again unless its newest entry is the one seen last."""
        same = self._seen is not None and identity(self._entry(self._version)) == self._seen
        if same and not self._entry(self._version + 1).exists():
            return
        self._version, self._batch = self._read()
        if self._seen is None and self._version >= 0:  # whoever wrote it may have died before they synced it
            sync_version(self.folder, self._version)
        self._seen = None if self._version < 0 else identity(self._entry(self._version))

    def _read(self) -> tuple[int, int]:
        """Version and newest batch, from the newest entry when it is ours."""
        if not self._log.exists():
            return -1, 0
        names = [path.name for path in self._log.iterdir()]
        self._checkpointed = max((int(name[:20]) for name in names if _CHECKPOINT.match(name)), default=0)
        versions = [int(name[:-5]) for name in names if name.endswith(".json") and name[:-5].isdigit()]
        if not versions and not any(name.endswith(".checkpoint.parquet") for name in names):
            return -1, 0  # a process died while it created the table
        batch = self._batch_in(max(versions)) if versions else None
        if batch is not None:
            return max(versions), batch
        table = DeltaTable(str(self.folder))
        require_plain(table, self.folder.name)  # checked before each of our own entries
        return table.version(), int(table.transaction_version(self.application) or 0)

    def _batch_in(self, version: int) -> int | None:
        try:
            actions = [json.loads(line) for line in self._entry(version).read_bytes().splitlines()]
        except ValueError:
            return None
        ours = (one["txn"]["version"] for one in actions if one.get("txn", {}).get("appId") == self.application)
        return next(ours, None)

    # ── what is added ──────────────────────────────────────────────────────────────────────────────────────────

    def _first(self, files: Sequence[DataFile]) -> list[Action]:
        if self._version >= 0:
            return []
        protocol, metadata = _beginning(nullable(pq.read_schema(self.folder / files[0].path).remove_metadata()))
        mine = {"id": str(uuid.uuid4()), "createdTime": _now_ms()}
        return [protocol, {"metaData": metadata["metaData"] | mine}]

    def _transaction(self, batch: int) -> Action:
        return {"txn": {"appId": self.application, "version": batch, "lastUpdated": _now_ms()}}

    def _added(self, file: DataFile) -> Action:
        changed_ms = int((self.folder / file.path).stat().st_mtime * 1000)
        return {
            "add": {
                "path": quote(file.path),
                "partitionValues": {},
                "size": file.bytes,
                "modificationTime": changed_ms,
                "dataChange": True,
                "stats": file.stats,
            }
        }

    def _commit(self, actions: Sequence[Action]) -> bool:
        """Put the next entry in place, synced; False when that version exists already."""
        make_folder(self._log)
        entry, beside = self._entry(self._version + 1), self._log / f"_commit_{uuid.uuid4()}.json.tmp"
        try:
            with beside.open("wb") as file:
                file.write(b"\n".join(json.dumps(one).encode() for one in actions))
                file.flush()
                os.fsync(file.fileno())
            os.link(beside, entry)
        except FileExistsError:
            return False
        finally:
            beside.unlink(missing_ok=True)
        sync_folder(self._log)
        self._version, self._seen = self._version + 1, identity(entry)
        return True

    def _checkpoint(self) -> None:
        """Write a checkpoint when one is due, staggered over the tables, even if others wrote the due entry."""
        turn = crc32(os.fsencode(self.folder)) % _CHECKPOINT_EVERY
        if (self._version - turn) // _CHECKPOINT_EVERY <= (self._checkpointed - turn) // _CHECKPOINT_EVERY:
            return
        table = DeltaTable(str(self.folder))
        table.create_checkpoint()
        self._checkpointed = table.version()
        checkpoints = [self._log / f"{self._checkpointed:020d}.checkpoint.parquet", self._log / "_last_checkpoint"]
        sync_files([path for path in checkpoints if path.exists()])


@lru_cache(maxsize=256)
def _beginning(schema: pa.Schema) -> tuple[Action, Action]:
    """The actions by which delta-rs creates a table with these columns: protocol and metadata."""
    with tempfile.TemporaryDirectory(prefix="frontstage-delta-") as folder:
        DeltaTable.create(folder, schema, configuration=CONFIGURATION)
        lines = (Path(folder) / "_delta_log" / f"{0:020d}.json").read_bytes().splitlines()
    actions = [json.loads(line) for line in lines]
    (protocol,) = (one for one in actions if "protocol" in one)
    (metadata,) = (one for one in actions if "metaData" in one)
    return protocol, metadata


def _commit_info(operation: str, **more: Any) -> Action:
    return {"commitInfo": {"timestamp": _now_ms(), "operation": operation, "engineInfo": "frontstage", **more}}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
