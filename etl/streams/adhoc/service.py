"""Operations on ad-hoc queries, in plain values: for commands, the form in Airflow and the page.

create   checked completely before anything is written: name, window, SQL, quotas
list     every query with its state, its rows and its rate
show     one of them: plan, shared joins and scans, deployment latency, batches
explain  the plan in words and numbers, and the decisions that led to it
rows     its results: newest rows, or aggregates added up over batches
delete   by its owner; in effect with the next batch
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.adapters import postgres
from etl.contract.correlations.correlation import LoggedStream
from etl.contract.words.times import duration
from etl.correlate.adhoc.errors import NameInUse, NameRefused, NotTheOwner, QueryRefused
from etl.correlate.adhoc.query.limits import NAME, Limits, window_slots
from etl.correlate.adhoc.query.model import Query
from etl.errors import TerminalError
from etl.settings import Settings
from etl.streams.adhoc import sharing
from etl.streams.adhoc.answers import answers
from etl.streams.adhoc.registry import Asked, QueryRegistry, Record
from etl.streams.adhoc.state import EventClock, QueryState
from etl.streams.adhoc.tasks.results import BATCH
from etl.streams.adhoc.version import Version, compiled_query, open_readable, open_version
from etl.streams.declared import catalog
from etl.streams.ledger import StreamLedger
from etl.streams.tasks.plan import RESULTS, Places

RATED_BATCHES = 20
_LOGGED = 20


class LengthRefused(TerminalError):
    """A duration that cannot be parsed."""

    def __init__(self, what: str, given: str) -> None:
        super().__init__(what, given)
        self.what, self.given = what, given

    def __str__(self) -> str:
        return f"{self.what} is {self.given!r}, but must be a length of time such as '2m', '90s' or '1h 30m'"


class LifeRefused(TerminalError):
    """A query's lifetime exceeds the limit."""

    def __init__(self, name: str, expires: str, days: int) -> None:
        super().__init__(name, expires, days)
        self.name, self.expires, self.days = name, expires, days

    def __str__(self) -> str:
        allowed = f"at least a second and at most {self.days} days are allowed"
        return f"query {self.name!r} is to expire after {self.expires}; {allowed}"


def limits_of(settings: Settings) -> Limits:
    """The limits in the settings."""
    return Limits(
        slot=timedelta(seconds=settings.query_slot_s),
        retention=timedelta(seconds=settings.query_retention_s),
        queries=settings.queries_most,
        queries_per_owner=settings.queries_most_per_owner,
        longest_life=timedelta(days=settings.query_days),
    )


