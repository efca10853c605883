"""A batch for observability: names and figures, no payload, no secrets."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from etl.adapters.ledger import BatchRecord

ROUTES = ("accepted", "quarantined", "duplicates", "backlog_added")


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """The reported facts of one batch."""

    pipeline: str
    batch: int
    run_id: str
    state: str
    started_at: datetime
    ended_at: datetime
    counts: dict[str, int]
    joins: dict[str, dict[str, int]]
    seconds: dict[str, float]
    freshness: dict[str, float]
    unusual: tuple[str, ...]
    backlog_open: int

    @classmethod
    def of(cls, record: BatchRecord, backlog_open: int, now: datetime) -> BatchFacts:
        counts = record.counts.as_json()
        return cls(
            pipeline=record.pipeline,
            batch=record.batch,
            run_id=record.run_id,
            state=record.state,
            started_at=record.started_at,
            ended_at=record.loaded_at or now,
            counts={name: counts[name] for name in ("lines", *ROUTES, "backlog_resolved", "shed")},
            joins=counts["joins"],
            seconds=dict(record.seconds),
            freshness=dict(record.freshness or {}),
            unusual=tuple(one["check"] for one in (record.audit or {}).get("unusual", ())),
            backlog_open=backlog_open,
        )

    @property
    def hit_ratio(self) -> float | None:
        """Hits per probe over all masters; None when nothing was probed."""
        probes = sum(join["probes"] for join in self.joins.values())
        return sum(join["hits"] for join in self.joins.values()) / probes if probes else None

    def as_line(self) -> dict[str, Any]:
        """The fields of the log line."""
        return {
            "pipeline": self.pipeline,
            "batch": self.batch,
            "run_id": self.run_id,
            "state": self.state,
            **self.counts,
            "hit_ratio": None if self.hit_ratio is None else round(self.hit_ratio, 4),
            "backlog_open": self.backlog_open,
            "seconds": self.seconds,
            "freshness": self.freshness,
            "unusual": list(self.unusual),
        }
