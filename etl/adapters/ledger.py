"""The ledger in Postgres: what every batch reads, what became of it, how far it is; and who may write.

    writing(dsn, pipeline, holder) ── advisory lock + rising epoch ──▶ Writer ── commits only under its own epoch

    fix      the slices of landed files that a batch reads                     state reading
    decide   ONE commit: files, counts, master versions, claims, backlog       state decided
    record…  what the audit said, how long a step took
    load     in the mart's transaction: totals, published tables               state loaded

There is no second memory of progress. One row per batch carries its state and figures, so a run can be resumed,
reported and counted without reading the warehouse again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any, Literal

from psycopg2.extras import Json, execute_values

from etl.adapters import postgres
from etl.adapters.claims import ClaimRun
from etl.adapters.landing import Consumed, LandedFile, Slice
from etl.adapters.lease import LOCK, PooledSession, leased
from etl.adapters.postgres.statements import Statements
from etl.errors import TerminalError
from etl.model import BatchCounts, BatchState

Cause = Literal["master", "time", "correction"]
"""What events are read again for: a master row that has not come, a batch with more room, or the row of an unknown
member with which they are in the fact meanwhile."""

RESTORED: Mapping[str, Any] = {"success": True, "expectations": [], "restored": True}
"""The verdict on a batch that Delta holds already: it has passed its audit, and what that said is lost."""


class Fenced(TerminalError):
    """Another writer has taken over; what this one still holds in its hands is void."""

    def __init__(self, pipeline: str, holder: str) -> None:
        super().__init__(pipeline, holder)
        self.pipeline, self.holder = pipeline, holder

    def __str__(self) -> str:
        return (
            f"pipeline {self.pipeline} is written by {self.holder} now; this run was too slow and has changed nothing"
        )


class NotHeld(TerminalError):
    """A word about a batch that does not wait for one."""

    def __init__(self, pipeline: str, batch: int) -> None:
        super().__init__(pipeline, batch)
        self.pipeline, self.batch = pipeline, batch

    def __str__(self) -> str:
        return (
            f"batch {self.batch} of {self.pipeline} is not held, so there is nothing to release or reject; "
            "`frontstage held list` shows those that wait for a decision"
        )


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of one table, as its Delta log will name it."""

    table: str
    path: str  # relative to the table's folder
    rows: int
    bytes: int
    stats: str  # JSON, as Delta defines it
    cause: Cause | None = None  # of a backlog file: what its events wait for


@dataclass(frozen=True, slots=True)
class Aside:
    """Accepted events of a batch whose audit failed: they wait for a person, as facts and as refused lines."""

    events: int
    files: tuple[DataFile, ...]  # of the fact table
    mart: Mapping[str, tuple[str, ...]]
    refused: DataFile

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Aside:
        files = tuple(DataFile(**one) for one in value["files"])
        mart = {table: tuple(names) for table, names in value["mart"].items()}
        return cls(value["events"], files, mart, DataFile(**value["refused"]))


