"""The ledger as a whole: commits that span several of its tables, and the writer that may make them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from psycopg2.extras import Json

from etl.adapters import postgres
from etl.adapters.claims import ClaimRun
from etl.adapters.landing import Slice
from etl.adapters.lease import leased
from etl.adapters.ledger.held import HeldBatches
from etl.adapters.ledger.inputs import Inputs
from etl.adapters.ledger.open_events import OpenEvents
from etl.adapters.ledger.pipeline_row import PipelineRow
from etl.adapters.ledger.records import RESTORED, Decision


class Ledger(PipelineRow, HeldBatches, Inputs, OpenEvents):
    """Statements about one pipeline, on a connection that the caller owns."""

    def fix(
        self,
        batch: int,
        run_id: str,
        started_at: datetime,
        slices: Sequence[Slice],
        control: Mapping[str, Any] | None = None,
    ) -> None:
        """Fix the input of a batch, and its limits, before anything is read."""
        values = {
            "batch": batch,
            "run_id": run_id,
            "started_at": started_at,
            "control": None if control is None else Json(dict(control)),
        }
        with self.transaction():
            self._execute(postgres.statement("batch_fix"), values)
            self._insert_slices(batch, slices)

    def decide(self, batch: int, decided_at: datetime, decision: Decision, epoch: int) -> None:
        """ONE commit: the decision of a batch. Fails without effect when another writer has taken over."""
        values = {
            "batch": batch,
            "decided_at": decided_at,
            "decision": Json(decision.as_json()),
            "counts": Json(decision.counts.as_json()),
            "versions": Json(dict(decision.master_versions)),
        }
        with self.transaction():
            self.fence(epoch)
            self._execute(postgres.statement("batch_decide"), values, rows=1)
            self._record_slices(batch, decision.slices)
            self._change_claims(decision.claims, ())
            self._change_backlog(batch, decided_at, decision)
            self._change_unknown(decided_at, decision)
            self._change_asides(batch, decision)

    def set_aside(self, batch: int, decision: Decision, audit: Mapping[str, Any], epoch: int) -> None:
        """Let a batch pass without its accepted events, which wait for a person. One commit."""
        values = {
            "batch": batch,
            "decision": Json(decision.as_json()),
            "counts": Json(decision.counts.as_json()),
            "audit": Json(dict(audit)),
            "events": decision.counts.held,
        }
        with self.transaction():
            self.fence(epoch)
            self._execute(postgres.statement("batch_set_aside"), values, rows=1)
            self._execute(
                "delete from etl.unknown_file where pipeline = %(pipeline)s and path = any(%(paths)s)",
                {"paths": [] if decision.aside is None else [one.path for one in decision.aside.files]},
            )

    def restore(self, batch: int, note: Mapping[str, Any], slices: Sequence[Slice], epoch: int) -> None:
        """Restore a batch that Delta holds and this ledger, restored from a backup, lacks."""
        decision = Decision.from_json(note["decision"])
        with self.transaction():  # atomic: a batch without its decision would be decided again
            self.fix(batch, note["run_id"], datetime.fromisoformat(note["started_at"]), slices)
            self.decide(batch, datetime.fromisoformat(note["decided_at"]), decision, epoch)
            self.record_audit(batch, "passed", RESTORED)

    def replace_claims(self, merged: ClaimRun, runs: Sequence[ClaimRun], epoch: int) -> None:
        """Replace runs by the one they were merged into."""
        with self.transaction():
            self.fence(epoch)
            self._change_claims([merged], runs)

    def retry_waiting(self, begin: datetime, end: datetime, epoch: int) -> tuple[int, int]:
        """Mark events for another lookup by the next batch; returns how many there are."""
        with self.transaction():
            self.fence(epoch)
            self._execute(postgres.statement("waiting_retry"), {"begin": begin, "end": end})
            return self.waiting_since(begin, end)


@dataclass(frozen=True, slots=True)
class Writer:
    """The one writer of a pipeline, valid while its epoch is the newest."""

    epoch: int
    ledger: Ledger = field(repr=False)


@contextmanager
def reading(dsn: str, pipeline: str) -> Iterator[Ledger]:
    """The ledger, read-only."""
    with postgres.connect(dsn, autocommit=True) as connection:
        yield Ledger(connection, pipeline)


@contextmanager
def writing(dsn: str, pipeline: str, holder: str) -> Iterator[Writer]:
    """Become the only writer of a declared pipeline, or raise `Busy` (see `etl.adapters.lease`)."""
    with (
        postgres.connect(dsn, autocommit=True) as connection,
        leased(dsn, connection, pipeline, holder) as lease,
    ):
        yield Writer(lease.epoch, Ledger(connection, pipeline, lease.session))
