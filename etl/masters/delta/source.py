"""A Delta table as a source of master pages: a snapshot of one version, and changes from its change data feed.

    snapshot   all rows of the newest version, streamed file by file        position = version and table
    changes    log entries after the position ─► none that changes rows: done, without reading data
                                              ─► else change data feed ─► each key once, in its latest state

Within one commit a written key has a row, whatever else the feed says about it; a key with only a deletion or a
pre-image has none. Across commits the last one wins.

The feed is used only if it is complete: enabled all the time, same table, same columns, nothing vacuumed, and no
deletion vectors without recorded changes, which the reader gets wrong. Otherwise the table has to be published again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
from deltalake import DeltaTable

from etl.errors import FrontstageError, TerminalError
from etl.masters.delta.table import DeltaFilesGone, conformed, open_table, shape_of
from etl.masters.pages.errors import RepublishNeeded
from etl.masters.rows import key_codec
from etl.masters.rows.shape import Shape
from etl.masters.source import Changes, Position, Snapshot

_FEED = "delta.enableChangeDataFeed"
_TYPE, _COMMIT = "_change_type", "_commit_version"


class DeltaMaster:
    """One master table. `columns` are those to publish besides the key; by default all."""

    def __init__(self, path: Path | str, key: Sequence[str], columns: Sequence[str] | None = None) -> None:
        self._path, self._key, self._columns = str(path), tuple(key), columns

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """All rows of the newest version, unordered."""
        table = open_table(self._path)
        shape = shape_of(table, self._path, self._key, self._columns)
        position = _position(table, shape)
        yield Snapshot(shape.schema, self._key, self._batches(table, shape), position, presorted=False)

    def changes(self, since: Position) -> Changes:
        """The changes after a position. Raises `RepublishNeeded` when they are no longer known."""
        table = open_table(self._path)
        shape = shape_of(table, self._path, self._key, self._columns)
        now = _position(table, shape)
        self._check_same_history(since, now)
        nothing = shape.schema.empty_table()
        if since["delta_version"] == now["delta_version"]:
            return Changes(nothing, _keys_of(shape, nothing), now)
        commits = self._commits(table, since["delta_version"] + 1)
        self._check_feed(since["delta_version"], commits)
        if not any(commit.changes_rows for commit in commits):
            return Changes(nothing, _keys_of(shape, nothing), now)
        return self._latest(shape, self._feed(table, shape, since["delta_version"] + 1), now)

    # --- is the feed complete?

    def _check_same_history(self, since: Position, now: Position) -> None:
        if since.get("table") != now["table"] or since["delta_version"] > now["delta_version"]:
            raise RepublishNeeded(self._path, "another table is there now")
        if since.get("columns") != now["columns"]:
            raise RepublishNeeded(self._path, "its columns changed")

    def _commits(self, table: DeltaTable, first: int) -> list[_Commit]:
        files, root = pyarrow.fs.FileSystem.from_uri(table.table_uri)
        commits = []
        for version in range(first, table.version() + 1):
            try:
                with files.open_input_stream(f"{root}/_delta_log/{version:020d}.json") as log:
                    commits.append(_Commit.of(version, log.read()))
            except FileNotFoundError:
                raise RepublishNeeded(self._path, f"the log entry of version {version} was cleaned up") from None
        return commits

    def _check_feed(self, since: int, commits: Sequence[_Commit]) -> None:
        try:
            recorded = _is_on(open_table(self._path, since).metadata().configuration)
        except TerminalError:
            raise RepublishNeeded(self._path, f"the log entries up to version {since} were cleaned up") from None
        if not recorded or not all(commit.keeps_feed for commit in commits):
            raise RepublishNeeded(self._path, f"its change data feed was not on all the time; set {_FEED}=true")
        for commit in commits:
            if commit.marks_unrecorded:
                why = f"version {commit.version} marks rows deleted by deletion vectors and recorded no change data"
                raise RepublishNeeded(self._path, why)

    # --- reading

    def _batches(self, table: DeltaTable, shape: Shape) -> Iterator[pa.RecordBatch]:
        try:
            for batch in table.scan(columns=shape.schema.names):
                yield from conformed(shape, pa.record_batch(batch)).to_batches()
        except FrontstageError:
            raise
        except Exception as error:  # the reader has no specific error for a missing file
            raise DeltaFilesGone(self._path, table.version()) from error

    def _feed(self, table: DeltaTable, shape: Shape, first: int) -> pa.Table:
        names = [*shape.schema.names, _TYPE, _COMMIT]
        try:
            return pa.table(table.load_cdf(first, table.version(), columns=names).read_all())
        except Exception:
            raise RepublishNeeded(self._path, "files of its change data feed are gone, probably vacuumed") from None

    def _latest(self, shape: Shape, feed: pa.Table, now: Position) -> Changes:
        """Each key once: its row after the last commit that touched it, or its deletion."""
        rows = conformed(shape, feed)
        shape.rows(rows)  # refuses NULL keys
        key = _numbered(shape.codes(rows))
        commit = feed.column(_COMMIT).cast(pa.int64()).to_numpy()
        last = np.zeros(key.max(initial=-1) + 1, np.int64)
        np.maximum.at(last, key, commit)
        written = _is_one_of(feed.column(_TYPE), "insert", "update_postimage") & (commit == last[key])
        upserts = rows.filter(pa.array(written))
        shape.refuse_repeated_keys(upserts)
        example = np.zeros(len(last), np.int64)  # any row with the key
        example[key] = np.arange(len(key))
        example[key[written]] = -1
        return Changes(upserts, _keys_of(shape, rows.take(pa.array(example[example >= 0]))), now)


@dataclass(frozen=True, slots=True)
class _Commit:
    """One log entry's effect on rows and change data."""

    version: int
    changes_rows: bool
    keeps_feed: bool
    marks_unrecorded: bool  # deletion vectors without change data

    @classmethod
    def of(cls, version: int, log: bytes) -> _Commit:
        actions = [json.loads(line) for line in log.splitlines() if line.strip()]
        touched = [action[kind] for action in actions for kind in ("add", "remove") if kind in action]
        touched = [file for file in touched if file.get("dataChange", True)]
        recorded = any("cdc" in action for action in actions)
        settings = [action["metaData"].get("configuration", {}) for action in actions if "metaData" in action]
        marks = any(file.get("deletionVector") for file in touched)
        return cls(version, bool(touched) or recorded, all(map(_is_on, settings)), marks and not recorded)


def _is_on(configuration: dict[str, Any]) -> bool:
    return str(configuration.get(_FEED, "false")).lower() == "true"


def _position(table: DeltaTable, shape: Shape) -> dict[str, Any]:
    columns = ", ".join(f"{field.name} {field.type}" for field in shape.schema)
    return {"delta_version": table.version(), "table": str(table.metadata().id), "columns": columns}


def _is_one_of(column: pa.ChunkedArray, *values: str) -> key_codec.Mask:
    mask: key_codec.Mask = pc.is_in(column.cast(pa.string()), pa.array(values)).to_numpy()
    return mask


def _numbered(keys: pa.Array) -> key_codec.Rows:
    """Number keys: equal keys get equal numbers."""
    return np.asarray(keys.dictionary_encode().indices).astype(np.int64)


def _keys_of(shape: Shape, rows: pa.Table) -> pa.Array:
    return shape.public(rows, []).column(0).combine_chunks()
