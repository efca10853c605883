"""The ledger of correlations in Postgres: input, decision and state of every micro-batch.

It is the pipelines' ledger (`etl.adapters.ledger`) under the name `correlations`: the same batches, slices, lock and
epoch. A landed file is named `<stream>/<file>` there. In addition: segments, correlations, and the runs of their state.

    decide   ONE commit: slices, segments, runs added and removed, watermarks, routers, files, figures
    load     in the transaction of the aggregates: the batch is loaded
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields, replace
from datetime import datetime
from typing import Any

from psycopg2.extras import Json

from etl.adapters import postgres
from etl.adapters.landing import Consumed, Slice
from etl.adapters.ledger import Ledger, Writer
from etl.adapters.ledger.batch_rows import BatchRows
from etl.errors import TerminalError
from etl.model import BatchState
from etl.streams.adhoc.registry import EvolvedQueries, QueryRegistry
from etl.streams.decision import Decision, Evolved
from etl.streams.documents.evolve import EvolvedDocuments
from etl.streams.documents.state import KIND as DOCUMENTS
from etl.streams.documents.state import DocumentState
from etl.streams.inspection.shut_input import ShutInput, consumed_of
from etl.streams.state.state_files import StateRun
from etl.streams.storage.log import Segment
from etl.streams.tasks.plan import CorrelationState

NAME = "correlations"
AnyEvolved = Evolved | EvolvedDocuments


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One micro-batch in the ledger."""

    batch: int
    run_id: str
    state: BatchState
    started_at: datetime
    decided_at: datetime | None
    loaded_at: datetime | None
    decision: Decision | None
    seconds: Mapping[str, float]
    control: Mapping[str, Any] | None = None  # `shut`: by stream, input that could not be read when it began

    @property
    def decided(self) -> Decision:
        if self.decision is None:
            raise TerminalError(f"batch {self.batch} of correlations is not decided yet")
        return self.decision


@dataclass(frozen=True, slots=True)
class KnownCorrelation:
    """A correlation that has run: its declaration and its state."""

    declared: Mapping[str, Any]
    state: CorrelationState


@dataclass(frozen=True, slots=True)
class KnownDocuments:
    """A correlation of documents that has run."""

    declared: Mapping[str, Any]
    state: DocumentState


_FIELDS = tuple(one.name for one in fields(BatchRecord) if one.name != "decision")


