"""Set aside the accepted events of a batch whose audit failed, until a person decides; other batches go on (ADR 71).

    audit failed ─┬─ held = "wait"   the batch is held, later ones wait ──────┬─ released ─▶ published as it was decided
                  │                                                           └─ rejected ─┐
                  └─ held = "go_on" ───────────────────────────────────────────────────────┴─▶ set aside: one commit
    aside ── verdict ─ the next batch ─┬─ released ─▶ its files become facts       published as usual, without its
                                       └─ rejected ─▶ refused lines, keys free     accepted events

Events that are set aside count as waiting until the next batch has taken them up, so that every event is in exactly one
place. The files for both outcomes are written before the decision: the facts, out of VACUUM's reach, and the same
events as refused lines with their bytes. Taking up renames files and copies no rows.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from etl.adapters import claims as claim
from etl.adapters.claims import ClaimIndex, Claims, lanes
from etl.adapters.delta.data_files import read_parts, write_part
from etl.adapters.durable import renew, sync_folder
from etl.adapters.ledger import Aside, BatchRecord, DataFile, Decision, TakenUp
from etl.adapters.losses import LossBook
from etl.columnar.keys import U64
from etl.contract.words.types import TIMESTAMP
from etl.errors import TerminalError
from etl.pipeline import recover
from etl.pipeline.poison.tries import line_choice
from etl.pipeline.tasks import wire
from etl.pipeline.tasks.plan import CORRECTIONS, FACT, HELD, QUARANTINE, UNKNOWN, BatchPlan, part_prefix
from etl.pipeline.tasks.read import event_keys, events_of, landed_rows, slice_reader, waiting_rows
from etl.pipeline.tasks.rows import quarantine_rows
from etl.validate.checks import Checks

if TYPE_CHECKING:
    from etl.pipeline.microbatch import MicroBatch

Pairs = npt.NDArray[np.void]
Mart = Mapping[str, tuple[str, ...]]
REJECTED = "audit_rejected"
"""The reason of events of a batch that a person has rejected, beside the failed expectations."""


class EventsNotFound(TerminalError):
    """Lines of a held batch are missing in the files it read."""

    def __init__(self, pipeline: str, batch: int, found: int, accepted: int) -> None:
        super().__init__(pipeline, batch, found, accepted)
        self.pipeline, self.batch, self.found, self.accepted = pipeline, batch, found, accepted

    def __str__(self) -> str:
        return (
            f"batch {self.batch} of {self.pipeline} accepted {self.accepted} events, and {self.found} of their lines "
            "are still where they landed; nothing was changed: put the files back, or release the batch"
        )


# ── out of the batch ───────────────────────────────────────────────────────────────────────────────────────────────


def set_aside(run: MicroBatch, record: BatchRecord, verdict: dict[str, Any]) -> BatchRecord:
    """Let a batch pass without the events that it accepted itself.

    Events that it has taken up were approved by a person, and corrections are of facts of earlier batches: both stay.
    """
    decision, batch = record.decided, record.batch
    failed = [one["name"] for one in verdict["expectations"] if not one["success"]]
    events = _own_events(decision)
    refused = _as_refused_lines(run, record, events, [REJECTED, *dict.fromkeys(failed)])
    files, mart = _own_files(decision), _own_mart(decision, batch)
    for table in (FACT, UNKNOWN):
        _link(run.places.tables / table, run.places.tables / HELD, _names(files, table))
    _link(run.places.mart, run.places.tables / HELD, [name for names in mart.values() for name in names])
    counts = decision.counts
    revised = replace(
        decision,
        files=tuple(one for one in decision.files if one not in files),
        mart=_without(decision.mart, mart),
        counts=replace(
            counts, accepted=counts.accepted - events, backlog_added=counts.backlog_added + events, held=events
        ),
        aside=Aside(events, files, mart, refused),
    )
    run.checkpoint("before events are set aside")
    recover.revise_note(run, record, revised)
    run.ledger.set_aside(batch, revised, verdict, run.writer.epoch)
    run.checkpoint("after events are set aside")
    run.progress(f"batch {batch}: {events} accepted events wait for a decision: {', '.join(failed)} failed")
    return run.ledger.get(batch)


def _own_events(decision: Decision) -> int:
    return decision.counts.accepted - sum(one.events for one in decision.taken_up if one.word == "released")


def _own_files(decision: Decision) -> tuple[DataFile, ...]:
    of_others = decision.released_files
    return tuple(one for one in decision.files if one.table in (FACT, UNKNOWN) and one.path not in of_others)


def _own_mart(decision: Decision, batch: int) -> Mart:
    """Files of rows of accepted events, by mart table; those of corrections and of other batches have other names."""
    own = {table: [name for name in names if name.startswith(f"{table}-{part_prefix(batch)}")]
           for table, names in decision.mart.items()}  # fmt: skip
    return {table: tuple(names) for table, names in own.items() if names}


def _without(mart: Mart, own: Mart) -> Mart:
    left = {table: tuple(name for name in names if name not in own.get(table, ())) for table, names in mart.items()}
    return {table: names for table, names in left.items() if names}


def held_names(aside: Aside) -> set[str]:
    """The names of all files in which events wait aside."""
    files = {name for one in (*aside.files, aside.refused) for name in (one.path, f"before-{one.path}")}
    return files | {name for names in aside.mart.values() for name in names}


def _link(here: Path, there: Path, names: list[str]) -> None:
    """Hard-link files and sync; existing links stay."""
    there.mkdir(parents=True, exist_ok=True)
    for name in names:
        if not (there / name).exists():
            os.link(here / name, there / name)
    sync_folder(there)


def _names(files: tuple[DataFile, ...], table: str) -> list[str]:
    """The names of a table's files and of their companion files."""
    paths = [one.path for one in files if one.table == table]
    return paths if table == FACT else [*paths, *(f"before-{path}" for path in paths)]


