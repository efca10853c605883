"""Maintenance: merge claims, remove garbage, compact tables, apply retention.

    after a batch     merge_claims
    every day         maintain ── garbage ─ claims ─ OPTIMIZE, VACUUM ─ archive, ledger, reports, audits ─ growth

None of it is on a batch's critical path. All of it runs under the pipeline's lock, is idempotent, and may be
interrupted. VACUUM waits until no batch is open: the files of a held batch are in no table's log.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from etl.adapters import claims
from etl.adapters.delta.compact import compact, mergeable
from etl.adapters.durable import renew
from etl.errors import TerminalError
from etl.pipeline import recover
from etl.pipeline.review.aside import held_names
from etl.pipeline.tasks.plan import BACKLOG, CORRECTIONS, FACT, HELD, QUARANTINE, UNKNOWN, notes_of
from etl.pipeline.upkeep import retention
from etl.pipeline.upkeep.retention import Removed

if TYPE_CHECKING:
    from etl.adapters.ledger import Decision, Ledger
    from etl.pipeline.microbatch import MicroBatch

GARBAGE_AFTER = timedelta(days=1)
"""Least age of an unreferenced file before removal: a try may still be writing it."""
KEPT_FOR = timedelta(days=7)
"""How long decided batches can be loaded again: the retention of their notes and mart rows."""
MANY_FILES = 16  # files in a table from which compaction pays
_PART = re.compile(r"part-(\d+)-")


class Tables(Protocol):
    """Delta's own maintenance operations."""

    def optimize(self, folder: Path) -> None:
        """Compact small files."""
        ...

    def vacuum(self, folder: Path, keep: timedelta) -> None:
        """Remove files that no version within `keep` references."""
        ...


@dataclass(frozen=True, slots=True)
class Keep:
    """The settings of a round of maintenance."""

    history: timedelta = timedelta(days=30)
    dry_run: bool = False

    def __post_init__(self) -> None:
        if self.history < KEPT_FOR:
            raise TerminalError(
                f"{self.history.days} days of history are too few; a restored backup needs {KEPT_FOR.days} or more"
            )


def merge_claims(run: MicroBatch) -> bool:
    """Merge runs of claims when there are enough of one size, so that a lookup visits few runs."""
    runs = run.ledger.claim_runs()
    chosen = claims.due(runs)
    if not chosen:
        return False
    name = f"merged-{max(one.batch for one in chosen):09d}-{secrets.token_hex(4)}.claims"
    merged = claims.merge(run.places.claims, chosen, name, complete=len(chosen) == len(runs))
    run.checkpoint("after claims are merged")
    renew(run.places.claims / one.path for one in chosen)  # from now on nothing but a restored ledger names them
    run.ledger.replace_claims(merged, chosen, run.writer.epoch)  # old files stay: a restored ledger may name them
    return True


def maintain(
    run: MicroBatch, tables: Tables | None, keep: Keep, now: datetime, roots: Iterable[Path]
) -> dict[str, Any]:
    """One round for one pipeline. `roots` hold a folder per batch: reports, results and pages of audits."""
    before, dry_run = now - keep.history, keep.dry_run
    if not dry_run:
        recover.settle(run)  # garbage can be told from data only when the ledger has every batch
    result: dict[str, Any] = {
        "pipeline": run.name,
        "dry_run": dry_run,
        "garbage": asdict(remove_garbage(run, dry_run=dry_run)),
        "claims_merged": not dry_run and merge_claims(run),
        "optimized": list(_optimized(run, tables, dry_run=dry_run)),
        "vacuumed": list(_vacuumed(run, tables, dry_run=dry_run)),
        "archive": asdict(retention.remove_archive(run, before, dry_run=dry_run)),
        "batches_forgotten": retention.forget_batches(run, before, dry_run=dry_run),
        "reports": asdict(retention.remove_old_folders(roots, before, dry_run=dry_run)),
        "landed_again": _archive(run).land_grown(now, dry_run=dry_run),
    }
    run.progress(_sentence(result))
    return result


def _archive(run: MicroBatch) -> retention.Archive:
    source = run.resolved.pipeline.stream.source
    return retention.Archive(run.places.landing, run.places.archive, source.format, run.ledger)


def _sentence(result: dict[str, Any]) -> str:
    freed = sum(result[what]["bytes"] for what in ("garbage", "archive", "reports"))
    return (
        f"{result['pipeline']}: {freed:,} bytes {'could be' if result['dry_run'] else 'are'} freed, "
        f"{len(result['optimized'])} tables compacted, {result['batches_forgotten']} old batches forgotten, "
        f"{result['landed_again']} files landed again"
    )


# ── garbage ────────────────────────────────────────────────────────────────────────────────────────────────────────


