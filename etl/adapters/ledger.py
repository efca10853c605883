"""The ledger in Postgres: which batches were staged, passed the gate, were loaded; and who may write.

    writer(dsn, holder) ── advisory lock + rising epoch ──▶ Writer ── commits only under the epoch it began with

One row per batch carries its state and its figures, so a run can be resumed, reported and counted without reading
the warehouse again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg2.extras import Json, RealDictCursor, execute_values

from etl.adapters import postgres
from etl.errors import Busy, TerminalError
from etl.ingest.landing import LandedFile
from etl.model import BatchCounts, BatchId, BatchState

_WRITER_LOCK = 0x46_53_57_52
_FILES = "select name, size, modified_ns from etl.landed_file"


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One batch as the ledger knows it."""

    batch: BatchId
    run_id: str
    state: BatchState
    started_at: datetime
    loaded_at: datetime | None
    counts: BatchCounts
    master_versions: dict[str, int]
    seconds: dict[str, float]
    gate: dict[str, Any] | None
    freshness: dict[str, float] | None
    engine: dict[str, Any]


class Ledger:
    """Statements on `etl.batch` and its neighbours, on a connection that somebody else owns."""

    def __init__(self, connection: postgres.Connection) -> None:
        self.connection = connection

    def sequence_base(self, checkpoint_id: str) -> int:
        """Where the batches of this checkpoint start counting; settled at its first sight."""
        return int(self._one("checkpoint_base", {"checkpoint_id": checkpoint_id})["base"])

    def pending(self) -> BatchRecord | None:
        """The oldest batch that is staged but not loaded."""
        return self._record("where state <> 'loaded' order by batch limit 1")

    def last(self) -> BatchRecord | None:
        """The newest batch."""
        return self._record("order by batch desc limit 1")

    def get(self, batch: BatchId) -> BatchRecord:
        """One batch, which must exist."""
        record = self._record("where batch = %(batch)s", {"batch": batch.number})
        if record is None:
            raise TerminalError(f"batch {batch} is not in the ledger; `frontstage status` lists the batches")
        return record

    def history(self, limit: int) -> list[BatchRecord]:
        """The newest batches, oldest first."""
        rows = self._all("select * from etl.batch order by batch desc limit %(limit)s", {"limit": limit})
        return [_record(row) for row in reversed(rows)]

    def staged(
        self, batch: BatchId, run_id: str, started_at: datetime, counts: BatchCounts, versions: dict[str, int]
    ) -> None:
        """Note that staging holds the batch. Noting it again changes nothing."""
        self._execute(
            postgres.statement("batch_staged"),
            {
                "batch": batch.number,
                "run_id": run_id,
                "started_at": started_at,
                "counts": Json(counts.as_json()),
                "versions": Json(versions),
            },
        )

    def gated(self, batch: BatchId, state: BatchState, gate: dict[str, Any]) -> None:
        """Note what the gate said."""
        self._execute(
            "update etl.batch set state = %(state)s, gate = %(gate)s where batch = %(batch)s and state <> 'loaded'",
            {"batch": batch.number, "state": state, "gate": Json(gate)},
        )

    def release(self, batch: BatchId) -> None:
        """Let a held batch pass, on a person's word."""
        state = self.get(batch).state
        if state in ("released", "loaded"):  # a retried task says it again
            return
        if state != "held":
            raise TerminalError(f"batch {batch} is not held, so there is nothing to release")
        self._execute("update etl.batch set state = 'released' where batch = %(batch)s", {"batch": batch.number})

    def took(self, batch: BatchId, step: str, seconds: float) -> None:
        """Note how long a step of the batch took."""
        self._execute(
            "update etl.batch set seconds = seconds || %(seconds)s where batch = %(batch)s",
            {"batch": batch.number, "seconds": Json({step: round(seconds, 3)})},
        )

    def totals(self) -> dict[str, int]:
        """Sums over all loaded batches, and what is open now."""
        return {name: int(value) for name, value in self._one("totals").items()}

    def freshness(self) -> dict[str, float | None]:
        """How old orders were when they became visible, in seconds, over everything in the mart."""
        return {name: None if value is None else float(value) for name, value in self._one("freshness").items()}

    def waiting(self) -> list[int]:
        """Numbers of the batches that still have orders in the backlog."""
        rows = self._all("select distinct batch from etl.order_claim where route = 'backlog' order by batch")
        return [row["batch"] for row in rows]

    def waiting_since(self) -> datetime:
        """When the longest-waiting order of the backlog was first decided; now, when none waits."""
        since: datetime = self._one("waiting_since")["since"]
        return since

    def shed(self) -> bool:
        """Whether orders wait only because a batch had no room for them."""
        (row,) = self._all(
            "select exists(select from etl.order_claim where route = 'backlog' and reason = 'shed') as any"
        )
        return bool(row["any"])

    def fared(self, batch: BatchId, engine: dict[str, Any]) -> None:
        """Note how the joins of a batch fared, by master."""
        self._execute(
            "update etl.batch set engine = %(engine)s where batch = %(batch)s",
            {"batch": batch.number, "engine": Json(engine)},
        )

    def note_files(self, batch: BatchId, files: Iterable[LandedFile]) -> None:
        """Note which files a batch was read from."""
        rows = [(file.name, file.size, file.modified_ns, batch.number) for file in files]
        if rows:
            with self.connection.cursor() as cursor:
                execute_values(cursor, postgres.statement("files_landed"), rows)

    def files_of(self, batch: BatchId) -> list[LandedFile]:
        """The files a batch was read from."""
        return _files(self._all(f"{_FILES} where batch = %(batch)s", {"batch": batch.number}))

    def files_named(self, names: Iterable[str]) -> list[LandedFile]:
        """Those of these names that were read before."""
        return _files(self._all(f"{_FILES} where name = any(%(names)s)", {"names": list(names)}))

    def _record(self, tail: str, values: dict[str, Any] | None = None) -> BatchRecord | None:
        rows = self._all(f"select * from etl.batch {tail}", values)  # noqa: S608 - tails are literals of this module
        return _record(rows[0]) if rows else None

    def _one(self, name: str, values: dict[str, Any] | None = None) -> dict[str, Any]:
        return self._all(postgres.statement(name), values)[0]

    def _all(self, query: str, values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        with self.connection.cursor(cursor_factory=RealDictCursor) as cursor:
            cursor.execute(query, values)
            return [dict(row) for row in cursor.fetchall()]

    def _execute(self, query: str, values: dict[str, Any]) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(query, values)


@dataclass(frozen=True, slots=True)
class Writer:
    """The right to write: valid while its epoch is the newest."""

    epoch: int
    ledger: Ledger


@contextmanager
def reading(dsn: str) -> Iterator[Ledger]:
    """The ledger, for looking only."""
    with postgres.connect(dsn, autocommit=True) as connection:
        yield Ledger(connection)


@contextmanager
def writing(dsn: str, holder: str) -> Iterator[Writer]:
    """Become the only writer, or raise `Busy`. The lock goes with the connection, whatever happens to us."""
    with postgres.connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("select pg_try_advisory_lock(%s)", (_WRITER_LOCK,))
        (granted,) = cursor.fetchone() or (False,)
        if not granted:
            cursor.execute("select holder from etl.writer")
            (other,) = cursor.fetchone() or ("somebody",)
            raise Busy(other)
        cursor.execute("update etl.writer set epoch = epoch + 1, holder = %s returning epoch", (holder,))
        (epoch,) = cursor.fetchone() or (0,)
        try:
            yield Writer(epoch, Ledger(connection))
        finally:
            # Closing alone frees the lock too, but a moment later than we return.
            if not connection.closed:
                cursor.execute("select pg_advisory_unlock(%s)", (_WRITER_LOCK,))


def _files(rows: list[dict[str, Any]]) -> list[LandedFile]:
    return [LandedFile(**row) for row in rows]


def _record(row: dict[str, Any]) -> BatchRecord:
    return BatchRecord(
        batch=BatchId.of(row["batch"]),
        run_id=row["run_id"],
        state=row["state"],
        started_at=row["started_at"],
        loaded_at=row["loaded_at"],
        counts=BatchCounts.from_json(row["counts"]),
        master_versions=row["master_versions"],
        seconds=row["seconds"],
        gate=row["gate"],
        freshness=row["freshness"],
        engine=row["engine"],
    )
