"""Master data straight from a Postgres table, through all three ports, every reader inside one snapshot.

    driver    with exported_snapshot(dsn) as snapshot:          keeps the transaction open for the whole batch
                  pinned = snapshot.pin("shop.clients", ["client_id"])
                      │ travels with the plan: snapshot id, version, columns
    workers   with pinned.open() as master:                     one connection, inside that snapshot
                  master.lookup(keys)                           many keys per statement, through COPY
                  master.read_pages(0, 8)                       key ranges, in key order

All workers of a batch see the same rows, whatever is committed meanwhile, and the batch records the version it saw.
ALTER and DROP of a pinned table block until the batch is over.

A page is a range of keys, from its fence up to the next one; the first page has no lower and the last no upper bound.
So any fences give every row exactly once, and good ones give pages of even size. They are computed when a page is first
read, never for lookups. Fences computed once (`snapshot.with_fences`) can serve every task, and later batches too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import numpy as np
import psycopg2
import pyarrow as pa
from psycopg2 import sql

from etl.adapters import postgres
from etl.adapters.postgres import Connection
from etl.columnar.keys import to_contiguous
from etl.enrich.ports import Capabilities
from etl.errors import MasterUnavailable, SettingsError
from etl.masters.postgres.catalog import describe
from etl.masters.postgres.copy import copied, selected
from etl.masters.postgres.key_sql import KeySql, storable
from etl.masters.rows import key_codec
from etl.masters.rows.shape import Shape, Shaped

_SETTINGS = "set local timezone = 'UTC'; set local datestyle = 'ISO'; set local idle_in_transaction_session_timeout = 0"


@dataclass(frozen=True, slots=True)
class PinnedTable(Shaped):
    """A master table at one version: everything a worker needs to read it. Contains a DSN, hidden in `repr`."""

    dsn: str = field(repr=False)
    snapshot: str
    version: int  # equal numbers mean equal rows
    shape: Shape = field(repr=False)
    key_sql: KeySql = field(repr=False)
    unique: bool
    indexed: bool
    page_rows: int
    rows_per_query: int
    fences: pa.Table | None = field(default=None, repr=False, compare=False)

    @property
    def table(self) -> str:
        return self.shape.store

    def open(self) -> PostgresReader:
        """A reader with its own connection, for use as a context manager."""
        return PostgresReader(self)


class MasterSnapshot:
    """The snapshot that `exported_snapshot` holds for its block."""

    def __init__(
        self, dsn: str, connection: Connection, name: str, versions: Mapping[str, int], moment: str, origin: str
    ) -> None:
        self._dsn, self._connection, self._name = dsn, connection, name
        self._versions, self._moment = versions, moment
        self.origin = origin  # versions restart on another server, after a restore, in another database

    def pin(
        self,
        table: str,
        key: Sequence[str],
        columns: Sequence[str] | None = None,
        *,
        page_rows: int = 1_000,
        rows_per_query: int = 5_000,
        fences: pa.Table | None = None,
    ) -> PinnedTable:
        """Pin a table for workers; `columns` besides the key, by default all."""
        for name, value in {"page_rows": page_rows, "rows_per_query": rows_per_query}.items():
            if value <= 0:
                raise SettingsError(f"{name}={value} is not positive; give the number of rows to read at once")
        known = describe(self._connection, table, key, columns)
        return PinnedTable(
            dsn=postgres.SecretDsn(self._dsn),
            snapshot=self._name,
            version=self._versions[table] if table in self._versions else _number(self._moment),
            shape=known.shape,
            key_sql=known.key,
            unique=known.unique,
            indexed=known.indexed,
            page_rows=page_rows,
            rows_per_query=rows_per_query,
            fences=fences,
        )

    def fences(self, pinned: PinnedTable) -> pa.Table:
        """The first keys of a table's pages, computed once for all tasks: 0.1 s per million rows once vacuumed."""
        return _find_fences(self._connection, pinned)

    def with_fences(self, pinned: PinnedTable) -> PinnedTable:
        """The same table with its fences."""
        return replace(pinned, fences=self.fences(pinned))


@contextmanager
def exported_snapshot(dsn: str) -> Iterator[MasterSnapshot]:
    """Export a snapshot for the duration of the block; other connections can read in it."""
    with postgres.connect(dsn) as connection:
        connection.set_session(isolation_level="REPEATABLE READ", readonly=True)
        with connection.cursor() as cursor:
            cursor.execute(_SETTINGS)
            cursor.execute("select pg_export_snapshot(), pg_current_snapshot()::text, to_regclass('master.version')")
            name, moment, tracked = cursor.fetchone() or ("", "", None)
            cursor.execute(postgres.statement("master_position"))
            origin = ":".join((cursor.fetchone() or ())[:3])  # server, timeline, database
            versions: dict[str, int] = {}
            if tracked is not None:
                cursor.execute(postgres.statement("master_versions"))
                versions = dict(cursor.fetchall())
        yield MasterSnapshot(dsn, connection, name, versions, moment, origin)


