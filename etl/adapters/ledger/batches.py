"""One row per batch: its state, its decision and its figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from psycopg2.extras import Json

from etl.adapters import postgres
from etl.adapters.ledger.batch_rows import BatchRows
from etl.adapters.ledger.records import BatchRecord, Decision
from etl.model import BatchState

_FIELDS = tuple(one.name for one in fields(BatchRecord) if one.name != "decision")


class Batches(BatchRows[BatchRecord]):
    """Statements about batches of a pipeline."""

    def _as_record(self, row: Mapping[str, Any]) -> BatchRecord:
        decision = row["decision"]
        return BatchRecord(
            **{name: row[name] for name in _FIELDS},
            decision=None if decision is None else Decision.from_json(decision),
        )

    def oldest_open(self) -> int | None:
        """The number of the oldest batch that has begun and is not loaded."""
        rows = self._all(
            "select min(batch) as batch from etl.batch where pipeline = %(pipeline)s and state <> 'loaded'"
        )
        return None if rows[0]["batch"] is None else int(rows[0]["batch"])

    def last_decided(self) -> BatchRecord | None:
        """The newest batch with a decision."""
        return self._batch("and decided_at is not null order by batch desc limit 1")

    def oldest(self) -> int | None:
        """The oldest batch in the ledger; retention removes earlier ones."""
        rows = self._all("select min(batch) as batch from etl.batch where pipeline = %(pipeline)s")
        return None if rows[0]["batch"] is None else int(rows[0]["batch"])

    def first_batch_with(self, mart_table: str) -> int | None:
        """The first batch that was decided with rows for a mart table: a table may be declared later.

        0 when the oldest batch in the ledger has it: removed batches had it too.
        """
        (row,) = self._all(
            "select min(batch) filter (where decision -> 'mart' ? %(table)s) as first, "
            "min(batch) filter (where (counts ->> 'accepted')::bigint > 0) as oldest "
            "from etl.batch where pipeline = %(pipeline)s",
            {"table": mart_table},
        )
        if row["first"] is None:
            return None
        return 0 if row["first"] == row["oldest"] else int(row["first"])

    def abandon(self, batch: int) -> None:
        """Delete an undecided batch that turned out to have no input."""
        self._execute(
            "delete from etl.batch where pipeline = %(pipeline)s and batch = %(batch)s and state = 'reading'",
            {"batch": batch},
        )

    def record_audit(self, batch: int, state: BatchState, audit: Mapping[str, Any]) -> None:
        """Record the audit of a decided batch."""
        self._execute(
            "update etl.batch set state = %(state)s, audit = %(audit)s "
            "where pipeline = %(pipeline)s and batch = %(batch)s and state in ('decided', 'held', 'passed')",
            {"batch": batch, "state": state, "audit": Json(dict(audit))},
        )

    def record_duration(self, batch: int, step: str, seconds: float) -> None:
        """Record how long a step of the batch took."""
        self._execute(
            "update etl.batch set seconds = seconds || %(seconds)s where pipeline = %(pipeline)s and batch = %(batch)s",
            {"batch": batch, "seconds": Json({step: round(seconds, 3)})},
        )

    def record_joins(self, batch: int, joins: Mapping[str, Any]) -> None:
        """Record the join metrics of a batch, by master."""
        self._execute(
            "update etl.batch set joins = %(joins)s where pipeline = %(pipeline)s and batch = %(batch)s",
            {"batch": batch, "joins": Json(dict(joins))},
        )

    def load(
        self, batch: int, loaded_at: datetime, freshness: Mapping[str, float] | None, tables: Iterable[str]
    ) -> None:
        """Inside the mart's transaction: mark the batch as loaded, update totals and published tables."""
        values = {
            "batch": batch,
            "loaded_at": loaded_at,
            "freshness": None if freshness is None else Json(dict(freshness)),
            "published": Json(dict.fromkeys(tables, batch)),
        }
        self._execute(postgres.statement("batch_load"), values, rows=1)

    def forget(self, before: datetime, here: Sequence[bytes], keep: int) -> int:
        """Delete batches loaded before a time, except the newest `keep` and those that read a file in `here`."""
        values = {"before": before, "here": list(here), "keep": keep}
        return self._execute(postgres.statement("batch_forget"), values)
