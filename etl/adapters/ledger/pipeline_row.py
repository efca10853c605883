"""One row per pipeline: what it is declared as, who writes it, what is published."""

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
    """Statements about a pipeline as a whole. `session`: who must answer on the connection when something is fenced."""

    def __init__(self, connection: postgres.Connection, pipeline: str, session: int | None = None) -> None:
        super().__init__(connection, pipeline)
        self._session = session

    def declare(self, declared: Mapping[str, Any]) -> None:
        """Remember what the pipeline is declared as; the caller has checked that it may change."""
        self._execute(postgres.statement("pipeline_declare"), {"declared": Json(declared)})

    def declared(self) -> dict[str, Any] | None:
        """What the pipeline was declared as when it last ran."""
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
        """Whether somebody holds the writer's lock right now."""
        rows = self._all(
            "select exists (select from pg_locks where locktype = 'advisory' and granted and classid = %(lock)s "
            "and objid::bigint = hashtext(%(pipeline)s)::bigint & 4294967295 "
            "and database = (select oid from pg_database where datname = current_database())) as held",
            {"lock": LOCK},
        )
        return bool(rows[0]["held"])

    def totals(self) -> dict[str, int]:
        """Sums over all loaded batches, and what is open now."""
        rows = self._all(postgres.statement("totals"))
        return {name: int(value) for name, value in rows[0].items()} if rows else {}

    def record_look(self, versions: Mapping[str, int]) -> None:
        """Nothing that waits can go on with these versions of the masters."""
        query = "update etl.pipeline set looked = %(versions)s where name = %(pipeline)s"
        self._execute(query, {"versions": Json(dict(versions))})

    def looked(self) -> dict[str, int]:
        """The versions of masters with which the backlog was last looked into in vain."""
        rows = self._all("select looked from etl.pipeline where name = %(pipeline)s")
        return dict(rows[0]["looked"]) if rows else {}

    def master_touched_at(self, table: str) -> datetime | None:
        """When the change log of a master in this database last noted something; None when it has no entry."""
        rows = self._all(
            "select changed_at from master.change_log where table_name = %(table)s order by seq desc limit 1",
            {"table": table},
        )
        return rows[0]["changed_at"] if rows else None

    def identity(self) -> str:
        """Which database of which server this ledger is in."""
        (row,) = self._all(
            "select system_identifier::text || ' ' || oid as ledger from pg_control_system(), pg_database "
            "where datname = current_database()"
        )
        return str(row["ledger"])
