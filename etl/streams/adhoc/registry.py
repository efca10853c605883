"""The registry of ad-hoc queries in Postgres: one row per query, checked and inserted in one transaction.

    create ──► active ──► deleted          by its owner, or when it expires
                 │  ▲
                 ▼  │ resume
              suspended                    its sink failed; the reason is kept, the others go on

A change can be requested at any time and takes effect with the next decision, whose transaction records the batch
(`created_batch`, `deleted_batch`). Creating a query does not need the writer's lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from psycopg2.extras import Json, execute_values

from etl.adapters.postgres import Connection
from etl.adapters.postgres.statements import Statements
from etl.correlate.adhoc.errors import NameInUse, NotTheOwner, QuotaExceeded, UnknownQuery
from etl.correlate.adhoc.optimize.decisions import Decision
from etl.correlate.adhoc.query.limits import Limits
from etl.streams.adhoc.state import QueryState

State = Literal["active", "suspended", "deleted"]
_COLUMNS = (
    "id, name, owner, sql, within_us, created_at, expires_at, state, reason, created_batch, deployed_at, deleted_at, "
    "deleted_by, deleted_batch"
)


@dataclass(frozen=True, slots=True)
class Record:
    """One query as it was requested, and its state."""

    id: int
    name: str
    owner: str
    sql: str
    within_us: int
    created_at: datetime
    expires_at: datetime
    state: State
    reason: str
    created_batch: int | None
    deployed_at: datetime | None
    deleted_at: datetime | None
    deleted_by: str | None
    deleted_batch: int | None

    @property
    def within(self) -> timedelta:
        return timedelta(microseconds=self.within_us)

    @property
    def folder(self) -> str:
        """The folder of its table."""
        return f"{self.name}-{self.id}"

    @property
    def deployment_s(self) -> float | None:
        """From the request to the decision of the first batch with it."""
        return None if self.deployed_at is None else (self.deployed_at - self.created_at).total_seconds()


@dataclass(frozen=True, slots=True)
class Asked:
    """A requested query."""

    name: str
    owner: str
    sql: str
    within: timedelta
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class EvolvedQueries:
    """The changes of a batch to the registry."""

    state: QueryState  # after the batch
    created: tuple[int, ...] = ()
    deleted: tuple[int, ...] = ()
    suspended: Mapping[int, str] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()


class QueryRegistry(Statements):
    """Statements about queries, on a connection that the caller owns."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, "correlations")

    # ── requests by people ─────────────────────────────────────────────────────────────────────────────────────

    def create(self, asked: Asked, now: datetime, limits: Limits) -> Record:
        """Create a query, effective with the next batch; quotas and names are checked under a lock."""
        with self.transaction():
            self._execute("lock table etl.query in share row exclusive mode")
            self._expire(now)
            self.examine(asked.name, asked.owner, limits)
            values = {
                "name": asked.name, "owner": asked.owner, "sql": asked.sql, "now": now, "expires_at": asked.expires_at,
                "within_us": asked.within // timedelta(microseconds=1),
            }  # fmt: skip
            self._execute(
                "insert into etl.query (name, owner, sql, within_us, created_at, expires_at) "
                "values (%(name)s, %(owner)s, %(sql)s, %(within_us)s, %(now)s, %(expires_at)s)",
                values,
                rows=1,
            )
            self.log(now, None, [Decision(0, "ask", asked.name, f"{asked.owner} asks for it")])
        return self.get(asked.name)

    def examine(self, name: str, owner: str, limits: Limits) -> None:
        """Check name and quotas for a new query; raises the first violation."""
        taken = self._all("select owner from etl.query where name = %(name)s and deleted_at is null", {"name": name})
        if taken:
            raise NameInUse(name, taken[0]["owner"])
        (counts,) = self._all(
            "select count(*) as every, count(*) filter (where owner = %(owner)s) as mine "
            "from etl.query where deleted_at is null",
            {"owner": owner},
        )
        if counts["every"] >= limits.queries:
            raise QuotaExceeded(name, "all queries", counts["every"], limits.queries)
        if counts["mine"] >= limits.queries_per_owner:
            raise QuotaExceeded(name, f"{owner}'s queries", counts["mine"], limits.queries_per_owner)

    def delete(self, name: str, by: str, now: datetime, *, admin: bool = False) -> Record:
        """Delete a query, effective with the next batch."""
        with self.transaction():
            record = self.get(name)
            if record.owner != by and not admin:
                raise NotTheOwner(name, record.owner, by)
            gone = self._execute(
                "update etl.query set deleted_at = %(now)s, deleted_by = %(by)s, state = 'deleted', "
                "deleted_batch = case when created_batch is null then 0 end where id = %(id)s and deleted_at is null",
                {"now": now, "by": by, "id": record.id},
            )
            if not gone:  # deleted concurrently
                raise UnknownQuery(name)
            self.log(now, None, [Decision(0, "delete", name, f"{by} deletes it")])
        return record

    def resume(self, name: str, by: str, now: datetime, *, admin: bool = False) -> Record:
        """Resume a suspended query, from the next batch on; missed batches are not replayed."""
        with self.transaction():
            record = self.get(name)
            if record.owner != by and not admin:
                raise NotTheOwner(name, record.owner, by)
            self._execute(
                "update etl.query set state = 'active', reason = '', created_batch = null, deployed_at = null "
                "where id = %(id)s and state = 'suspended'",
                {"id": record.id},
            )
            self.log(now, None, [Decision(0, "resume", name, f"{by} lets it run again")])
        return self.get(name)

    def get(self, name: str) -> Record:
        """The query that currently has this name."""
        rows = self._all(
            f"select {_COLUMNS} from etl.query where name = %(name)s and deleted_at is null",  # noqa: S608 - literals
            {"name": name},
        )
        if not rows:
            raise UnknownQuery(name)
        return Record(**rows[0])

    def records(self) -> list[Record]:
        """All queries that are not deleted, by name."""
        rows = self._all(f"select {_COLUMNS} from etl.query where deleted_at is null order by name")  # noqa: S608
        return [Record(**row) for row in rows]

    def gone_since(self, before: datetime) -> list[Record]:
        """Queries that were deleted before this time and whose last batch is decided."""
        rows = self._all(
            f"select {_COLUMNS} from etl.query where deleted_at < %(before)s and deleted_batch is not null",  # noqa: S608
            {"before": before},
        )
        return [Record(**row) for row in rows]

    def forget(self, ids: Sequence[int]) -> None:
        self._execute("delete from etl.query where id = any(%(ids)s)", {"ids": list(ids)})

    # ── used by batches ────────────────────────────────────────────────────────────────────────────────────────

    def expire(self, now: datetime) -> None:
        """Delete expired queries."""
        with self.transaction():
            self._expire(now)

    def _expire(self, now: datetime) -> None:
        gone = self._all(
            "update etl.query set deleted_at = %(now)s, deleted_by = 'expiry', state = 'deleted', "
            "deleted_batch = case when created_batch is null then 0 end "
            "where deleted_at is null and expires_at <= %(now)s returning name",
            {"now": now},
        )
        self.log(now, None, [Decision(0, "delete", row["name"], "it has expired") for row in gone])

    def active(self) -> list[Record]:
        """The queries that the next batch answers, oldest first."""
        rows = self._all(
            f"select {_COLUMNS} from etl.query where deleted_at is null and state = 'active' order by id"  # noqa: S608
        )
        return [Record(**row) for row in rows]

    def state(self) -> QueryState:
        rows = self._all("select state from etl.query_state")
        return QueryState.from_json(rows[0]["state"]) if rows else QueryState()

    def evolve(self, batch: int, now: datetime, one: EvolvedQueries) -> None:
        """Inside the transaction of a batch's decision."""
        self._keep(one.state)
        self._execute(
            "update etl.query set created_batch = %(batch)s, deployed_at = %(now)s "
            "where id = any(%(ids)s) and created_batch is null",
            {"batch": batch, "now": now, "ids": list(one.created)},
        )
        self._execute(
            "update etl.query set deleted_batch = %(batch)s where id = any(%(ids)s) and deleted_at is not null",
            {"batch": batch, "ids": list(one.deleted)},
        )
        self.suspend(one.suspended)
        self.log(now, batch, one.decisions)

    def snapshot(self) -> dict[str, Any]:
        """All queries and their state, as plain values, for `restore`."""
        rows = self._all(f"select {_COLUMNS} from etl.query order by id")  # noqa: S608 - literals
        moments = ("created_at", "expires_at", "deployed_at", "deleted_at")
        plain = [row | {name: row[name] and row[name].isoformat() for name in moments} for row in rows]
        return {"state": self.state().as_json(), "queries": plain}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Restore queries as of a batch that this ledger, restored from a backup, does not have."""
        with self.transaction():
            self._execute("delete from etl.query")
            for row in snapshot["queries"]:
                names = _COLUMNS.split(", ")
                values = ", ".join(f"%({name})s" for name in names)
                self._execute(
                    f"insert into etl.query ({_COLUMNS}) overriding system value values ({values})",  # noqa: S608
                    dict(row),
                )
            self._all("select setval(pg_get_serial_sequence('etl.query', 'id'), coalesce(max(id), 1)) from etl.query")
            self._keep(QueryState.from_json(snapshot["state"]))

    def _keep(self, state: QueryState) -> None:
        self._execute(
            "insert into etl.query_state (state) values (%(state)s) "
            "on conflict (single) do update set state = %(state)s",
            {"state": Json(state.as_json())},
        )

    def suspend(self, reasons: Mapping[int, str]) -> None:
        """Suspend queries whose sinks failed, with the reason."""
        for number, reason in reasons.items():
            self._execute(
                "update etl.query set state = 'suspended', reason = %(reason)s where id = %(id)s and state = 'active'",
                {"id": number, "reason": reason},
            )

    def log(self, now: datetime, batch: int | None, decisions: Iterable[Decision]) -> None:
        """Log decisions with their reasons."""
        rows = [(now, batch, one.kind, one.subject, one.words, Json(dict(one.numbers))) for one in decisions]
        if rows:
            with self.connection.cursor() as cursor:
                execute_values(
                    cursor,
                    "insert into etl.query_log (at, batch, kind, subject, words, numbers) values %s",
                    rows,
                )

    def logged(self, subjects: Sequence[str], limit: int) -> list[dict[str, Any]]:
        """The newest decisions about queries, edges or the plan, oldest first."""
        rows = self._all(
            "select at, batch, kind, subject, words, numbers from etl.query_log where subject = any(%(subjects)s) "
            "order by number desc limit %(limit)s",
            {"subjects": list(subjects), "limit": limit},
        )
        return rows[::-1]

    def forget_log(self, before: datetime) -> None:
        self._execute("delete from etl.query_log where at < %(before)s", {"before": before})
