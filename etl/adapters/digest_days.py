"""The figures of a digest, from the ledger: four aggregates over the batches of a stretch of time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from etl.adapters import postgres
from etl.adapters.ledger import Ledger

_UNUSUAL = 50


@dataclass(frozen=True, slots=True)
class Stretch:
    """Batches of one pipeline from one moment to another, the latter not included."""

    ledger: Ledger
    since: datetime
    until: datetime

    def days(self) -> list[dict[str, Any]]:
        """What loaded batches did, by day, oldest first."""
        return self._of("digest_days")

    def reasons(self, limit: int) -> list[dict[str, Any]]:
        """Why events were refused, the most frequent reasons first."""
        return self._of("digest_reasons", limit=limit)

    def joins(self) -> list[dict[str, Any]]:
        """How the joins went, by master."""
        return self._of("digest_joins")

    def unusual(self) -> list[dict[str, Any]]:
        """What was not as in the batches before it, newest first: `batch`, `finding`, and `by` whom it was seen."""
        return self._of("digest_unusual", limit=_UNUSUAL)

    def held(self) -> tuple[int, ...]:
        """Batches that the audit holds now, whenever they began."""
        rows = self.ledger._all(
            "select batch from etl.batch where pipeline = %(pipeline)s and state <> 'loaded' and state = 'held'"
        )
        return tuple(int(row["batch"]) for row in rows)

    def _of(self, statement: str, **values: Any) -> list[dict[str, Any]]:
        bound = {"since": self.since, "until": self.until, **values}
        return self.ledger._all(postgres.statement(statement), bound)
