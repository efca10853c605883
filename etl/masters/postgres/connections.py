"""ADBC connections that read masters as Arrow. The driver's catalogue of types is cached; connections are not.

    connect ── is the cached catalogue current? ─┬─ yes ─▶ a connection with the cached one               2 ms
                                                 └─ no ──▶ the driver reads the catalogue, cached        50 ms

The driver reads the whole catalogue of types before it connects, which took most of the time of a batch without new
master rows. The cache holds no connection that could die between batches, block a `drop database`, or be shared with a
forked process. An entry is replaced when a type is added, dropped or changed, or another server answers, and closed
when its last connection ends: the driver frees nothing by itself. The most recently used servers are cached. See
ADR 113.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import adbc_driver_manager
import adbc_driver_postgresql
from adbc_driver_manager.dbapi import Connection

from etl.adapters import postgres

_SERVERS = 4
Types = tuple[Any, ...]


@dataclass(slots=True)
class _CachedDatabase:
    """The driver's database object of one server, and the number of connections that use it."""

    database: Any = field(repr=False)
    types: Types
    readings: int = 0
    current: bool = True

    def close_unused(self) -> None:
        if not self.current and not self.readings:
            self.database.close()


class ArrowConnections:
    """Connections to any number of servers; safe in threads."""

    def __init__(self) -> None:
        self._known: dict[str, _CachedDatabase] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"ArrowConnections({len(self._known)} servers)"  # a DSN is a secret

    @contextmanager
    def connect(self, dsn: str) -> Iterator[Connection]:
        """A new connection, closed at the end."""
        known = self._begin(dsn, _types_of(dsn))
        try:
            borrowed: Any = _StaysOpen()
            with Connection(borrowed, adbc_driver_manager.AdbcConnection(known.database)) as connection:
                yield connection
        finally:
            self._end(known)

    def _begin(self, dsn: str, types: Types) -> _CachedDatabase:
        with self._lock:
            known = self._known.pop(dsn, None)
            if known is None or known.types != types:
                self._retire(known)
                known = _CachedDatabase(adbc_driver_postgresql.connect(postgres.with_keepalives(dsn)), types)
            self._known[dsn] = known  # the newest is the last
            while len(self._known) > _SERVERS:
                self._retire(self._known.pop(next(iter(self._known))))
            known.readings += 1
            return known

    def _retire(self, known: _CachedDatabase | None) -> None:
        if known is not None:
            known.current = False
            known.close_unused()

    def _end(self, known: _CachedDatabase) -> None:
        with self._lock:
            known.readings -= 1
            known.close_unused()


class _StaysOpen:
    """A stand-in for the shared database, which a connection would close with itself."""

    def close(self) -> None:
        """Does nothing: `ArrowConnections` closes the database."""


def _types_of(dsn: str) -> Types:
    with postgres.connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(postgres.statement("type_catalog"))
        return tuple(cursor.fetchone() or ())