class PostgresReader:
    """`MasterReader` on a pinned table; a context manager that owns one connection."""

    def __init__(self, pinned: PinnedTable) -> None:
        self._pinned, self._shape = pinned, pinned.shape
        self._fences = pinned.fences
        self._fence_codes: pa.Array | None = None
        self._select = sql.SQL("select {} from {}").format(
            sql.SQL(", ").join(map(selected, pinned.shape.schema)), postgres.identifier(pinned.table)
        )

    def __enter__(self) -> Self:
        self._connecting = postgres.connect(self._pinned.dsn)
        self._connection = self._connecting.__enter__()
        self._connection.set_session(isolation_level="REPEATABLE READ", readonly=True)
        try:
            with self._connection.cursor() as cursor:
                cursor.execute("set transaction snapshot %s", (self._pinned.snapshot,))
                cursor.execute(_SETTINGS)
        except psycopg2.Error as error:  # the batch that held the snapshot is over
            self.__exit__(type(error), error, error.__traceback__)
            raise MasterUnavailable(self._pinned.table) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connecting.__exit__(kind, error, trace)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    @property
    def change_tracking(self) -> None:
        return None

    # --- MasterLookup

    def lookup(self, keys: pa.Array) -> pa.Table:
        """The rows of distinct keys; keys without a row are left out."""
        ordered = self._sorted(keys)
        size = self._pinned.rows_per_query
        chunks = [[part.slice(at, size) for part in ordered] for at in range(0, len(ordered[0]), size)]
        rows = [self._rows(self._pinned.key_sql.any_of(chunk)) for chunk in chunks]
        return self._public(rows)

    def _sorted(self, keys: pa.Array) -> list[pa.Array]:
        """The columns of the storable keys, in key order: neighbours share pages of the index."""
        keys = to_contiguous(keys)
        order = pa.array(key_codec.argsort(self._shape.codes_of_keys(keys)))
        parts = keys.flatten() if pa.types.is_struct(keys.type) else [keys]
        parts = [part.take(order).cast(field.type) for part, field in zip(parts, self._shape.schema, strict=False)]
        fine = storable(parts)
        return [part.filter(fine) for part in parts]

    # --- MasterScan

    def page_count(self) -> int:
        """The number of pages."""
        return int(self._pages().num_rows)

    def read_pages(self, first: int, count: int) -> pa.Table:
        """The rows of consecutive pages, in key order, by one statement."""
        if not 0 <= first <= first + count <= self.page_count():
            raise IndexError(f"pages {first} to {first + count - 1} are not all among {self.page_count()} pages")
        stop = first + count
        low = self._fence(first) if first > 0 else None
        high = self._fence(stop) if stop < self.page_count() else None
        within = self._pinned.key_sql.between(low, high)
        return self._public([self._rows(within, ordered=True)] if count else [])

    # --- MasterIndex

    def pages_holding(self, keys: pa.Array) -> tuple[pa.Table, int]:
        """All rows of the pages in which keys would lie, and the number of these pages."""
        wanted = self._shape.codes_of_keys(keys)
        if self.page_count() == 0:
            return self._public([]), 0
        if self._fence_codes is None:
            self._fence_codes = self._shape.codes(self._pages())
        pages = np.unique(np.maximum(key_codec.search(self._fence_codes, wanted, "right") - 1, 0))
        parts = [self.read_pages(first, stop - first) for first, stop in key_codec.stretches(pages)]
        return pa.concat_tables([self._public([]), *parts]), len(pages)

    # --- all of them

    def _pages(self) -> pa.Table:
        if self._fences is None:
            self._fences = _find_fences(self._connection, self._pinned)
        return self._fences

    def _fence(self, page: int) -> list[Any]:
        return [column[page].as_py() for column in self._pages().columns]

    def _rows(self, where: sql.Composable, *, ordered: bool = False) -> pa.Table:
        order = sql.SQL(" order by {}").format(self._pinned.key_sql.order()) if ordered else sql.SQL("")
        query = sql.SQL("{} where {}{}").format(self._select, where, order)
        return copied(self._connection, self._pinned.table, query, self._shape.schema)

    def _public(self, parts: Sequence[pa.Table]) -> pa.Table:
        rows = pa.concat_tables([self._shape.schema.empty_table(), *parts]).combine_chunks()
        if not self._pinned.unique:
            self._shape.refuse_repeated_keys(rows)
        return self._shape.public(rows, self._pinned.columns)


def _find_fences(connection: Connection, pinned: PinnedTable) -> pa.Table:
    """The distinct first keys of all pages."""
    query = pinned.key_sql.fences(pinned.page_rows, indexed=pinned.indexed)
    schema = pa.schema([pinned.shape.schema.field(name) for name in pinned.key])
    fences = copied(connection, pinned.table, query, schema)
    keep = key_codec.first_of_equals(pinned.shape.codes(fences)) if fences.num_rows else np.ones(0, np.bool_)
    return fences.filter(pa.array(keep))


def _number(moment: str) -> int:
    """A version for tables without a version counter: it changes with any commit on the server."""
    return int.from_bytes(hashlib.blake2b(moment.encode(), digest_size=8).digest(), "big") >> 1
