"""Dimensions follow the masters, not the batches: complete, in proportion to what changed, before the facts.

    pinned master version ── same as the table's? ──▶ nothing to do: one look at the log
                          ├─ table is new ──────────▶ all rows, written in key order
                          ├─ changes are known ─────▶ changed rows, merged
                          └─ changes are unknown,
                             or of another table ───▶ all rows, compared by surrogate key

scd1 keeps the newest values of a key, scd2 every version with the time it was valid. A row that the master deletes
stays: facts refer to it. The table's transactions are the master's version and its table, which a declaration may
change (ADR 22) to one that happens to have the same version; so repeating a load changes nothing (ADR 121).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError

from etl.adapters.delta.log import DeltaLog
from etl.contract.model import Master
from etl.contract.tables import dimension_schema
from etl.enrich.ports import MasterReader
from etl.errors import FrontstageError
from etl.masters.masters import PinnedMaster
from etl.masters.pages.view import MasterPages
from etl.model import Progress
from etl.pipeline.tasks.rows import UNKNOWN_KEY
from etl.pipeline.tasks.surrogate import surrogate_key

_PAGES_AT_ONCE = 256
_PARTS = "master_parts"
_MAINTENANCE = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END"})
"""Commits that change no row: after them, too, only what changed in the master is read."""
_LOOKED_BACK = 16


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The dimension tables of one pipeline."""

    delta: DeltaLog
    schemas: Mapping[str, pa.Schema]  # by master: key columns, then columns

    def sync(self, masters: Iterable[PinnedMaster], progress: Progress) -> None:
        """Bring every dimension to the pinned version of its master."""
        for pinned in masters:
            if pinned.master.history != "none":
                self._sync(pinned, progress)

    def create(self, masters: Iterable[Master], *, unknown: bool = False) -> None:
        """Create missing tables; with `unknown`, those of required masters get an unknown member."""
        for master in masters:
            if master.history != "none":
                self.delta.create(_table(master), dimension_schema(master, self.schemas[master.name]))
                if unknown and master.required:
                    self._add_unknown(master)

    def _add_unknown(self, master: Master) -> None:
        """Add the unknown member: key 0, all other columns NULL."""
        table, application = self.delta.table(_table(master)), f"{self._application(master)}-unknown"
        if table.transaction_version(application):
            return
        schema = _nullable(dimension_schema(master, self.schemas[master.name]))
        known = {f"{master.name}_key": UNKNOWN_KEY, "valid_from": datetime(1970, 1, 1, tzinfo=UTC), "is_current": True}
        row = {name: known.get(name) for name in schema.names}
        commit = CommitProperties(app_transactions=[Transaction(application, 1)])
        write_deltalake(table, pa.Table.from_pylist([row], schema), mode="append", commit_properties=commit)
        self.delta.sync(_table(master))

    def _sync(self, pinned: PinnedMaster, progress: Progress) -> None:
        master = pinned.master
        table = self.delta.table(_table(master))
        held = table.transaction_version(self._application(master))
        origin = table.transaction_version(self._origin(master))  # None of dimensions that were written without it
        same = origin in (None, _number_of(master))
        if held == pinned.version and same:
            return
        with pinned.open() as reader:
            changed = None if held is None or not same else _changed(reader, self._parts(table))
            parts = reader.parts if isinstance(reader, MasterPages) else ()
            commit = self._commit(master, pinned.version, parts)
            if held is None:
                self._write_all(table, master, reader, commit)
            else:
                self._merge(table, master, _all_rows(reader) if changed is None else [changed], commit)
        self.delta.sync(_table(master))
        progress(f"dimension {_table(master)} is at version {pinned.version} of its master")

    def _application(self, master: Master) -> str:
        return f"{self.delta.application}-dim-{master.name}"

    def _origin(self, master: Master) -> str:
        return f"{self._application(master)}-table"

    def _commit(self, master: Master, version: int, parts: tuple[str, ...]) -> CommitProperties:
        return CommitProperties(
            custom_metadata={_PARTS: json.dumps(parts)},
            app_transactions=[
                Transaction(self._application(master), version),
                Transaction(self._origin(master), _number_of(master)),
            ],
        )

    def _parts(self, table: DeltaTable) -> tuple[str, ...]:
        """The parts of the master version in the table; empty when somebody else has changed its rows since."""
        for commit in table.history(_LOOKED_BACK):
            if _PARTS in commit or commit["operation"] not in _MAINTENANCE:
                return tuple(json.loads(commit.get(_PARTS, "[]")))
        return ()

    def _write_all(self, table: DeltaTable, master: Master, reader: MasterReader, commit: CommitProperties) -> None:
        schema = _nullable(dimension_schema(master, self.schemas[master.name]))
        rows = (batch for part in _all_rows(reader) for batch in self._rows(master, part).cast(schema).to_batches())
        with _own_errors(rows) as source:
            write_deltalake(
                table,
                pa.RecordBatchReader.from_batches(schema, source),
                mode="append",
                commit_properties=commit,
                target_file_size=32 * 2**20,
            )

    def _merge(self, table: DeltaTable, master: Master, parts: Iterable[pa.Table], commit: CommitProperties) -> None:
        rows = pa.concat_tables([self._rows(master, part) for part in parts])
        rows = rows.cast(_nullable(dimension_schema(master, self.schemas[master.name])))
        if master.history == "scd1":
            on = " and ".join(f"old.`{name}` = new.`{name}`" for name in master.key_columns)
            merge = table.merge(rows, on, source_alias="new", target_alias="old", commit_properties=commit)
            merge.when_matched_update_all().when_not_matched_insert_all().execute()
            return
        self._merge_versions(table, master, rows, commit)

    def _merge_versions(self, table: DeltaTable, master: Master, rows: pa.Table, commit: CommitProperties) -> None:
        """Close the current version of every key that has a newer one, and add the new versions, in one commit."""
        key = f"{master.name}_key"
        known = table.to_pyarrow_table(columns=[key], filters=[(key, "in", rows[key].to_pylist())])[key]
        new = rows.filter(pc.invert(pc.is_in(rows[key], value_set=known.combine_chunks())))
        closing = [f"old.`{name}` = new.`close_{name}`" for name in master.key_columns]
        source = pa.concat_tables([_closing(new, master, True), _closing(new, master, False)])
        merge = table.merge(
            source,
            " and ".join([*closing, "old.is_current", "old.valid_from < new.valid_from"]),
            source_alias="new",
            target_alias="old",
            commit_properties=commit,
        )
        columns = {name: f"new.`{name}`" for name in rows.column_names}
        (
            merge.when_matched_update({"valid_to": "new.valid_from", "is_current": "false"})
            .when_not_matched_insert(columns, predicate=f"new.`close_{master.key_columns[0]}` is null")
            .execute()
        )

    def _rows(self, master: Master, rows: pa.Table) -> pa.Table:
        """Master rows as rows of their dimension."""
        keys = _key_parts(rows.column(0), master)
        columns = dict(zip(master.key_columns, keys, strict=True))
        columns |= {name: rows[name] for name in master.columns if name not in columns}
        if master.history == "scd2" and master.version is not None:
            valid_from = rows[master.version].combine_chunks()
            columns.pop(master.version, None)
            columns |= {
                "valid_from": valid_from,
                "valid_to": pa.nulls(rows.num_rows, pa.timestamp("us", "UTC")),
                "is_current": pa.array(np.ones(rows.num_rows, bool)),
            }
            keys = [*keys, valid_from]
        return pa.table({f"{master.name}_key": surrogate_key(list(keys)), **columns})


