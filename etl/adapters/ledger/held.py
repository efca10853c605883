"""Batches whose audit failed: the person's verdict, and their events that were set aside (ADR 71)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg2.extras import Json

from etl.adapters import postgres
from etl.adapters.ledger.batches import Batches
from etl.adapters.ledger.errors import NotHeld
from etl.adapters.ledger.records import BatchRecord, Decision


class HeldBatches(Batches):
    """Statements about batches that wait for a person, or for the next batch to take them up."""

    def judge(self, batch: int, verdict: Mapping[str, Any]) -> bool:
        """Record a person's verdict on a batch whose audit failed; the first one stands. False when there is one."""
        record = self.get(batch)
        if record.verdict is not None or record.state == "released":
            return False
        if record.state != "held" and not record.aside:
            raise NotHeld(self.pipeline, batch)
        self._execute(postgres.statement("batch_judge"), {"batch": batch, "verdict": Json(dict(verdict))}, rows=1)
        return True

    def hold(self, batch: int, audit: Mapping[str, Any]) -> None:
        """Let a batch wait for a person's verdict: what was said of it cannot be carried out."""
        query = (
            "update etl.batch set state = 'held', audit = %(audit)s, verdict = null "
            "where pipeline = %(pipeline)s and batch = %(batch)s and state in ('decided', 'held')"
        )
        self._execute(query, {"batch": batch, "audit": Json(dict(audit))})

    def unjudged(self) -> list[BatchRecord]:
        """Batches that wait for a person's verdict, oldest first."""
        return self._batches("and verdict is null and (state = 'held' or aside > 0) order by batch")

    def judged_asides(self) -> list[BatchRecord]:
        """Batches with set-aside events and a verdict, oldest first."""
        return self._batches("and verdict is not null and aside > 0 order by batch")

    def asides(self) -> list[BatchRecord]:
        """Batches with set-aside events, with or without a verdict."""
        return self._batches("and aside > 0 order by batch")

    def _change_asides(self, batch: int, decision: Decision) -> None:
        if decision.aside is not None:  # restored from its note
            query = "update etl.batch set aside = %(events)s where pipeline = %(pipeline)s and batch = %(batch)s"
            self._execute(query, {"batch": batch, "events": decision.aside.events})
        query = "update etl.batch set aside = 0 where pipeline = %(pipeline)s and batch = any(%(batches)s)"
        self._execute(query, {"batches": [one.batch for one in decision.taken_up]})
