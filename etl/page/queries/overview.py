"""The current status of every pipeline: freshness, completeness, backlog by cause, overload, stuck batches.

Six statements for all pipelines together, each by an index, and a listing of each landing folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from etl.adapters import postgres
from etl.adapters.ledger import Ledger
from etl.contract.model import Pipeline
from etl.page.queries.batches import BatchRow
from etl.page.queries.reading import rows
from etl.pipeline.inspection.diagnosis import Diagnosis, stuck
from etl.report.figures import counted

RATE_SPAN = timedelta(minutes=10)
HOURS = 24
Tone = Literal["good", "calm", "warn", "bad"]
_WAITS = {
    "master": "for a master row",
    "time": "for a batch with more room",
    "person": "for a person's decision",
}


@dataclass(frozen=True, slots=True)
class Waiting:
    """Waiting events of one cause."""

    cause: str
    events: int
    since: datetime

    @property
    def why(self) -> str:
        return _WAITS.get(self.cause, self.cause)


@dataclass(frozen=True, slots=True)
class Tactic:
    """How the newest batch was joined with one master."""

    master: str
    tactics: Mapping[str, int]  # events, by tactic
    version: int | None
    pages: int
    lookups: int
    front_hits: int
    tuples: int

    @property
    def why(self) -> str:
        """The join's tactics, in words."""
        if not self.tuples:
            return "no event asked for this master"
        if self.front_hits >= self.tuples:
            return f"the front stage answered every one of {counted(self.tuples, 'event', 'events')}"
        read = [
            counted(self.pages, "page", "pages") * bool(self.pages),
            counted(self.lookups, "key", "keys") * bool(self.lookups),
        ]
        rest = " and ".join(filter(None, read)) or "nothing"
        return f"the front stage answered {self.front_hits:,} of {self.tuples:,} events; read for the others: {rest}"


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """The oldest batch that has begun and is not loaded."""

    batch: int
    run_id: str
    state: str
    started_at: datetime
    holder: str


@dataclass(frozen=True, slots=True)
class PipelineNow:
    """The current status of one pipeline."""

    name: str
    deadline: timedelta
    totals: Mapping[str, int] = field(default_factory=dict)
    last: BatchRow | None = None
    audit: Mapping[str, Any] | None = None
    control: Mapping[str, Any] | None = None
    tactics: tuple[Tactic, ...] = ()
    open: OpenBatch | None = None
    backlog: tuple[Waiting, ...] = ()
    rate_per_s: float = 0.0
    stuck: Diagnosis | None = None
    hours: tuple[int, ...] = ()  # lines loaded in each of the last hours, oldest first

    @property
    def has_run(self) -> bool:
        return self.last is not None or self.open is not None

    @property
    def missing(self) -> int:
        """Landed events that are unaccounted for; anything but 0 is a fault."""
        places = ("fact", "quarantine", "duplicates", "backlog_open")
        return self.totals.get("lines", 0) - sum(self.totals.get(place, 0) for place in places)

    @property
    def overloaded(self) -> bool:
        return bool(self.control and self.control.get("overloaded"))

    @property
    def failed_expectations(self) -> list[str]:
        found = (self.audit or {}).get("expectations", [])
        return [str(one["name"]) for one in found if not one["success"]]

    @property
    def standing(self) -> tuple[Tone, str]:
        """The most important problem, or that there is none."""
        if self.missing:
            return "bad", f"{abs(self.missing):,} events are not in exactly one place"
        if self.held:
            return "bad", f"batch {self.held.batch} is held by the audit"
        if self.stuck is not None:
            return "bad", self.stuck.what
        if not self.has_run:
            return "calm", "has not run yet"
        if self.overloaded:
            return "warn", "overloaded: more arrives than one batch serves in time"
        if self.late:
            return "warn", f"the newest batch was later than its deadline of {self.deadline.total_seconds():g} s"
        if self.totals.get("quarantine_open"):
            return "good", "fresh and complete; some refused lines wait for a decision"
        return "good", "fresh and complete"

    @property
    def held(self) -> OpenBatch | None:
        """The batch that waits for a person's decision."""
        return self.open if self.open is not None and self.open.state == "held" else None

    @property
    def late(self) -> bool:
        fresh = None if self.last is None else self.last.fresh_p95_s
        return fresh is not None and fresh > self.deadline.total_seconds()

    def as_json(self) -> dict[str, Any]:
        """The same as JSON, for the page and `frontstage status`."""
        tone, sentence = self.standing
        last, control = self.last, self.control or {}
        return {
            "tone": tone,
            "standing": sentence,
            "remedy": None if self.stuck is None else self.stuck.remedy,
            "totals": dict(self.totals),
            "rate_per_s": self.rate_per_s,
            "lines_by_hour": list(self.hours),
            "freshness_p50_s": None if last is None else last.fresh_p50_s,
            "freshness_p95_s": None if last is None else last.fresh_p95_s,
            "deadline_s": self.deadline.total_seconds(),
            "hit_ratio": None if last is None else last.hit_ratio,
            "overloaded": self.overloaded,
            "waiting": control.get("waiting"),
            "capacity": control.get("capacity"),
            "backlog": [{**asdict(each), "since": each.since.isoformat()} for each in self.backlog],
            "joins": [{**asdict(each), "tactics": dict(each.tactics), "why": each.why} for each in self.tactics],
            "audit": None
            if self.audit is None
            else {"success": self.audit["success"], "failed": self.failed_expectations},
            "last_batch": None if last is None else last.batch,
            "open_batch": None if self.open is None else {"batch": self.open.batch, "state": self.open.state},
        }