@dataclass(frozen=True, slots=True)
class Queries:
    """Ad-hoc queries of one site."""

    settings: Settings
    dsn: str = field(repr=False)

    # ── changing ───────────────────────────────────────────────────────────────────────────────────────────────

    def create(self, name: str, sql: str, within: str, owner: str, expires: str | None = None) -> dict[str, Any]:
        """Create a query; it sees tuples from the next batch on."""
        window, life = self.check(name, sql, within, expires)
        now = datetime.now(UTC)
        with self._registry() as registry:
            record = registry.create(Asked(name, owner, sql, window, now + life), now, limits_of(self.settings))
            return self._summary(record, {})

    def check(self, name: str, sql: str, within: str, expires: str | None = None) -> tuple[timedelta, timedelta]:
        """Check everything but name and quotas of a new query; returns its window and lifetime."""
        limits = limits_of(self.settings)
        if not NAME.fullmatch(name):
            raise NameRefused(name)
        window = _length("within", within)
        life = limits.longest_life if expires is None else _length("expires", expires)
        if life <= timedelta(0) or life > limits.longest_life:
            raise LifeRefused(name, expires or "", self.settings.query_days)
        query = compiled_query(name, sql, window_slots(name, window, limits), self._streams())
        if any(each.name.lower() == BATCH for each in query.outputs):
            raise QueryRefused(
                f"an output is named {BATCH!r}, which every table has already; give it another name", 1, 1
            )
        return window, life

    def examine_new(self, name: str, sql: str, within: str, owner: str) -> None:
        """Check that a query could be created now; raises the error that `create` would raise."""
        self.check(name, sql, within)
        with self._registry() as registry:
            registry.examine(name, owner, limits_of(self.settings))

    def examine_owner(self, name: str, user: str) -> None:
        """Check that a user may delete a query."""
        with self._registry() as registry:
            record = registry.get(name)
        if record.owner != user:
            raise NotTheOwner(name, record.owner, user)

    def perform(self, asked: Mapping[str, Any], user: str) -> Any:
        """Perform a form's action on behalf of a user."""
        action, name = asked["action"], asked["name"]
        if action == "create":
            return self._created(asked, user)
        if action == "list":
            return self.summaries()
        if action == "rows":
            return self.rows(name, asked["limit"])
        if action == "delete":
            return self.delete(name, user)
        if action == "resume":
            return self.resume(name, user)
        return self.show(name) if action == "show" else self.explain(name)

    def _created(self, asked: Mapping[str, Any], user: str) -> dict[str, Any]:
        """Create a query; or return the same query of the same person, created by a task that was killed."""
        name, sql, within = asked["name"], asked["sql"], asked["within"]
        try:
            return self.create(name, sql, within, user, asked["expires"])
        except NameInUse as taken:
            with self._registry() as registry:
                there = registry.get(name)
                if (there.owner, there.sql, there.within) != (user, sql, _length("within", within)):
                    raise taken from None
                return self._summary(there, {})

    def delete(self, name: str, by: str, *, admin: bool = False) -> dict[str, Any]:
        """Delete a query, effective with the next batch; its table stays for some days."""
        with self._registry() as registry:
            record = registry.delete(name, by, datetime.now(UTC), admin=admin)
            return {"name": record.name, "deleted": True, "table": str(self._folder(record))}

    def resume(self, name: str, by: str, *, admin: bool = False) -> dict[str, Any]:
        """Resume a suspended query from the next batch on."""
        with self._registry() as registry:
            return self._summary(registry.resume(name, by, datetime.now(UTC), admin=admin), {})

    # ── looking ────────────────────────────────────────────────────────────────────────────────────────────────

    def summaries(self) -> list[dict[str, Any]]:
        """Every query with its state and its rates."""
        with self._registry() as registry:
            rates = self._rates(registry)
            return [self._summary(one, rates) for one in registry.records()]

    def show(self, name: str) -> dict[str, Any]:
        """One query: definition, plan, shared work, and figures of its last batches."""
        with self._registry() as registry:
            record, state = registry.get(name), registry.state()
            shown = self._summary(record, self._rates(registry))
            version = self._version(state)
            if version is not None and name in version.entries and version.entries[name].id == record.id:
                shown["plan"] = sharing.plan_of(version, name)
                shown["state"] |= sharing.state_of(version, name, state, EventClock.of(self.settings))
            shown["batches"] = self._batches(registry, record)
            return shown

    def explain(self, name: str) -> dict[str, Any]:
        """The plan, in words and numbers, and the decisions that led to it."""
        with self._registry() as registry:
            record = registry.get(name)
            version = self._version(registry.state())
            subjects, plan = [name, "plan"], None
            if version is not None and name in version.entries:
                plan = sharing.plan_of(version, name)
                subjects += [one["edge"] for one in plan["joins"]]
            log = registry.logged(subjects, _LOGGED)
            decisions = [{**one, "at": one["at"].isoformat()} for one in log]
            return {"name": name, "sql": record.sql, "plan": plan, "decisions": decisions}

    def rows(self, name: str, limit: int = 20, *, by_batch: bool = False) -> dict[str, Any]:
        """The newest rows; aggregates are added up over all batches unless `by_batch`."""
        with self._registry() as registry:
            record = registry.get(name)
        query, folder = self._readable(record), self._folder(record)
        if not (folder / "_delta_log").exists():
            columns = [] if query is None else [each.name for each in query.outputs]
            return {"name": name, "columns": columns, "rows": [], "total": 0}
        newest, many = answers(name, query, folder, limit, by_batch=by_batch)
        return {"name": name, "columns": newest.column_names, "rows": _plain(newest), "total": many}

    def _rates(self, registry: QueryRegistry) -> dict[str, dict[str, float]]:
        """Rows, and rows per second, over the last batches, by query."""
        records = StreamLedger(registry.connection).history(RATED_BATCHES)
        decided = [one for one in records if one.decision is not None]
        if not decided:
            return {}
        span = max(1.0, (decided[-1].started_at - decided[0].started_at).total_seconds())
        found: dict[str, dict[str, float]] = {}
        for one in decided:
            for name, rows in one.decided.queries.get("rows", {}).items():
                rate = found.setdefault(name, {"rows": 0, "rows_per_s": 0.0})
                rate["rows"] += rows
                rate["rows_per_s"] = round(rate["rows"] / span, 3)
        return found

    def _batches(self, registry: QueryRegistry, record: Record) -> list[dict[str, Any]]:
        found = []
        for one in StreamLedger(registry.connection).history(RATED_BATCHES):
            if one.decision is None or record.created_batch is None or one.batch < record.created_batch:
                continue
            figures = one.decision.queries
            found.append({"batch": one.batch, "rows": figures.get("rows", {}).get(record.name, 0),
                          "queries": figures.get("running", 0), "seconds": figures.get("seconds", 0.0)})  # fmt: skip
        return found

    def _summary(self, one: Record, rates: dict[str, dict[str, float]]) -> dict[str, Any]:
        rate = rates.get(one.name, {"rows": 0, "rows_per_s": 0.0})
        moments = {"created_at": one.created_at, "expires_at": one.expires_at}
        return {
            "name": one.name,
            "owner": one.owner,
            "sql": one.sql,
            "within_s": one.within.total_seconds(),
            **{name: moment.astimezone(UTC).isoformat() for name, moment in moments.items()},
            "state": {"name": one.state, "reason": one.reason},
            "since_batch": one.created_batch,
            "deployment_s": one.deployment_s,
            "table": str(self._folder(one)),
            **rate,
        }

    def _folder(self, record: Record) -> Path:
        return Places.of(self.settings).queries / record.folder / RESULTS

    def _readable(self, record: Record) -> Query | None:
        """The compiled query; None if its streams have changed so that it no longer compiles."""
        slots = -(-record.within // limits_of(self.settings).slot)  # the slot length may have changed since
        try:
            return compiled_query(record.name, record.sql, slots, self._streams())
        except QueryRefused:
            return None

    def _version(self, state: QueryState) -> Version | None:
        """The current version, without queries that no longer compile: the next batch suspends them."""
        if state.version is None:
            return None
        store = Places.of(self.settings).store
        try:
            return open_version(store, state.version, self._streams())
        except QueryRefused:
            return open_readable(store, state.version, self._streams())[0]

    def _streams(self) -> tuple[LoggedStream, ...]:
        return catalog(self.settings).streams

    @contextmanager
    def _registry(self) -> Iterator[QueryRegistry]:
        with postgres.connect(self.dsn, autocommit=True) as connection:
            yield QueryRegistry(connection)


def _length(what: str, given: str) -> timedelta:
    found = duration(given)
    if found is None:
        raise LengthRefused(what, given)
    return found


def _plain(table: pa.Table) -> list[dict[str, Any]]:
    """Rows in JSON types; other types as text."""
    columns = {}
    for name in table.column_names:
        column = table[name]
        kind = column.type
        if pa.types.is_decimal(kind) or pa.types.is_temporal(kind):
            column = pc.cast(column, pa.string())
        columns[name] = column
    found: list[dict[str, Any]] = pa.table(columns).to_pylist() if columns else []
    return [{name: _json(value) for name, value in row.items()} for row in found]


def _json(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
