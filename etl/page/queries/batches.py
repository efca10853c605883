"""Batches of one pipeline: a list, a single one, the one that a run began."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from etl.adapters import postgres
from etl.page.queries.reading import rows

PAGE_SIZE = 50
_NEWEST = 2**62


@dataclass(frozen=True, slots=True)
class BatchRow:
    """One line of a list of batches. Figures are None before the batch is decided, and where it has none."""

    batch: int
    run_id: str
    state: str
    started_at: datetime
    decided_at: datetime | None
    loaded_at: datetime | None
    lines: int | None
    accepted: int | None
    quarantined: int | None
    duplicates: int | None
    backlog_added: int | None
    backlog_resolved: int | None
    shed: int | None
    probes: int | None
    hits: int | None
    pairs: int | None
    late: int | None
    took_s: float | None
    fresh_p50_s: float | None
    fresh_p95_s: float | None

    @property
    def hit_ratio(self) -> float | None:
        """Probes that the front stage answered."""
        return min(1.0, (self.hits or 0) / self.probes) if self.probes else None

    @classmethod
    def of(cls, row: dict[str, Any]) -> BatchRow:
        return cls(**{one.name: row[one.name] for one in fields(cls)})


def newest(
    connection: postgres.Connection, pipeline: str, before: int | None = None, limit: int = PAGE_SIZE
) -> list[BatchRow]:
    """Batches before a number, newest first."""
    values = {"pipeline": pipeline, "before": _NEWEST if before is None else before, "limit": limit}
    return [BatchRow.of(row) for row in rows(connection, "page_batches", **values)]


def of_run(connection: postgres.Connection, pipeline: str, run_id: str) -> int | None:
    """The batch that a run of Airflow began."""
    found = rows(connection, "page_run", pipeline=pipeline, run_id=run_id)
    return int(found[0]["batch"]) if found else None