def _as_refused_lines(run: MicroBatch, record: BatchRecord, accepted: int, reasons: list[str]) -> DataFile:
    """The accepted events of a batch as quarantine rows, read again from their input."""
    rows = pa.concat_tables(_accepted_rows(run, record))
    order = np.lexsort((rows[wire.LINE].to_numpy(), rows[wire.SLICE].to_numpy()))
    ordered = rows.take(pa.array(order))
    keys = np.stack([ordered[name].to_numpy() for name in (wire.KEY_LO, wire.KEY_HI)], axis=1)
    _, first = np.unique(keys, axis=0, return_index=True)  # a second line with the same payload was a duplicate
    events = ordered.take(pa.array(np.sort(first)))
    if events.num_rows != accepted:
        raise EventsNotFound(run.name, record.batch, events.num_rows, accepted)
    why = pa.array([reasons] * events.num_rows, pa.list_(pa.string()))
    refused = quarantine_rows(events, why, run.resolved.pipeline.stream.key, record.batch, record.started_at)
    return write_part(run.places.tables, HELD, f"refused-{record.batch:09d}.parquet", refused)


def _accepted_rows(run: MicroBatch, record: BatchRecord) -> Iterator[pa.Table]:
    """Landed lines and backlog events that this batch has accepted, according to their claims."""
    stream = run.resolved.pipeline.stream
    index = ClaimIndex(run.places.claims, run.ledger.claim_runs())
    checks = Checks.compile(run.resolved.pipeline.rules, stream.schema, record.started_at)
    choice = line_choice(LossBook(run.ledger, record.batch).read())
    corrected = _corrected_keys(run, record)
    yield wire.wire_schema(stream).empty_table()
    for path in record.decided.resolved:
        yield _accepted_by(waiting_rows(run.places, stream, path), index, record.batch, corrected)
    for one in run.ledger.slices(record.batch):
        source = slice_reader(run.places, one)
        for events, released_from in events_of(stream, one, source, choice):
            rows = landed_rows(events, released_from, one, source, checks, stream)
            yield _accepted_by(rows, index, record.batch, corrected)


def _corrected_keys(run: MicroBatch, record: BatchRecord) -> Pairs:
    """Keys whose facts this batch has corrected. It claims them, but an earlier batch accepted them."""
    files = record.decided.of_table(CORRECTIONS)
    if not files:
        return _pairs(np.zeros(0, np.uint64), np.zeros(0, np.uint64))
    stream = run.resolved.pipeline.stream
    rows = read_parts(run.places.tables, files, list(stream.key)).combine_chunks().to_batches()[0]
    return _pairs(*lanes(event_keys(rows, stream)))


def _pairs(lo: U64, hi: U64) -> Pairs:
    """Both lanes of keys as one value each, which can be compared."""
    both: Pairs = np.ascontiguousarray(np.stack([lo, hi], axis=1)).view([("lo", np.uint64), ("hi", np.uint64)]).ravel()
    return both


