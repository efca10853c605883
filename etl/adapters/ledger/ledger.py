"""The ledger as a whole: the commits that touch several of its tables, and who may make them."""

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
    """Statements about one pipeline, on a connection that somebody else owns."""

    def fix(
        self,
        batch: int,
        run_id: str,
        started_at: datetime,
        slices: Sequence[Slice],
        control: Mapping[str, Any] | None = None,
    ) -> None:
        """Fix what a batch reads, and how much of its masters it may read for that, before anything is read."""
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
        """ONE commit: what became of a batch. Fails without effect when another writer has taken over."""
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
        """Put back a batch that Delta holds and this ledger, restored from a backup, does not."""
        decision = Decision.from_json(note["decision"])
        with self.transaction():  # half of it would be a batch that is decided once more
            self.fix(batch, note["run_id"], datetime.fromisoformat(note["started_at"]), slices)
            self.decide(batch, datetime.fromisoformat(note["decided_at"]), decision, epoch)
            self.record_audit(batch, "passed", RESTORED)

    def replace_claims(self, merged: ClaimRun, runs: Sequence[ClaimRun], epoch: int) -> None:
        """Let one run stand for those it was merged from."""
        with self.transaction():
            self.fence(epoch)
            self._change_claims([merged], runs)

    def retry_waiting(self, begin: datetime, end: datetime, epoch: int) -> tuple[int, int]:
        """Let the next batch look these events up again; gives how many there are."""
        with self.transaction():
            self.fence(epoch)
            self._execute(postgres.statement("waiting_retry"), {"begin": begin, "end": end})
            return self.waiting_since(begin, end)


@dataclass(frozen=True, slots=True)
class Writer:
    """The right to write: valid while its epoch is the newest."""

    epoch: int
    ledger: Ledger = field(repr=False)


@contextmanager
def reading(dsn: str, pipeline: str) -> Iterator[Ledger]:
    """The ledger, for looking only."""
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
