"""The figures of a digest, from the ledger: four aggregates over the batches of a time range."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from etl.adapters import postgres
from etl.adapters.ledger import Ledger

_UNUSUAL = 50


@dataclass(frozen=True, slots=True)
class Stretch:
    """Batches of one pipeline in a time range, end exclusive."""

    ledger: Ledger
    since: datetime
    until: datetime

    def days(self) -> list[dict[str, Any]]:
        """Totals of loaded batches by day, oldest first."""
        return self._of("digest_days")

    def reasons(self, limit: int) -> list[dict[str, Any]]:
        """Reasons of refused events, most frequent first."""
        return self._of("digest_reasons", limit=limit)

    def joins(self) -> list[dict[str, Any]]:
        """Join counters, by master."""
        return self._of("digest_joins")

    def unusual(self) -> list[dict[str, Any]]:
        """Findings of comparisons with earlier batches, newest first: `batch`, `finding`, acknowledged `by`."""
        return self._of("digest_unusual", limit=_UNUSUAL)

    def held(self) -> tuple[int, ...]:
        """Batches that are held now, of any age."""
        rows = self.ledger._all(
            "select batch from etl.batch where pipeline = %(pipeline)s and state <> 'loaded' and state = 'held'"
        )
        return tuple(int(row["batch"]) for row in rows)

    def _of(self, statement: str, **values: Any) -> list[dict[str, Any]]:
        bound = {"since": self.since, "until": self.until, **values}
        return self.ledger._all(postgres.statement(statement), bound)