def _accepted_by(rows: pa.Table, index: ClaimIndex, batch: int, corrected: Pairs) -> pa.Table:
    held = index.find(rows[wire.KEY_LO].to_numpy(), rows[wire.KEY_HI].to_numpy())
    clean = pc.equal(pc.list_value_length(rows[wire.REASONS]), 0).to_numpy()
    same = (
        np.isin(held.state, (claim.ACCEPTED, claim.UNKNOWN))
        & (held.batch == batch)
        & (held.payload == rows[wire.PAYLOAD].to_numpy())
        & ~np.isin(_pairs(held.lo, held.hi), corrected)
    )
    return rows.filter(pa.array(clean & same))


# ── into a later one ───────────────────────────────────────────────────────────────────────────────────────────────


def take_up(run: MicroBatch, plan: BatchPlan, decision: Decision) -> Decision:
    """Add to a batch's decision the set-aside events on which people have decided since the last batch."""
    for record in run.ledger.judged_asides():
        aside, verdict = record.decided.aside, record.verdict
        assert aside is not None, "a batch with events aside names them"
        assert verdict is not None, "only those were asked for"
        renew(run.places.tables / HELD / name for name in held_names(aside))  # nothing names them from now on
        counts = replace(decision.counts, backlog_resolved=decision.counts.backlog_resolved + aside.events)
        decision = replace(decision, counts=counts)
        act = _with_facts if verdict["word"] == "released" else _with_refused_lines
        decision = act(run, plan, decision, record.batch, aside)
    return decision


def _with_facts(run: MicroBatch, plan: BatchPlan, decision: Decision, batch: int, aside: Aside) -> Decision:  # noqa: ARG001
    held = run.places.tables / HELD
    for table in (FACT, UNKNOWN):
        _link(held, run.places.tables / table, _names(aside.files, table))
    _link(held, run.places.mart, [name for names in aside.mart.values() for name in names])
    tables = dict.fromkeys([*decision.mart, *aside.mart])
    return replace(
        decision,
        files=(*decision.files, *aside.files),
        mart={name: (*decision.mart.get(name, ()), *aside.mart.get(name, ())) for name in tables},
        counts=replace(decision.counts, accepted=decision.counts.accepted + aside.events),
        taken_up=(
            *decision.taken_up,
            TakenUp(batch, "released", aside.events, tuple(one.path for one in aside.files), tuple(aside.mart)),
        ),
    )


def _with_refused_lines(run: MicroBatch, plan: BatchPlan, decision: Decision, batch: int, aside: Aside) -> Decision:
    lines = pq.read_table(run.places.tables / HELD / aside.refused.path)
    for name, value, kind in (("batch", plan.batch, pa.int64()), ("decided_at", plan.now, TIMESTAMP)):
        column = pa.repeat(pa.scalar(value, kind), lines.num_rows)
        lines = lines.set_column(lines.schema.get_field_index(name), name, column)
    name = f"{part_prefix(plan.batch)}{plan.attempt}-held-{batch:09d}.parquet"  # one of its own for every held batch
    file = write_part(run.places.tables, QUARANTINE, name, lines)
    freed = claim.write_run(run.places.claims, f"{Path(name).stem}.claims", _freeing_claims(run, plan.batch, aside))
    reasons = Counter(decision.counts.reasons)
    reasons.update(one for names in lines["reasons"].to_pylist() for one in set(names))
    counts = replace(
        decision.counts, quarantined=decision.counts.quarantined + aside.events, reasons=dict(sorted(reasons.items()))
    )
    return replace(
        decision,
        files=(*decision.files, file),
        claims=(*decision.claims, freed),
        counts=counts,
        taken_up=(*decision.taken_up, TakenUp(batch, "rejected", aside.events)),
    )


def _freeing_claims(run: MicroBatch, batch: int, aside: Aside) -> Claims:
    """Claims that free the keys, so that a corrected event may be sent again."""
    stream = run.resolved.pipeline.stream
    held = tuple(replace(one, table=HELD) for one in aside.files if one.table == FACT)
    rows = read_parts(run.places.tables, held, list(stream.key)).combine_chunks().to_batches()[0]
    lo, hi = lanes(event_keys(rows, stream))
    n = rows.num_rows
    states = np.full(n, claim.RELEASED, np.uint8)
    return Claims(lo, hi, np.zeros(n, np.int64), np.full(n, batch, np.int64), states)