class StreamLedger(BatchRows[BatchRecord]):
    """Statements about correlations, on a connection that the caller owns."""

    listed_by = "`frontstage correlate status` tells the last one"

    def __init__(self, connection: postgres.Connection) -> None:
        super().__init__(connection, NAME)
        self.book = Ledger(connection, NAME)

    # ── batches ────────────────────────────────────────────────────────────────────────────────────────────────

    def _as_record(self, row: Mapping[str, Any]) -> BatchRecord:
        decision = row["decision"]
        return BatchRecord(
            **{name: row[name] for name in _FIELDS},
            decision=None if decision is None else Decision.from_json(decision),
        )

    def fix(
        self,
        batch: int,
        run_id: str,
        now: datetime,
        slices: Mapping[str, Sequence[Slice]],
        shut: Sequence[ShutInput] = (),
    ) -> None:
        """Fix the input of a batch, by stream, before it is read. `shut`: what could not be read."""
        named = [_named(one, stream) for stream, many in slices.items() for one in many]
        self.book.fix(batch, run_id, now, named, {"shut": {one.stream: one.as_json() for one in shut}})

    def slices(self, batch: int) -> dict[str, list[Slice]]:
        """The slices of a batch, by stream."""
        found: dict[str, list[Slice]] = {}
        for one in self.book.slices(batch):
            stream, _, name = one.file.name.partition(b"/")
            found.setdefault(os.fsdecode(stream), []).append(replace(one, file=replace(one.file, name=name)))
        return found

    def consumed(self, stream: str, names: Sequence[bytes]) -> dict[bytes, Consumed]:
        """What batches have consumed of a stream's files that are still in the landing folder."""
        return consumed_of(self.book, stream, names)

    def put_away(self, stream: str, names: Sequence[bytes]) -> None:
        """Record that files have left a stream's landing folder."""
        self.book.put_away([stream.encode() + b"/" + name for name in names])

    def record_duration(self, batch: int, step: str, seconds: float) -> None:
        self.book.record_duration(batch, step, seconds)

    # ── the log and the state ──────────────────────────────────────────────────────────────────────────────────

    def segment_numbers(self, count: int) -> list[int]:
        """Draw unused segment numbers."""
        rows = self._all(
            "select nextval('etl.segment_number') as number from generate_series(1, %(count)s)", {"count": count}
        )
        return sorted(int(row["number"]) for row in rows)

    def segments(self) -> list[Segment]:
        """The current segments, oldest first."""
        rows = self._all("select stream, number, rows, bytes, earliest, latest from etl.segment order by number")
        return [Segment(**row) for row in rows]

    def segments_by_batch(self, since: int) -> dict[int, list[Segment]]:
        """The current segments from batch `since` on, by batch."""
        found: dict[int, list[Segment]] = {}
        for row in self._all(
            "select stream, number, rows, bytes, earliest, latest, batch from etl.segment "
            "where batch >= %(since)s order by batch, number",
            {"since": since},
        ):
            found.setdefault(row.pop("batch"), []).append(Segment(**row))
        return found

    def forget_segments(self, numbers: Sequence[int], epoch: int) -> None:
        """Delete segments that are no longer in use."""
        with self.transaction():
            self.book.fence(epoch)
            self._execute("delete from etl.segment where number = any(%(numbers)s)", {"numbers": list(numbers)})

    def known(self) -> dict[str, KnownCorrelation]:
        """Every correlation of SQL that has run, with its state as of the last decision."""
        return {
            name: KnownCorrelation(declared, CorrelationState.from_json(since, state, runs))
            for name, declared, since, state, runs in self._known()
            if state.get("kind") != DOCUMENTS
        }

    def known_documents(self) -> dict[str, KnownDocuments]:
        """Every correlation of documents that has run."""
        return {
            name: KnownDocuments(declared, DocumentState.from_json(since, state, runs))
            for name, declared, since, state, runs in self._known()
            if state.get("kind") == DOCUMENTS
        }

    def _known(self) -> Iterator[tuple[str, Mapping[str, Any], int, Mapping[str, Any], tuple[StateRun, ...]]]:
        runs: dict[str, list[StateRun]] = {}
        for row in self._all(
            "select correlation, step, unit, side, period, name, tuples, bytes, earliest, latest "
            "from etl.state_run order by name"
        ):
            runs.setdefault(row.pop("correlation"), []).append(StateRun(**row))
        for row in self._all("select name, declared, since, state from etl.correlation order by name"):
            name = row["name"]
            yield name, row["declared"], row["since"], row["state"], tuple(runs.get(name, ()))

    def snapshot(self) -> dict[str, dict[str, Any]]:
        """Every correlation with its state and runs, as plain values."""
        return {
            name: {"declared": declared, "since": since, "state": state, "runs": [asdict(run) for run in runs]}
            for name, declared, since, state, runs in self._known()
        }

    def forget_correlation(self, name: str, epoch: int) -> None:
        """Reset a correlation: delete its state, keep its tables."""
        with self.transaction():
            self.book.fence(epoch)
            self._execute("delete from etl.correlation where name = %(name)s", {"name": name})

    # ── the decision ───────────────────────────────────────────────────────────────────────────────────────────

    def decide(
        self,
        batch: int,
        decided_at: datetime,
        decision: Decision,
        evolved: Mapping[str, AnyEvolved],
        epoch: int,
        queries: EvolvedQueries | None = None,
    ) -> None:
        """ONE commit: the decision of a batch. Fails without effect when another writer has taken over.

        A correlation that did not take part in the batch has missed it for good, so its state is deleted.
        """
        values = {"batch": batch, "decided_at": decided_at, "decision": Json(decision.as_json())}
        with self.transaction():
            self.book.fence(epoch)
            self._execute(
                postgres.statement("batch_decide"), {**values, "counts": Json({}), "versions": Json({})}, rows=1
            )
            self._insert(postgres.statement("input_read"), [(NAME, batch, *one) for one in decision.slices])
            segments = [(*astuple(one), batch) for one in decision.segments]
            self._insert(postgres.statement("segment_add"), segments)
            self._execute("delete from etl.correlation where name <> all(%(names)s)", {"names": list(evolved)})
            for name, one in evolved.items():
                self._evolve(name, one, batch)
            if queries is not None:
                QueryRegistry(self.connection).evolve(batch, decided_at, queries)

    def restore(self, note: Mapping[str, Any], snapshot: Mapping[str, Mapping[str, Any]], epoch: int) -> None:
        """Restore a batch that this ledger, restored from a backup, lacks; state is as of the newest batch."""
        batch, decision = note["batch"], Decision.from_json(note["decision"])
        started_at, decided_at = (datetime.fromisoformat(note[name]) for name in ("started_at", "decided_at"))
        evolved = {name: _from_snapshot(value) for name, value in snapshot.items()}
        with self.transaction():  # atomic: a batch without its decision would be decided again
            self.book.fix(batch, note["run_id"], started_at, [Slice.from_json(one) for one in note["slices"]])
            self._execute("delete from etl.correlation")
            self.decide(batch, decided_at, decision, evolved, epoch)

    def skip_segment_numbers(self, last: int) -> None:
        """Skip segment numbers up to this one: files have them already."""
        self._all(
            "select setval('etl.segment_number', greatest(last_value, %(last)s)) from etl.segment_number",
            {"last": last},
        )

    def replace_state(self, name: str, evolved: Evolved, epoch: int) -> None:
        """Replace the run files of a correlation by others with the same content."""
        batch = self.last()
        with self.transaction():
            self.book.fence(epoch)
            self._evolve(name, evolved, 0 if batch is None else batch.batch)

    def _evolve(self, name: str, one: AnyEvolved, batch: int) -> None:
        values = {"name": name, "declared": Json(one.declared), "since": one.state.since}
        self._execute(postgres.statement("correlation_evolve"), {**values, "state": Json(one.state.as_json())})
        self._execute(
            "delete from etl.state_run where correlation = %(name)s and name = any(%(removed)s)",
            {"name": name, "removed": list(one.removed)},
        )
        self._insert(postgres.statement("state_run_add"), [(name, *astuple(run), batch) for run in one.added])
        for run in one.moved:
            self._execute(
                "update etl.state_run set unit = %(unit)s where correlation = %(name)s and name = %(run)s",
                {"name": name, "run": run.name, "unit": run.unit},
                rows=1,
            )

    def load(self, batch: int, loaded_at: datetime, tables: Sequence[str]) -> None:
        """Inside the transaction of the aggregates: mark the batch as loaded."""
        self._execute(
            "update etl.batch set state = 'loaded', loaded_at = %(loaded_at)s "
            "where pipeline = %(pipeline)s and batch = %(batch)s and state = 'decided'",
            {"batch": batch, "loaded_at": loaded_at},
            rows=1,
        )
        self._execute(
            "update etl.pipeline set published = published || %(published)s where name = %(pipeline)s",
            {"published": Json(dict.fromkeys(tables, batch))},
        )


