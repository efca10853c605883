"""One row per pipeline: its declaration, its writer, its published batches."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from psycopg2.extras import Json

from etl.adapters import postgres
from etl.adapters.lease import LOCK, PooledSession
from etl.adapters.ledger.errors import Fenced
from etl.adapters.postgres.statements import Statements


class PipelineRow(Statements):
    """Statements about a pipeline as a whole. `session`: the backend that a fence expects on the connection."""

    def __init__(self, connection: postgres.Connection, pipeline: str, session: int | None = None) -> None:
        super().__init__(connection, pipeline)
        self._session = session

    def declare(self, declared: Mapping[str, Any]) -> None:
        """Store the pipeline's declaration; the caller has checked that the change is allowed."""
        self._execute(postgres.statement("pipeline_declare"), {"declared": Json(declared)})

    def declared(self) -> dict[str, Any] | None:
        """The pipeline's declaration at its last run."""
        rows = self._all("select declared from etl.pipeline where name = %(pipeline)s")
        return rows[0]["declared"] if rows else None

    def published(self) -> dict[str, int]:
        """By table, the newest loaded batch that added files to it."""
        rows = self._all("select published from etl.pipeline where name = %(pipeline)s")
        return {table: int(batch) for table, batch in (rows[0]["published"] if rows else {}).items()}

    def fence(self, epoch: int) -> None:
        """Hold the epoch until the transaction ends; a newer writer has taken over when it differs."""
        query = (
            "select epoch, holder, pg_backend_pid() as session from etl.pipeline where name = %(pipeline)s for share"
        )
        rows = self._all(query)
        if not rows or rows[0]["epoch"] != epoch:
            raise Fenced(self.pipeline, rows[0]["holder"] if rows else "nobody")
        if self._session not in (None, rows[0]["session"]):
            raise PooledSession(postgres.place(self.connection.dsn))

    def is_written(self) -> bool:
        """Whether the writer's lock is held now."""
        rows = self._all(
            "select exists (select from pg_locks where locktype = 'advisory' and granted and classid = %(lock)s "
            "and objid::bigint = hashtext(%(pipeline)s)::bigint & 4294967295 "
            "and database = (select oid from pg_database where datname = current_database())) as held",
            {"lock": LOCK},
        )
        return bool(rows[0]["held"])

    def totals(self) -> dict[str, int]:
        """Sums over all loaded batches, and currently open events."""
        rows = self._all(postgres.statement("totals"))
        return {name: int(value) for name, value in rows[0].items()} if rows else {}

    def record_look(self, versions: Mapping[str, int]) -> None:
        """Record that no waiting event can be resolved with these master versions."""
        query = "update etl.pipeline set looked = %(versions)s where name = %(pipeline)s"
        self._execute(query, {"versions": Json(dict(versions))})

    def looked(self) -> dict[str, int]:
        """The master versions recorded by `record_look`."""
        rows = self._all("select looked from etl.pipeline where name = %(pipeline)s")
        return dict(rows[0]["looked"]) if rows else {}

    def master_touched_at(self, table: str) -> datetime | None:
        """The time of the newest entry in a master's change log; None when it has no entry."""
        rows = self._all(
            "select changed_at from master.change_log where table_name = %(table)s order by seq desc limit 1",
            {"table": table},
        )
        return rows[0]["changed_at"] if rows else None

    def identity(self) -> str:
        """The identity of the ledger's server and database."""
        (row,) = self._all(
            "select system_identifier::text || ' ' || oid as ledger from pg_control_system(), pg_database "
            "where datname = current_database()"
        )
        return str(row["ledger"])
