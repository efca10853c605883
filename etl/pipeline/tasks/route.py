"""The routing task: claims → dedupe → enrich → route → write, for one share of the keys.

    wire rows ─┬─ reasons ──────────────────────────────────────────────▶ quarantine
               ├─ key taken ─┬─ by the same payload ─────────────────────▶ counted duplicate
               │             └─ by another one ──────────────────────────▶ quarantine (conflicting_payload)
               └─ candidate ── every master joined ── measures ─┬────────▶ fact, mart
                                                                ├────────▶ backlog
                                                                └────────▶ quarantine (unknown_…, …_invalid)
    in the fact with an unknown member ── the master row has come ──────────▶ correction of fact and mart

Files are written and synced here, but belong to no table yet. The counts come from the written rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from etl.adapters import claims as claim
from etl.adapters.claims import ClaimRun, Claims
from etl.adapters.delta.data_files import write_arrow, write_for_copy, write_part
from etl.adapters.ledger import Cause, DataFile
from etl.columnar.keys import I64, Keys
from etl.contract.model import MartTable
from etl.contract.words.types import TIMESTAMP
from etl.ingest import dedupe
from etl.ingest.dedupe import CONFLICTING_PAYLOAD
from etl.model import BatchCounts, JoinCounts
from etl.pipeline.process_state import process_state
from etl.pipeline.tasks import unknown as unknown_members
from etl.pipeline.tasks import wire
from etl.pipeline.tasks.enrich import Enriched, enricher
from etl.pipeline.tasks.mart_rows import mart_groups, mart_rows
from etl.pipeline.tasks.measures import Measures
from etl.pipeline.tasks.plan import BACKLOG, CORRECTIONS, FACT, QUARANTINE, BatchPlan
from etl.pipeline.tasks.rows import backlog_rows, fact_rows, quarantine_rows
from etl.pipeline.tasks.unknown import Corrections
from etl.pipeline.tasks.wire import Message
from etl.validate import route as routing

Flags = npt.NDArray[np.bool_]


@dataclass(slots=True)
class RouteResult:
    """The result of one routing task, as the decision needs it."""

    files: list[DataFile] = field(default_factory=list)
    mart: dict[str, list[str]] = field(default_factory=dict)  # by mart table, files of its rows
    replaced: dict[str, str] = field(default_factory=dict)  # by mart table, file of rows that replace earlier ones
    claims: ClaimRun | None = None
    counts: BatchCounts = field(default_factory=BatchCounts)
    resolved: dict[str, int] = field(default_factory=dict)  # by backlog file, events that are no longer open
    deferred: dict[str, int] = field(default_factory=dict)  # by backlog file that was retried, events shed again
    corrected: dict[str, int] = field(default_factory=dict)  # by file of unknown members, events that have theirs

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "counts": self.counts.as_json()}


def route(plan: BatchPlan, router: int, messages: Iterable[Message]) -> Iterator[Message]:
    """Route the rows of one share of the keys; yields its result and the notes of its joins."""
    tables = []
    for message in messages:
        if message.kind == "rows":
            tables.append(wire.rows_of(message))
        else:
            yield message  # for the driver: a reader's findings or its error
    rows = _in_order(tables, plan)
    if not rows.num_rows:
        yield wire.json_message("result", RouteResult().as_json())
        return
    with enricher(plan.enrich, plan.pipeline.stream.schema) as joins:
        task = _Router(plan, router)
        result = task.run(rows, joins.enrich)
        yield wire.json_message("result", result.as_json())
        for name, notes in joins.notes().items():
            yield notes.message(name)


def _in_order(tables: list[pa.Table], plan: BatchPlan) -> pa.Table:
    """All rows in order of arrival: files by age, lines by number; the backlog first."""
    schema = wire.wire_schema(plan.pipeline.stream)
    rows = pa.concat_tables(tables) if tables else schema.empty_table()
    order = np.lexsort((rows[wire.LINE].to_numpy(), rows[wire.SLICE].to_numpy()))
    return rows.take(pa.array(order)).combine_chunks()


class _Router:
    """The steps of one task."""

    def __init__(self, plan: BatchPlan, router: int) -> None:
        self._plan, self._router = plan, router
        self._result = RouteResult()
        self._new_claims: list[Claims] = []
        self._reasons: Counter[str] = Counter()
        self._sums: Counter[str] = Counter()

    def run(self, rows: pa.Table, enrich: Callable[[pa.Table], Enriched]) -> RouteResult:
        # 1. Lines refused by the reader are not checked against claims. Poison of the backlog frees its key.
        refused = pc.greater(pc.list_value_length(rows[wire.REASONS]), 0).to_numpy()
        waited = rows[wire.WAITED_IN].is_valid().to_numpy()
        lo, hi = (rows[name].to_numpy() for name in (wire.KEY_LO, wire.KEY_HI))
        # 2. Claims and duplicates.
        found = process_state().claims(self._plan.places.claims, self._plan.claims).find(lo, hi)
        kind = self._kinds(rows, refused, waited, found)
        conflict = kind == dedupe.CONFLICT
        open_ = np.isin(found.state, (claim.WAITING, claim.UNKNOWN))
        still_waiting = waited & open_ & (found.batch == self._began_waiting(rows))
        refused = refused & (~waited | still_waiting)
        self._claim(rows.filter(pa.array(refused & waited)), claim.RELEASED)
        candidate = np.where(waited, still_waiting & ~refused, kind == dedupe.CANDIDATE)
        self._sums["duplicates"] = int(np.count_nonzero(kind == dedupe.DUPLICATE))
        # 3. Master data, then the route of every candidate.
        enriched = enrich(rows.filter(pa.array(candidate)))
        self._count_joins(enriched)
        fixing = pc.is_in(enriched.rows[wire.WAITED_IN], value_set=pa.array(self._plan.unknown, pa.string())).to_numpy()
        accepted, refusals = self._settle(enriched.where(~fixing))
        self._correct(enriched.where(fixing))
        # 4. Files and claims.
        refusals = [
            (rows.filter(pa.array(refused)), rows.filter(pa.array(refused))[wire.REASONS]),
            (rows.filter(pa.array(conflict)), _repeated_reasons([CONFLICTING_PAYLOAD], int(conflict.sum()))),
            *refusals,
        ]
        self._write(accepted, refusals)
        return self._finish()

    def _began_waiting(self, rows: pa.Table) -> I64:
        """The batch in which each row began to wait: a freed key may wait again, in another row."""
        files = self._plan.backlog
        at = pc.index_in(rows[wire.WAITED_IN], value_set=pa.array([file.path for file in files], pa.string()))
        batches = pa.array([file.batch for file in files], pa.int64()).take(at)
        began: I64 = pc.fill_null(batches, 0).to_numpy()
        return began

    def _kinds(self, rows: pa.Table, refused: Flags, waited: Flags, found: Claims) -> npt.NDArray[np.int8]:
        """Candidate, duplicate or conflict, for rows that are new and clean; -1 for all others."""
        kind = np.full(rows.num_rows, -1, np.int8)
        new = np.flatnonzero(~refused & ~waited)
        keys = Keys(found.lo[new], found.hi[new], None, pa.int64())
        payload = rows[wire.PAYLOAD].to_numpy()
        kind[new] = dedupe.classify(keys, payload[new], found.state[new] != claim.FREE, found.payload[new])
        return kind

    def _settle(self, enriched: Enriched) -> tuple[pa.Table, list[tuple[pa.Table, pa.Array]]]:
        """Split into accepted rows with measures and refused ones with reasons; also writes the backlog."""
        plan, rows = self._plan, enriched.rows
        required = frozenset(master.name for master in plan.pipeline.masters if master.required)
        since = rows[wire.WAITING_SINCE]
        cutoff = pa.scalar(plan.now - plan.pipeline.grace, TIMESTAMP)
        impatient = pc.fill_null(pc.less(since, cutoff), False).to_numpy()
        unknown = plan.pipeline.after_grace == "unknown"
        routes = routing.route(enriched.found, required, enriched.shed, impatient, unknown=unknown)
        waited = rows[wire.WAITED_IN].is_valid().to_numpy()
        # Events that go on waiting stay in their backlog file: no second row.
        new_waiting = routes.backlog & ~waited
        self._defer(rows[wire.WAITED_IN], routes.shed)
        self._wait(rows, new_waiting, routes)
        given_up = rows.filter(pa.array(routes.quarantined))
        reasons = routes.reasons(np.flatnonzero(routes.quarantined))
        taken = rows.append_column(unknown_members.LACKS, routes.lacking).filter(pa.array(routes.accepted))
        measured = Measures.compile(plan.pipeline, rows.schema).add(taken)
        accepted = self._accepted(measured.accepted)
        for refused in (given_up, measured.refused):
            self._claim(refused.filter(refused[wire.WAITED_IN].is_valid()), claim.RELEASED)
        return accepted, [(given_up, reasons), (measured.refused, measured.reasons)]

    def _accepted(self, accepted: pa.Table) -> pa.Table:
        """Claim accepted events; those with an unknown member are also written to a file, for later correction."""
        lacks = accepted[unknown_members.LACKS].is_valid()
        self._claim(accepted.filter(pc.invert(lacks)), claim.ACCEPTED)
        lacking = accepted.filter(lacks)
        if lacking.num_rows:
            name = f"unknown-{self._plan.part_name(self._router)}"
            self._result.files.append(unknown_members.write(self._plan, name, lacking))
            self._claim(lacking, claim.UNKNOWN)
            self._sums["unknown"] += lacking.num_rows
        return accepted.drop_columns([unknown_members.LACKS])

    def _correct(self, enriched: Enriched) -> None:
        """Write corrections for events whose unknown members have come; the others stay unchanged."""
        plan = self._plan
        required = [enriched.found[master.name] for master in plan.pipeline.masters if master.required]
        complete = np.logical_and.reduce([~enriched.shed, *required])
        rows = enriched.rows.filter(pa.array(complete))
        measured = Measures.compile(plan.pipeline, rows.schema).add(rows).accepted
        if not measured.num_rows:
            return
        fixed = Corrections(plan, measured)
        name = plan.part_name(self._router)
        facts = fact_rows(measured, plan, pa.array(fixed.batch))
        self._result.files.append(write_part(plan.places.tables, CORRECTIONS, name, facts))
        self._claim(measured, claim.ACCEPTED)
        self._result.corrected = _value_counts(measured[wire.WAITED_IN])
        self._sums["corrected"] = measured.num_rows
        for table in plan.pipeline.mart:
            self._correct_mart(fixed.of_table(table), table, f"{table.name}-fix-{name.removesuffix('parquet')}")

    def _correct_mart(self, fixed: Corrections, table: MartTable, name: str) -> None:
        if not fixed.rows.num_rows:
            return
        folder = self._plan.places.mart
        if table.is_aggregate:
            write_arrow(folder / f"{name}arrow", fixed.groups(table))
            self._result.mart.setdefault(table.name, []).append(f"{name}arrow")
        else:
            rows = mart_rows(fixed.rows, table, self._plan, pa.array(fixed.batch))
            write_for_copy(folder / f"{name}copy", rows)
            self._result.replaced[table.name] = f"{name}copy"

    def _wait(self, rows: pa.Table, waiting: Flags, routes: routing.Routes) -> None:
        """Write new events of the backlog, one file per cause."""
        causes: dict[Cause, Flags] = {"time": waiting & routes.shed, "master": waiting & ~routes.shed}
        for cause, flags in causes.items():
            chosen = np.flatnonzero(flags)
            if not len(chosen):
                continue
            reasons = routes.reasons(chosen)
            part = rows.take(pa.array(chosen))
            kept = backlog_rows(part, reasons, self._plan)
            most = self._plan.waiting_rows
            for number, first in enumerate(range(0, len(chosen), most)):
                self._add_file(BACKLOG, kept.slice(first, most), cause, number)
            self._claim(part, claim.WAITING)
            self._sums["shed"] += len(chosen) if cause == "time" else 0

    def _defer(self, waited_in: pa.ChunkedArray, shed: Flags) -> None:
        """Count, by backlog file, the events that were retried and those of them that were shed again."""
        self._result.deferred = dict.fromkeys(waited_in.drop_null().unique().to_pylist(), 0)
        self._result.deferred |= _value_counts(waited_in.filter(pa.array(shed)))

    def _claim(self, rows: pa.Table, state: int) -> None:
        n = rows.num_rows
        if n:
            self._new_claims.append(
                Claims(
                    rows[wire.KEY_LO].to_numpy(),
                    rows[wire.KEY_HI].to_numpy(),
                    rows[wire.PAYLOAD].to_numpy(),
                    np.full(n, self._plan.batch, np.int64),
                    np.full(n, state, np.uint8),
                )
            )

    def _count_joins(self, enriched: Enriched) -> None:
        n = enriched.rows.num_rows
        self._joins = {
            name: JoinCounts(n, int(enriched.hit[name].sum()), int((~found & ~enriched.shed).sum()))
            for name, found in enriched.found.items()
        }

    def _write(self, accepted: pa.Table, refusals: list[tuple[pa.Table, pa.Array]]) -> None:
        plan = self._plan
        if accepted.num_rows:
            self._add_file(FACT, fact_rows(accepted, plan))
            for table in plan.pipeline.mart:
                self._result.mart.setdefault(table.name, []).append(self._write_mart(accepted, table))
        key = plan.pipeline.stream.key
        parts = [
            quarantine_rows(rows, reasons, key, plan.batch, plan.now) for rows, reasons in refusals if rows.num_rows
        ]
        if parts:
            refused = pa.concat_tables(parts)
            self._add_file(QUARANTINE, refused)
            self._reasons.update(name for names in refused["reasons"].to_pylist() for name in set(names))
        for rows in (accepted, *(rows for rows, _ in refusals)):
            self._resolve(rows)

    def _write_mart(self, accepted: pa.Table, table: MartTable) -> str:
        """Write this task's rows for a table of the mart; returns the file's name."""
        plan = self._plan
        name = f"{table.name}-{plan.part_name(self._router, 'arrow' if table.is_aggregate else 'copy')}"
        if table.is_aggregate:
            write_arrow(plan.places.mart / name, mart_groups(accepted, table, plan))
        else:
            write_for_copy(plan.places.mart / name, mart_rows(accepted, table, plan))
        return name

    def _resolve(self, rows: pa.Table) -> None:
        """Count resolved events by their backlog file."""
        for file, count in _value_counts(rows[wire.WAITED_IN]).items():
            self._result.resolved[file] = self._result.resolved.get(file, 0) + count

    def _add_file(self, table: str, rows: pa.Table, cause: Cause | None = None, number: int = 0) -> None:
        name = self._plan.part_name(self._router)
        name = name if cause is None else f"{cause}-{number}-{name}"
        file = write_part(self._plan.places.tables, table, name, rows, cause)
        self._result.files.append(file)
        self._sums[table] += file.rows

    def _finish(self) -> RouteResult:
        plan, result = self._plan, self._result
        if self._new_claims:
            name = plan.part_name(self._router, "claims")
            result.claims = claim.write_run(plan.places.claims, name, Claims.concat(self._new_claims))
        result.counts = BatchCounts(
            accepted=self._sums[FACT],
            quarantined=self._sums[QUARANTINE],
            duplicates=self._sums["duplicates"],
            backlog_added=self._sums[BACKLOG],
            backlog_resolved=sum(result.resolved.values()),
            shed=self._sums["shed"],
            unknown=self._sums["unknown"],
            corrected=self._sums["corrected"],
            reasons=dict(self._reasons),
            joins=self._joins,
        )
        return result


def _value_counts(values: pa.ChunkedArray) -> dict[str, int]:
    """How often each value occurs, without NULL."""
    return {one["values"]: one["counts"] for one in values.drop_null().value_counts().to_pylist()}


def _repeated_reasons(reasons: list[str], count: int) -> pa.Array:
    return pa.array([reasons] * count, pa.list_(pa.string()))
