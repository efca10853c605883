"""Queries by name: who owns them, until when, how many are allowed. Plain values, stored elsewhere.

    create ──► running ──► deleted            by its owner, or when it expires
                 │  ▲
                 ▼  │
               suspended                      its sink failed; the reason is kept, the others go on

A registry never changes: every request gives a new one, or an error that names what was wrong. So nothing is
half-created.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from etl.correlate.adhoc.errors import NameInUse, NameRefused, NotTheOwner, QuotaExceeded, UnknownQuery, WindowRefused
from etl.correlate.adhoc.query.model import Query, Stream
from etl.correlate.adhoc.query.parse import parse_query

State = Literal["running", "suspended"]
NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class Limits:
    """What the service allows."""

    slot: timedelta = timedelta(seconds=10)
    retention: timedelta = timedelta(hours=1)
    queries: int = 1000
    queries_per_owner: int = 100
    longest_life: timedelta = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Record:
    """One query as it was asked for."""

    name: str
    sql: str
    within: timedelta
    owner: str
    created_at: datetime
    expires_at: datetime
    state: State = "running"
    reason: str = ""  # why it is suspended

    def as_data(self) -> dict[str, Any]:
        """JSON types only."""
        times = {"created_at": self.created_at.isoformat(), "expires_at": self.expires_at.isoformat()}
        words = {"name": self.name, "sql": self.sql, "owner": self.owner, "state": self.state, "reason": self.reason}
        return {**words, **times, "within_s": self.within.total_seconds()}

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> Record:
        state: State = "suspended" if data["state"] == "suspended" else "running"
        made, ends = (datetime.fromisoformat(data[key]) for key in ("created_at", "expires_at"))
        within = timedelta(seconds=float(data["within_s"]))
        return Record(data["name"], data["sql"], within, data["owner"], made, ends, state, data["reason"])


def window_slots(name: str, within: timedelta, limits: Limits) -> int:
    """A window in slots; refused where it is none, not whole, or longer than what is retained."""
    if within <= timedelta(0) or within % limits.slot:
        raise WindowRefused(name, str(within), f"is not a whole number of slots of {limits.slot}")
    if within > limits.retention:
        raise WindowRefused(name, str(within), f"is longer than the {limits.retention} for which tuples are retained")
    return within // limits.slot


@dataclass(frozen=True, slots=True)
class Registry:
    records: Mapping[str, Record] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records.values())

    def create(
        self, name: str, sql: str, within: timedelta, owner: str, now: datetime, streams: Mapping[str, Stream],
        life: timedelta | None = None,
    ) -> tuple[Registry, Query]:  # fmt: skip
        """A new query, or a refusal."""
        if not NAME.fullmatch(name):
            raise NameRefused(name)
        if name in self.records:
            raise NameInUse(name, self.records[name].owner)
        window = window_slots(name, within, self.limits)
        query = parse_query(name, sql, window, streams)
        self._check_quotas(name, owner)
        expires = now + min(life or self.limits.longest_life, self.limits.longest_life)
        record = Record(name, sql, within, owner, now, expires)
        return replace(self, records={**self.records, name: record}), query

    def _check_quotas(self, name: str, owner: str) -> None:
        if len(self.records) >= self.limits.queries:
            raise QuotaExceeded(name, "all queries", len(self.records), self.limits.queries)
        mine = sum(1 for record in self if record.owner == owner)
        if mine >= self.limits.queries_per_owner:
            raise QuotaExceeded(name, f"{owner}'s queries", mine, self.limits.queries_per_owner)

    def delete(self, name: str, by: str, *, admin: bool = False) -> Registry:
        record = self._known(name)
        if record.owner != by and not admin:
            raise NotTheOwner(name, record.owner, by)
        return self._without({name})

    def suspend(self, name: str, reason: str) -> Registry:
        """Its sink failed: it stays known, with the reason, and does not run."""
        return self._with(replace(self._known(name), state="suspended", reason=reason))

    def resume(self, name: str) -> Registry:
        return self._with(replace(self._known(name), state="running", reason=""))

    def expired(self, now: datetime) -> list[str]:
        return [record.name for record in self if record.expires_at <= now]

    def without_expired(self, now: datetime) -> Registry:
        return self._without(set(self.expired(now)))

    def query(self, name: str, streams: Mapping[str, Stream]) -> Query:
        """A recorded query, read again."""
        record = self._known(name)
        return parse_query(name, record.sql, window_slots(name, record.within, self.limits), streams)

    def _known(self, name: str) -> Record:
        if name not in self.records:
            raise UnknownQuery(name)
        return self.records[name]

    def _with(self, record: Record) -> Registry:
        return replace(self, records={**self.records, record.name: record})

    def _without(self, names: set[str]) -> Registry:
        return replace(self, records={name: each for name, each in self.records.items() if name not in names})