@dataclass(frozen=True, slots=True)
class TakenUp:
    """Events of an earlier batch that a person has decided about, now part of this one."""

    batch: int
    word: Literal["released", "rejected"]
    events: int
    files: tuple[str, ...] = ()  # of the fact table, by path
    mart: tuple[str, ...] = ()  # tables that get rows of them


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of a batch: all that publishing needs, and nothing that has to be computed again."""

    files: tuple[DataFile, ...]
    counts: BatchCounts
    master_versions: Mapping[str, int]
    claims: tuple[ClaimRun, ...]
    slices: tuple[tuple[int, str, int], ...]  # ordinal, digest, lines
    resolved: Mapping[str, int]  # by backlog file, events that wait no longer
    deferred: Mapping[str, int]  # by backlog file that was tried again, events for which there was no time
    mart: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by mart table, files of its rows
    replaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by mart table, rows for earlier ones
    corrected: Mapping[str, int] = field(default_factory=dict)  # by file of unknown members, events that have theirs
    aside: Aside | None = None
    taken_up: tuple[TakenUp, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "counts": self.counts.as_json()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Decision:
        return cls(
            files=tuple(DataFile(**one) for one in value["files"]),
            counts=BatchCounts.from_json(value["counts"]),
            master_versions=value["master_versions"],
            claims=tuple(ClaimRun(**one) for one in value["claims"]),
            slices=tuple((ordinal, digest, lines) for ordinal, digest, lines in value["slices"]),
            resolved=value["resolved"],
            deferred=value["deferred"],
            mart={table: tuple(names) for table, names in value["mart"].items()},
            replaced={table: tuple(names) for table, names in value.get("replaced", {}).items()},
            corrected=value.get("corrected", {}),
            aside=Aside.from_json(value["aside"]) if value.get("aside") else None,
            taken_up=tuple(
                TakenUp(**{**one, "files": tuple(one["files"]), "mart": tuple(one["mart"])})
                for one in value.get("taken_up", ())
            ),
        )

    @property
    def released_files(self) -> frozenset[str]:
        """Files of events that were held before."""
        return frozenset(path for one in self.taken_up for path in one.files)

    def of_table(self, table: str) -> tuple[DataFile, ...]:
        return tuple(file for file in self.files if file.table == table)


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One batch as the ledger knows it."""

    pipeline: str
    batch: int
    run_id: str
    state: BatchState
    started_at: datetime
    decided_at: datetime | None
    loaded_at: datetime | None
    decision: Decision | None
    master_versions: dict[str, int]
    seconds: dict[str, float]
    joins: dict[str, Any]
    audit: dict[str, Any] | None
    freshness: dict[str, float] | None
    control: dict[str, Any] | None = None  # how much it may take in and read, fixed with its input
    verdict: dict[str, Any] | None = None  # of a person, after its audit failed: word, by, at, note
    aside: int = 0  # events that wait for that, or for the next batch to act on it

    @property
    def counts(self) -> BatchCounts:
        return self.decided.counts

    @property
    def decided(self) -> Decision:
        if self.decision is None:
            raise TerminalError(f"batch {self.batch} of {self.pipeline} is not decided yet")
        return self.decision


@dataclass(frozen=True, slots=True)
class BacklogFile:
    """A file of the backlog with events that still wait."""

    path: str
    batch: int
    waiting: int
    cause: Cause
    since: datetime