@dataclass(frozen=True, slots=True)
class StreamInput:
    """The ledger's record of one stream's archived files."""

    ledger: StreamLedger
    stream: str

    def archived(self, inodes: Sequence[int]) -> list[tuple[bytes, Consumed]]:
        prefix = self.stream.encode() + b"/"
        found = self.ledger.book.archived(inodes)
        return [(name.removeprefix(prefix), known) for name, known in found if name.startswith(prefix)]

    def land_again(self, name: bytes, inode: int, landed_as: bytes) -> None:
        prefix = self.stream.encode() + b"/"
        self.ledger.book.land_again(prefix + name, inode, prefix + landed_as)


def ledger_of(writer: Writer) -> StreamLedger:
    """The ledger of correlations, for the holder of the lock."""
    return StreamLedger(writer.ledger.connection)


def _named(one: Slice, stream: str) -> Slice:
    return replace(one, file=replace(one.file, name=stream.encode() + b"/" + one.file.name))


def _from_snapshot(value: Mapping[str, Any]) -> AnyEvolved:
    """A correlation with all of its runs, as if added by one batch."""
    declared, since, state = value["declared"], value["since"], value["state"]
    runs = tuple(StateRun(**run) for run in value["runs"])
    if state.get("kind") == DOCUMENTS:
        return EvolvedDocuments(declared, DocumentState.from_json(since, state, runs), runs, ())
    return Evolved(declared, CorrelationState.from_json(since, state, runs), runs, ())
