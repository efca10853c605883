"""Master data straight from Postgres: many keys at once, every reader inside one snapshot.

    driver:  exported_snapshot(dsn) ── holds the transaction open for the whole batch
                 │ snapshot id, versions and column types travel with the plan
    workers: PostgresLookup(…) ── joins that snapshot ── select … where key = any(…), through COPY

So all workers of a batch see the same master rows, whatever is committed meanwhile, and the batch can say which
version it saw.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import psycopg2
import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import sql

from etl.adapters import postgres
from etl.errors import MasterUnavailable
from warehouse.contract import Master


@dataclass(frozen=True, slots=True)
class PinnedMaster:
    """A master table at one version: all a worker needs to read it."""

    master: Master
    version: int
    schema: pa.Schema
    snapshot: str


@contextmanager
def exported_snapshot(dsn: str, masters: Iterable[Master]) -> Iterator[dict[str, PinnedMaster]]:
    """Pin every master at what is committed now, for as long as the block lasts."""
    with postgres.connect(dsn) as connection:
        connection.set_session(isolation_level="REPEATABLE READ", readonly=True)
        with connection.cursor() as cursor:
            cursor.execute("select pg_export_snapshot()")
            (snapshot,) = cursor.fetchone() or ("",)
            cursor.execute(postgres.statement("master_versions"))
            versions: dict[str, int] = dict(cursor.fetchall())
        yield {
            master.name: PinnedMaster(
                master=master,
                version=versions.get(master.table, 0),
                schema=postgres.arrow_types(connection, master.table, [master.key, *master.columns]),
                snapshot=snapshot,
            )
            for master in masters
        }


class PostgresLookup:
    """The `MasterLookup` port on a pinned master; a context manager that owns its connection."""

    def __init__(self, dsn: str, pinned: PinnedMaster, rows_per_query: int) -> None:
        self._dsn, self._pinned, self._rows_per_query = dsn, pinned, rows_per_query
        self._connecting = postgres.connect(dsn)
        columns = [pinned.master.key, *pinned.master.columns]
        self._select = sql.SQL("select {} from {} where {} = any").format(
            sql.SQL(", ").join(map(sql.Identifier, columns)),
            postgres.identifier(pinned.master.table),
            sql.Identifier(pinned.master.key),
        )

    def __enter__(self) -> Self:
        self._connection = self._connecting.__enter__()
        self._connection.set_session(isolation_level="REPEATABLE READ", readonly=True)
        try:
            with self._connection.cursor() as cursor:
                cursor.execute("set transaction snapshot %s", (self._pinned.snapshot,))
        except psycopg2.Error as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise MasterUnavailable(self._pinned.master.table) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connecting.__exit__(kind, error, trace)

    def lookup(self, keys: pa.Array) -> pa.Table:
        """The master rows of distinct keys; a key without a row is simply not in the answer."""
        wanted = pc.unique(keys)
        chunks = [
            self._rows(wanted.slice(start, self._rows_per_query))
            for start in range(0, len(wanted), self._rows_per_query)
        ]
        return pa.concat_tables(chunks) if chunks else self._pinned.schema.empty_table()

    def _rows(self, keys: pa.Array) -> pa.Table:
        query = self._select + sql.SQL("({})").format(sql.Literal(keys.to_pylist()))
        try:
            return postgres.copy_out(self._connection, query, self._pinned.schema)
        except psycopg2.OperationalError as error:
            raise MasterUnavailable(self._pinned.master.table) from error