def remove_garbage(run: MicroBatch, *, dry_run: bool = False) -> Removed:
    """Remove files of undecided tries, and files that decided batches no longer need."""
    total = Removed()
    for table in (FACT, QUARANTINE, BACKLOG):
        folder, decided = run.delta.folder(table), _decided(run.ledger, table)
        named = {uri.rpartition("/")[2] for uri in run.delta.table(table).file_uris()} | _begun(run.ledger, table)
        parts = ((path, _PART.search(path.name)) for path in folder.glob("*part-*.parquet") if path.name not in named)
        # A file in a decision but not in the table is still to be published, or was compacted: VACUUM removes it.
        garbage = (path for path, part in parts if part is not None and not decided(int(part[1]), path.name))
        total += _remove(garbage, GARBAGE_AFTER, dry_run=dry_run)
    total += _remove(run.places.mart.glob("*-part-*"), KEPT_FOR, keep=_open_files(run), dry_run=dry_run)
    notes = sorted(run.places.notes.glob("*.json"))  # the newest of a batch last
    total += _remove(notes, KEPT_FOR, keep=_open_notes(run), dry_run=dry_run)
    total += _remove((run.places.tables / HELD).glob("*"), KEPT_FOR, keep=_aside(run.ledger), dry_run=dry_run)
    fixes = frozenset(_begun(run.ledger, CORRECTIONS))
    total += _remove((run.places.tables / CORRECTIONS).glob("*"), KEPT_FOR, keep=fixes, dry_run=dry_run)
    total += _remove((run.places.tables / UNKNOWN).glob("*"), KEPT_FOR, keep=_unknown(run.ledger), dry_run=dry_run)
    total += _remove(_unfinished(run), GARBAGE_AFTER, dry_run=dry_run)
    counted = {one.path for one in run.ledger.claim_runs()}
    unnamed = (path for path in run.places.claims.glob("*.claims") if path.name not in counted)
    return total + _remove(unnamed, KEPT_FOR, dry_run=dry_run)


def _unfinished(run: MicroBatch) -> Iterator[Path]:
    """Temporary files of a killed process: their names are never reused."""
    for folder in (run.places.notes, run.places.claims, run.places.mart):
        yield from folder.glob(".*.tmp")
    for table in _tables(run):
        yield from (run.delta.folder(table) / "_delta_log").glob("*.tmp")


def _decided(ledger: Ledger, table: str) -> Callable[[int, str], bool]:
    """Whether a decision names a file; assumed true for batches that retention has removed from the ledger."""
    known: dict[int, set[str] | None] = {}
    oldest = ledger.oldest() or 0

    def named(batch: int, file: str) -> bool:
        if batch < oldest:
            return True
        if batch not in known:
            record = ledger.find(batch)
            decision = None if record is None else record.decision
            known[batch] = set() if decision is None else {one.path for one in decision.of_table(table)}
        return file in (known[batch] or ())

    return named


def _begun(ledger: Ledger, table: str) -> set[str]:
    """Files that an unfinished batch will add, including those of earlier held batches."""
    decision = _open_decision(ledger)
    return set() if decision is None else {one.path for one in decision.of_table(table)}


def _open_decision(ledger: Ledger) -> Decision | None:
    """The decision of an unfinished batch."""
    record = ledger.oldest_unloaded()
    return None if record is None else record.decision


# What an unfinished batch settles is kept, too: a ledger that is restored to before that batch waits for it again.


def _open_backlog(ledger: Ledger) -> set[str]:
    """Files of the backlog that the ledger names, and those of an unfinished batch."""
    decision = _open_decision(ledger)
    named = {one.path for one in ledger.backlog_files()} | _begun(ledger, BACKLOG)
    return named if decision is None else named | set(decision.resolved)


def _unknown(ledger: Ledger) -> frozenset[str]:
    """Files of events with an unknown member."""
    decision = _open_decision(ledger)
    paths = {one.path for one in ledger.unknown_files()} | set(() if decision is None else decision.corrected)
    return frozenset(name for path in paths for name in (path, f"before-{path}"))


def _aside(ledger: Ledger) -> frozenset[str]:
    """Files of events that wait for a person's decision."""
    decision = _open_decision(ledger)
    taken = () if decision is None else (ledger.get(one.batch) for one in decision.taken_up)
    found: set[str] = set()
    for record in (*ledger.asides(), *taken):
        held = record.decided.aside
        if held is not None:
            found |= held_names(held)
    return frozenset(found)


def _open_files(run: MicroBatch) -> frozenset[str]:
    """Rows for the mart that a batch still needs, however long it has been held."""
    decision = _open_decision(run.ledger)
    if decision is None:
        return frozenset()
    return frozenset(name for of in (decision.mart, decision.replaced) for names in of.values() for name in names)


def _open_notes(run: MicroBatch) -> frozenset[str]:
    """The notes of a batch that is not loaded, however long it has been held."""
    batch = run.ledger.oldest_open()
    return frozenset() if batch is None else frozenset(path.name for path in notes_of(run.places, batch))


def _remove(
    paths: Iterable[Path], older_than: timedelta, *, keep: frozenset[str] = frozenset(), dry_run: bool
) -> Removed:
    before, total = time.time() - older_than.total_seconds(), Removed()
    for path in paths:
        seen = path.stat()
        if seen.st_mtime < before and path.name not in keep:
            if not dry_run:
                path.unlink(missing_ok=True)
            total += Removed(1, seen.st_size)
    return total


# ── tables ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _tables(run: MicroBatch) -> Iterator[str]:
    yield from (FACT, QUARANTINE, BACKLOG)
    yield from (f"dim_{one.name}" for one in run.resolved.pipeline.masters if one.history != "none")


def _optimized(run: MicroBatch, tables: Tables | None, *, dry_run: bool) -> Iterator[str]:
    """Compact tables of many files; of the backlog those in which no event waits, for the ledger names the others."""
    for table in _tables(run):
        if table == BACKLOG:
            files = mergeable(run.delta, table, keep=_open_backlog(run.ledger))
            if len(files) >= MANY_FILES:
                if not dry_run:
                    compact(run.delta, table, files)
                yield table
        elif tables is not None and len(run.delta.table(table).file_uris()) >= MANY_FILES:
            if not dry_run:
                tables.optimize(run.delta.folder(table))
            yield table


def _vacuumed(run: MicroBatch, tables: Tables | None, *, dry_run: bool) -> Iterator[str]:
    if tables is None or run.ledger.oldest_unloaded() is not None:
        return
    for table in _tables(run):
        if not dry_run:
            tables.vacuum(run.delta.folder(table), KEPT_FOR)
        yield table