class Ledger(Statements):
    """Statements about one pipeline, on a connection that somebody else owns. `session`: who must answer there."""

    def __init__(self, connection: postgres.Connection, pipeline: str, session: int | None = None) -> None:
        super().__init__(connection, pipeline)
        self._session = session

    # ── the pipeline ───────────────────────────────────────────────────────────────────────────────────────────

    def declare(self, declared: Mapping[str, Any]) -> None:
        """Remember what the pipeline is declared as; the caller has checked that it may change."""
        self._execute(postgres.statement("pipeline_declare"), {"declared": Json(declared)})

    def declared(self) -> dict[str, Any] | None:
        """What the pipeline was declared as when it last ran."""
        rows = self._all("select declared from etl.pipeline where name = %(pipeline)s")
        return rows[0]["declared"] if rows else None

    def published(self) -> dict[str, int]:
        """By table, the newest loaded batch that added files to it."""
        rows = self._all("select published from etl.pipeline where name = %(pipeline)s")
        return {table: int(batch) for table, batch in (rows[0]["published"] if rows else {}).items()}

    def is_written(self) -> bool:
        """Whether somebody holds the writer's lock right now."""
        rows = self._all(
            "select exists (select from pg_locks where locktype = 'advisory' and granted and classid = %(lock)s "
            "and objid::bigint = hashtext(%(pipeline)s)::bigint & 4294967295 "
            "and database = (select oid from pg_database where datname = current_database())) as held",
            {"lock": LOCK},
        )
        return bool(rows[0]["held"])

    def master_touched_at(self, table: str) -> datetime | None:
        """When the change log of a master in this database last noted something; None when it has no entry."""
        rows = self._all(
            "select changed_at from master.change_log where table_name = %(table)s order by seq desc limit 1",
            {"table": table},
        )
        return rows[0]["changed_at"] if rows else None

    # ── batches ────────────────────────────────────────────────────────────────────────────────────────────────

    def oldest_unloaded(self) -> BatchRecord | None:
        """The oldest batch that is begun but not loaded."""
        return self._record("where pipeline = %(pipeline)s and state <> 'loaded' order by batch limit 1")

    def oldest_open(self) -> int | None:
        """The number of that batch."""
        rows = self._all(
            "select min(batch) as batch from etl.batch where pipeline = %(pipeline)s and state <> 'loaded'"
        )
        return None if rows[0]["batch"] is None else int(rows[0]["batch"])

    def last(self) -> BatchRecord | None:
        """The newest batch."""
        return self._record("where pipeline = %(pipeline)s order by batch desc limit 1")

    def last_decided(self) -> BatchRecord | None:
        """The newest batch with a decision."""
        return self._record("where pipeline = %(pipeline)s and decided_at is not null order by batch desc limit 1")

    def find(self, batch: int) -> BatchRecord | None:
        """One batch, if it is there."""
        return self._record("where pipeline = %(pipeline)s and batch = %(batch)s", {"batch": batch})

    def get(self, batch: int) -> BatchRecord:
        """One batch, which must exist."""
        record = self.find(batch)
        if record is None:
            raise TerminalError(
                f"batch {batch} of {self.pipeline} is not in the ledger; `frontstage status` lists them"
            )
        return record

    def history(self, limit: int) -> list[BatchRecord]:
        """The newest batches, oldest first."""
        query = "select * from etl.batch where pipeline = %(pipeline)s order by batch desc limit %(limit)s"
        return [_record(row) for row in reversed(self._all(query, {"limit": limit}))]

    def after(self, batch: int) -> list[BatchRecord]:
        """Loaded batches beyond one, in order."""
        query = (
            "select * from etl.batch where pipeline = %(pipeline)s and batch > %(batch)s and state = 'loaded' "
            "order by batch"
        )
        return [_record(row) for row in self._all(query, {"batch": batch})]

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

    def _insert_slices(self, batch: int, slices: Sequence[Slice]) -> None:
        rows = [
            (self.pipeline, batch, one.ordinal, one.file.name, one.file.size, one.file.modified_ns, one.file.inode,
             one.first, one.last)
            for one in slices
        ]  # fmt: skip
        if rows:
            with self.connection.cursor() as cursor:
                execute_values(cursor, postgres.statement("input_slices"), rows)

    def exclude(self, batch: int, ordinals: Iterable[int]) -> None:
        """Leave slices out of a batch that is not decided: their files changed while they were read."""
        self._execute(
            "delete from etl.input_slice where pipeline = %(pipeline)s and batch = %(batch)s "
            "and ordinal = any(%(ordinals)s)",
            {"batch": batch, "ordinals": list(ordinals)},
        )

    def abandon(self, batch: int) -> None:
        """Forget a batch that is not decided and turned out to have nothing to read."""
        self._execute(
            "delete from etl.batch where pipeline = %(pipeline)s and batch = %(batch)s and state = 'reading'",
            {"batch": batch},
        )

    def slices(self, batch: int) -> tuple[Slice, ...]:
        """What a batch reads."""
        query = "select * from etl.input_slice where pipeline = %(pipeline)s and batch = %(batch)s order by ordinal"
        return tuple(_slice(row) for row in self._all(query, {"batch": batch}))

    def all_slices(self) -> list[tuple[int, Slice]]:
        """What every batch that is remembered has read, in the order of reading, with the batch."""
        query = "select * from etl.input_slice where pipeline = %(pipeline)s order by batch, ordinal"
        return [(row["batch"], _slice(row)) for row in self._all(query)]

    def consumed(self, names: Sequence[bytes]) -> dict[bytes, Consumed]:
        """What batches have read of files with these names that are still where they landed."""
        rows = self._all(postgres.statement("input_consumed"), {"names": list(names)})
        return {bytes(row["name"]): _consumed(row) for row in rows}

    def put_away(self, names: Iterable[bytes]) -> None:
        """Note that files have left the landing folder."""
        self._execute(
            "update etl.input_slice set put_away = true where pipeline = %(pipeline)s and not put_away "
            "and name = any(%(names)s)",
            {"names": list(names)},
        )

    def archived(self, inodes: Sequence[int]) -> list[tuple[bytes, Consumed]]:
        """What batches have read of files with these inodes, by the names the files had."""
        rows = self._all(postgres.statement("input_archived"), {"inodes": list(inodes)})
        return [(bytes(row["name"]), _consumed({"size": 0, "modified_ns": 0, **row})) for row in rows]

    def land_again(self, name: bytes, inode: int, landed_as: bytes) -> None:
        """Note that a file is about to go back from the archive to the landing folder."""
        self._execute(
            "update etl.input_slice set put_away = false, name = %(landed_as)s "
            "where pipeline = %(pipeline)s and name = %(name)s and inode = %(inode)s",
            {"name": name, "inode": inode, "landed_as": landed_as},
        )

    # ── retention ──────────────────────────────────────────────────────────────────────────────────────────────

    def forget(self, before: datetime, here: Sequence[bytes], keep: int) -> int:
        """Forget batches loaded before a time, except the newest and those that read a file still here."""
        values = {"before": before, "here": list(here), "keep": keep}
        return self._execute(postgres.statement("batch_forget"), values)

    def oldest(self) -> int | None:
        """The oldest batch that is not forgotten."""
        rows = self._all("select min(batch) as batch from etl.batch where pipeline = %(pipeline)s")
        return None if rows[0]["batch"] is None else int(rows[0]["batch"])

    def archive_removed(self) -> dict[str, int]:
        """By day, how many lines were in archived files that are gone."""
        rows = self._all("select day, lines from etl.archive_removed where pipeline = %(pipeline)s")
        return {row["day"]: int(row["lines"]) for row in rows}

    def remove_archive(self, day: str, lines: int) -> None:
        """Note what is in a day's folder that is about to go."""
        self._execute(
            "insert into etl.archive_removed values (%(pipeline)s, %(day)s, %(lines)s) on conflict do nothing",
            {"day": day, "lines": lines},
        )

    # ── the decision ───────────────────────────────────────────────────────────────────────────────────────────

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

    def _change_unknown(self, decided_at: datetime, decision: Decision) -> None:
        for path, count in decision.corrected.items():
            self._execute(postgres.statement("unknown_corrected"), {"path": path, "count": count}, rows=1)
        self._execute("delete from etl.unknown_file where pipeline = %(pipeline)s and waiting = 0")
        for file in decision.of_table("_unknown"):
            batch = int(file.path.split("-")[2])  # the one that accepted them: what was held comes with a later one
            values = {"path": file.path, "batch": batch, "waiting": file.rows, "since": decided_at}
            self._execute(postgres.statement("unknown_add"), values)

    def _change_asides(self, batch: int, decision: Decision) -> None:
        if decision.aside is not None:  # put back from its note
            query = "update etl.batch set aside = %(events)s where pipeline = %(pipeline)s and batch = %(batch)s"
            self._execute(query, {"batch": batch, "events": decision.aside.events})
        query = "update etl.batch set aside = 0 where pipeline = %(pipeline)s and batch = any(%(batches)s)"
        self._execute(query, {"batches": [one.batch for one in decision.taken_up]})

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

    def _record_slices(self, batch: int, slices: Sequence[tuple[int, str, int]]) -> None:
        rows = [(self.pipeline, batch, *one) for one in slices]
        if rows:
            with self.connection.cursor() as cursor:
                execute_values(cursor, postgres.statement("input_read"), rows)

    def _change_backlog(self, batch: int, decided_at: datetime, decision: Decision) -> None:
        for path, count in decision.resolved.items():
            self._execute(postgres.statement("backlog_resolve"), {"path": path, "count": count}, rows=1)
        self._execute("delete from etl.backlog_file where pipeline = %(pipeline)s and waiting = 0")
        causes: dict[Cause, list[str]] = {"time": [], "master": []}
        for path, count in decision.deferred.items():
            causes["time" if count else "master"].append(path)
        for cause, paths in causes.items():
            self._execute(postgres.statement("backlog_cause"), {"cause": cause, "paths": paths})
        for file in decision.of_table("backlog"):
            self._execute(
                postgres.statement("backlog_add"),
                {
                    "path": file.path,
                    "batch": batch,
                    "waiting": file.rows,
                    "cause": file.cause,
                    "since": decided_at,
                },
            )

    def restore(self, batch: int, note: Mapping[str, Any], slices: Sequence[Slice], epoch: int) -> None:
        """Put back a batch that Delta holds and this ledger, restored from a backup, does not."""
        decision = Decision.from_json(note["decision"])
        with self.transaction():  # half of it would be a batch that is decided once more
            self.fix(batch, note["run_id"], datetime.fromisoformat(note["started_at"]), slices)
            self.decide(batch, datetime.fromisoformat(note["decided_at"]), decision, epoch)
            self.record_audit(batch, "passed", RESTORED)

    # ── claims and backlog ─────────────────────────────────────────────────────────────────────────────────────

    def claim_runs(self) -> tuple[ClaimRun, ...]:
        """The runs of claimed keys that count."""
        rows = self._all("select path, entries, crc32, batch from etl.claim_run where pipeline = %(pipeline)s")
        return tuple(ClaimRun(**row) for row in rows)

    def replace_claims(self, merged: ClaimRun, runs: Sequence[ClaimRun], epoch: int) -> None:
        """Let one run stand for those it was merged from."""
        with self.transaction():
            self.fence(epoch)
            self._change_claims([merged], runs)

    def _change_claims(self, added: Iterable[ClaimRun], removed: Iterable[ClaimRun]) -> None:
        self._execute(
            "delete from etl.claim_run where pipeline = %(pipeline)s and path = any(%(paths)s)",
            {"paths": [run.path for run in removed]},
        )
        for run in added:
            self._execute(postgres.statement("claim_run_add"), asdict(run))

    def backlog_files(self) -> tuple[BacklogFile, ...]:
        """Files of the backlog with events that still wait, oldest first."""
        rows = self._all(
            "select path, batch, waiting, cause, since from etl.backlog_file where pipeline = %(pipeline)s "
            "order by batch, path"
        )
        return tuple(BacklogFile(**row) for row in rows)

    def unknown_files(self) -> tuple[BacklogFile, ...]:
        """Files of events that are in the fact with an unknown member, oldest first."""
        rows = self._all(
            "select path, batch, waiting, 'correction' as cause, since from etl.unknown_file "
            "where pipeline = %(pipeline)s order by batch, path"
        )
        return tuple(BacklogFile(**row) for row in rows)

    def record_look(self, versions: Mapping[str, int]) -> None:
        """Nothing that waits can go on with these versions of the masters."""
        query = "update etl.pipeline set looked = %(versions)s where name = %(pipeline)s"
        self._execute(query, {"versions": Json(dict(versions))})

    def looked(self) -> dict[str, int]:
        """The versions of masters with which the backlog was last looked into in vain."""
        rows = self._all("select looked from etl.pipeline where name = %(pipeline)s")
        return dict(rows[0]["looked"]) if rows else {}

    # ── how a batch fares ──────────────────────────────────────────────────────────────────────────────────────

    def record_audit(self, batch: int, state: BatchState, audit: Mapping[str, Any]) -> None:
        """What the audit said of a decided batch."""
        self._execute(
            "update etl.batch set state = %(state)s, audit = %(audit)s "
            "where pipeline = %(pipeline)s and batch = %(batch)s and state in ('decided', 'held', 'passed')",
            {"batch": batch, "state": state, "audit": Json(dict(audit))},
        )

    def judge(self, batch: int, verdict: Mapping[str, Any]) -> bool:
        """A person's word about a batch whose audit failed; the first one stands. False when it was said before."""
        record = self.get(batch)
        if record.verdict is not None or record.state == "released":
            return False
        if record.state != "held" and not record.aside:
            raise NotHeld(self.pipeline, batch)
        self._execute(postgres.statement("batch_judge"), {"batch": batch, "verdict": Json(dict(verdict))}, rows=1)
        return True

    def unjudged(self) -> list[BatchRecord]:
        """Batches that wait for a person's word, oldest first."""
        return self._of_asides("verdict is null and (state = 'held' or aside > 0)")

    def judged_asides(self) -> list[BatchRecord]:
        """Batches with events aside about which a person has decided, oldest first."""
        return self._of_asides("verdict is not null and aside > 0")

    def asides(self) -> list[BatchRecord]:
        """Batches with events aside, decided about or not."""
        return self._of_asides("aside > 0")

    def _of_asides(self, condition: str) -> list[BatchRecord]:
        query = f"select * from etl.batch where pipeline = %(pipeline)s and {condition} order by batch"  # noqa: S608
        return [_record(row) for row in self._all(query)]

    def record_duration(self, batch: int, step: str, seconds: float) -> None:
        """How long a step of the batch took."""
        self._execute(
            "update etl.batch set seconds = seconds || %(seconds)s where pipeline = %(pipeline)s and batch = %(batch)s",
            {"batch": batch, "seconds": Json({step: round(seconds, 3)})},
        )

    def record_joins(self, batch: int, joins: Mapping[str, Any]) -> None:
        """How the joins of a batch fared, by master."""
        self._execute(
            "update etl.batch set joins = %(joins)s where pipeline = %(pipeline)s and batch = %(batch)s",
            {"batch": batch, "joins": Json(dict(joins))},
        )

    def load(
        self, batch: int, loaded_at: datetime, freshness: Mapping[str, float] | None, tables: Iterable[str]
    ) -> None:
        """Inside the mart's transaction: the batch is loaded, totals and published tables say so."""
        values = {
            "batch": batch,
            "loaded_at": loaded_at,
            "freshness": None if freshness is None else Json(dict(freshness)),
            "published": Json(dict.fromkeys(tables, batch)),
        }
        self._execute(postgres.statement("batch_load"), values, rows=1)

    def totals(self) -> dict[str, int]:
        """Sums over all loaded batches, and what is open now."""
        rows = self._all(postgres.statement("totals"))
        return {name: int(value) for name, value in rows[0].items()} if rows else {}

    def first_batch_with(self, mart_table: str) -> int | None:
        """The first batch that was decided with rows for a table of the mart: tables may be declared later.

        0 when the oldest batch that is remembered has it: those that were forgotten had it too.
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

    def identity(self) -> str:
        """Which database of which server this ledger is in."""
        (row,) = self._all(
            "select system_identifier::text || ' ' || oid as ledger from pg_control_system(), pg_database "
            "where datname = current_database()"
        )
        return str(row["ledger"])

    # ── plumbing ───────────────────────────────────────────────────────────────────────────────────────────────

    def fence(self, epoch: int) -> None:
        """Hold the epoch until the transaction ends; a newer writer has taken over when it differs."""
        query = (
            "select epoch, holder, pg_backend_pid() as session from etl.pipeline where name = %(pipeline)s for share"
        )
        rows = self._all(query)
        if not rows or rows[0]["epoch"] != epoch:
            raise Fenced(self.pipeline, rows[0]["holder"] if rows else "nobody")
        if self._session not in (None, rows[0]["session"]):
            raise PooledSession(postgres.place(self.connection.dsn))

    def _record(self, tail: str, values: dict[str, Any] | None = None) -> BatchRecord | None:
        rows = self._all(f"select * from etl.batch {tail}", values)  # noqa: S608 - tails are literals of this module
        return _record(rows[0]) if rows else None


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


def _slice(row: Mapping[str, Any]) -> Slice:
    file = LandedFile(bytes(row["name"]), row["size"], row["modified_ns"], int(row["inode"]))
    return Slice(row["ordinal"], file, row["first_byte"], row["last_byte"])


def _consumed(row: Mapping[str, Any]) -> Consumed:
    parts = tuple((int(first), int(last), digest) for first, last, digest in row["parts"])
    return Consumed(int(row["inode"]), row["size"], row["modified_ns"], parts)


_FIELDS = tuple(one.name for one in fields(BatchRecord) if one.name != "decision")


def _record(row: Mapping[str, Any]) -> BatchRecord:
    decision = row["decision"]
    return BatchRecord(
        **{name: row[name] for name in _FIELDS},
        decision=None if decision is None else Decision.from_json(decision),
    )