def overview(connection: postgres.Connection, pipelines: Sequence[Pipeline], now: datetime) -> list[PipelineNow]:
    """Every pipeline, in the order given."""
    names = [one.name for one in pipelines]
    totals = {row.pop("pipeline"): row for row in rows(connection, "page_totals", pipelines=names)}
    latest = {row["pipeline"]: row for row in rows(connection, "page_latest", pipelines=names)}
    begun = {row.pop("pipeline"): OpenBatch(**row) for row in rows(connection, "page_open", pipelines=names)}
    since = now - RATE_SPAN
    rates = {row["pipeline"]: row["lines"] for row in rows(connection, "page_rates", pipelines=names, since=since)}
    loaded = _by_hour(connection, names, now)
    waiting: dict[str, list[Waiting]] = {}
    for row in rows(connection, "page_backlog", pipelines=names):
        waiting.setdefault(row["pipeline"], []).append(Waiting(row["cause"], int(row["waiting"]), row["since"]))
    return [
        PipelineNow(
            name=one.name,
            deadline=one.deadline,
            totals={name: int(value) for name, value in totals.get(one.name, {}).items()},
            open=begun.get(one.name),
            backlog=tuple(waiting.get(one.name, ())),
            rate_per_s=float(rates.get(one.name, 0)) / RATE_SPAN.total_seconds(),
            stuck=stuck(one, one.stream.source.landing, Ledger(connection, one.name), now),
            hours=loaded.get(one.name, (0,) * HOURS),
            **_newest(latest.get(one.name)),
        )
        for one in pipelines
    ]


def backlog_open(connection: postgres.Connection, pipeline: str) -> int:
    """Events of one pipeline that wait."""
    return next((int(row["backlog_open"]) for row in rows(connection, "page_totals", pipelines=[pipeline])), 0)


def _by_hour(connection: postgres.Connection, names: Sequence[str], now: datetime) -> dict[str, tuple[int, ...]]:
    """Lines loaded in each of the last hours; the last one is the current, incomplete hour."""
    first = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS - 1)
    found: dict[str, list[int]] = {}
    for row in rows(connection, "page_hours", pipelines=list(names), first=first):
        found.setdefault(row["pipeline"], [0] * HOURS)[min(int(row["hour"]), HOURS - 1)] += int(row["lines"])
    return {name: tuple(hours) for name, hours in found.items()}


def _newest(row: dict[str, Any] | None) -> dict[str, Any]:
    if row is None:
        return {}
    tactics = [_tactic(name, join, row["master_versions"]) for name, join in (row["joins"] or {}).items()]
    return {"last": BatchRow.of(row), "audit": row["audit"], "control": row["control"], "tactics": tuple(tactics)}


def _tactic(master: str, join: Mapping[str, Any], versions: Mapping[str, int]) -> Tactic:
    counted = {name: int(join.get(name) or 0) for name in ("pages", "lookups", "front_hits", "tuples")}
    return Tactic(master, join.get("tactics", {}), versions.get(master), **counted)