@contextmanager
def _own_errors(rows: Iterator[pa.RecordBatch]) -> Iterator[Iterator[pa.RecordBatch]]:
    """The same rows; an error while reading them is raised as itself, not wrapped by delta-rs."""
    wrong: list[FrontstageError] = []

    def watched() -> Iterator[pa.RecordBatch]:
        try:
            yield from rows
        except FrontstageError as error:
            wrong.append(error)
            raise

    try:
        yield watched()
    except DeltaError:
        if wrong:
            raise wrong[0] from None
        raise


def _table(master: Master) -> str:
    return f"dim_{master.name}"


def _number_of(master: Master) -> int:
    """A number for a master's table, as transactions have numbers only."""
    digest = hashlib.blake2b(f"{master.store}:{master.table}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 1


def _key_parts(keys: pa.ChunkedArray, master: Master) -> list[pa.Array]:
    whole = keys.combine_chunks() if keys.num_chunks else pa.array([], keys.type)
    return whole.flatten() if len(master.key_columns) > 1 else [whole]


def _closing(rows: pa.Table, master: Master, closes: bool) -> pa.Table:
    """Rows that close the previous version, or rows to add; the merge distinguishes them by a NULL key."""
    for name in master.key_columns:
        column = rows[name] if closes else pa.nulls(rows.num_rows, rows.schema.field(name).type)
        rows = rows.append_column(f"close_{name}", column)
    return rows


def _changed(reader: object, since: tuple[str, ...]) -> pa.Table | None:
    """Rows that differ from the version made of the parts `since`; None when the changes are unknown."""
    if not isinstance(reader, MasterPages) or not since:
        return None
    return reader.rows_since(since)


def _all_rows(reader: MasterReader) -> Iterator[pa.Table]:
    for first in range(0, reader.page_count(), _PAGES_AT_ONCE):
        yield reader.read_pages(first, min(_PAGES_AT_ONCE, reader.page_count() - first))


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])
