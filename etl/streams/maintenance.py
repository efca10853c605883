"""Maintenance of correlations: remove unused segments, files of undecided tries, state of undeclared correlations.

    every day   maintain ── correlations forgotten ─ segments ─ garbage ─ OPTIMIZE, VACUUM ─ archive, ledger

A run of state never refers to a row that is earlier than its own earliest tuple, so a segment whose latest event time
lies before every run of every correlation over its stream is unused (ADR 54). Runs under the lock; idempotent; may be
interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from etl.adapters import landing
from etl.adapters.delta.log import DeltaLog
from etl.contract.correlations.correlation import LoggedStream
from etl.pipeline.upkeep import retention
from etl.pipeline.upkeep.maintenance import GARBAGE_AFTER, KEPT_FOR, MANY_FILES, Keep, Tables
from etl.pipeline.upkeep.retention import Removed
from etl.streams.adhoc.upkeep import QueryUpkeep, query_tables, segments_of_queries
from etl.streams.declared import compiled, streams_of
from etl.streams.ledger import StreamInput
from etl.streams.publishing import delta_log
from etl.streams.recovery.notes import Notes
from etl.streams.sites import upkeep
from etl.streams.state.state_files import StateRun
from etl.streams.storage.log import Segment
from etl.streams.tasks.plan import LATE, QUARANTINE, RESULTS

if TYPE_CHECKING:
    from etl.streams.ledger import KnownCorrelation
    from etl.streams.microbatch import MicroBatch

_NEWEST_KEPT = 100  # newest batches, kept at any age


def maintain(run: MicroBatch, tables: Tables | None, keep: Keep, now: datetime) -> dict[str, Any]:
    """One round; `tables` is Delta's own maintenance, if there is a Spark for it."""
    forgotten = _forget_undeclared(run, dry_run=keep.dry_run)
    expired = _expired_segments(run)
    if not keep.dry_run and expired:
        run.ledger.forget_segments([one.number for one in expired], run.writer.epoch)
    named = {one.name for one in run.ledger.segments()}
    named |= {one.file for known in run.ledger.known().values() for one in known.state.runs}
    named |= {one.file for known in run.ledger.known_documents().values() for one in known.state.runs}
    queries = QueryUpkeep(run, now)
    named |= queries.files()
    freed = _remove_unnamed(run, named, expired, now, dry_run=keep.dry_run)
    result = {
        "dry_run": keep.dry_run,
        "correlations_forgotten": forgotten,
        "segments": len(expired),
        "files": freed.files,
        "bytes": freed.bytes,
        "parts": _remove_parts(run, now, dry_run=keep.dry_run),
        "optimized": list(_optimized(run, tables, dry_run=keep.dry_run)),
        "vacuumed": list(_vacuumed(run, tables, dry_run=keep.dry_run)),
        "gone_from_sites": upkeep.remove_gone(run.sites, dry_run=keep.dry_run),
        "site_batches_forgotten": upkeep.forget_history(run.sites, now - keep.history, dry_run=keep.dry_run),
        "archive": _remove_archive(run, now - keep.history, dry_run=keep.dry_run).files,
        "landed_again": sum(_archive(run, one).land_grown(now, dry_run=keep.dry_run) for one in run.catalog.streams),
        "queries_forgotten": queries.forget(dry_run=keep.dry_run),
        "batches_forgotten": 0 if keep.dry_run else _forget_batches(run, now - keep.history),
    }
    run.progress(f"correlations: {len(expired)} segments expired, {freed.files} files of {freed.bytes:,} bytes removed")
    return result


def _forget_undeclared(run: MicroBatch, *, dry_run: bool) -> list[str]:
    """Delete the state of correlations whose file was removed; a file with an error still counts as declared."""
    if run.catalog.broken:
        return []
    gone = sorted((run.ledger.known().keys() | run.ledger.known_documents().keys()) - run.catalog.names)
    if not dry_run and run.ledger.oldest_unloaded() is None:
        for name in gone:
            run.ledger.forget_correlation(name, run.writer.epoch)
    return gone


def _expired_segments(run: MicroBatch) -> list[Segment]:
    """Segments of loaded batches that no run of state can refer to."""
    if run.ledger.oldest_unloaded() is not None or run.catalog.broken:  # the streams of a broken file are unknown
        return []
    known = run.ledger.known()
    needed = _needed_since(run, known)
    in_use = segments_of_queries(run) | upkeep.needed_segments(run.sites)
    segments = [one for one in run.ledger.segments() if one.number not in in_use]
    return [one for one in segments if one.latest < needed.get(one.stream, one.latest + 1)]


def _needed_since(run: MicroBatch, known: dict[str, KnownCorrelation]) -> dict[str, int]:
    """The earliest event time of a stored tuple of any correlation, by stream."""
    since: dict[str, int] = {}
    for declared in run.catalog.correlations:
        runs: Iterable[StateRun] = known[declared.name].state.runs if declared.name in known else ()
        query = compiled(declared, run.catalog.streams)
        joins = [one.earliest for one in runs if one.step < len(query.steps)]
        for stream in streams_of(query):
            for earliest in joins:
                since[stream] = min(since.get(stream, earliest), earliest)
    for over in run.ledger.known_documents().values():
        for stored in over.state.stored:
            stream = over.declared["stream"]
            since[stream] = min(since.get(stream, stored.earliest), stored.earliest)
    return since


def _remove_unnamed(
    run: MicroBatch, named: set[str], expired: list[Segment], now: datetime, *, dry_run: bool
) -> Removed:
    """Remove files that the ledger does not name: expired ones at once, others when no try can be writing them."""
    freed, store = Removed(), run.places.store
    gone, before = {one.name for one in expired}, now.timestamp() - GARBAGE_AFTER.total_seconds()
    for folder in ("segments", "state"):
        for name, written in list(store.names(folder)):
            if name in gone or (name not in named and written < before):
                freed += Removed(1, 0 if dry_run else store.remove(name))
    return freed


def _remove_parts(run: MicroBatch, now: datetime, *, dry_run: bool) -> int:
    """Remove files that no decision and no log names, and old notes and group changes of loaded batches."""
    if run.ledger.oldest_unloaded() is not None:
        return 0
    removed = 0
    for delta, table in _tables(run):
        named = {uri.rpartition("/")[2] for uri in delta.table(table).file_uris()}
        parts = [path for path in delta.folder(table).glob("part-*.parquet") if path.name not in named]
        removed += _remove_old(parts, now, KEPT_FOR, dry_run=dry_run)
    notes = [*Notes(run.places.notes).paths(), *run.places.notes.glob(".*.tmp")]
    unneeded = [*run.places.views.glob("*.arrow"), *notes]
    return removed + _remove_old(unneeded, now, KEPT_FOR, dry_run=dry_run)


def _tables(run: MicroBatch) -> Iterator[tuple[DeltaLog, str]]:
    """The existing Delta tables."""
    tables = [(f"streams/{one.name}", table) for one in run.catalog.streams for table in (QUARANTINE, LATE)]
    tables += [(f"correlations/{name}", table) for name in sorted(run.catalog.names) for table in (RESULTS, LATE)]
    for root, table in tables:
        delta = delta_log(run.places, root)
        if (delta.folder(table) / "_delta_log").exists():
            yield delta, table
    for delta in query_tables(run):
        yield delta, RESULTS


def _optimized(run: MicroBatch, tables: Tables | None, *, dry_run: bool) -> Iterator[str]:
    for delta, table in _tables(run):
        if tables is not None and len(delta.table(table).file_uris()) >= MANY_FILES:
            if not dry_run:
                tables.optimize(delta.folder(table))
            yield str(delta.folder(table))


def _vacuumed(run: MicroBatch, tables: Tables | None, *, dry_run: bool) -> Iterator[str]:
    if tables is None or run.ledger.oldest_unloaded() is not None:
        return
    for delta, table in _tables(run):
        if not dry_run:
            tables.vacuum(delta.folder(table), KEPT_FOR)
        yield str(delta.folder(table))


def _remove_archive(run: MicroBatch, before: datetime, *, dry_run: bool) -> Removed:
    """Remove whole days of archived input."""
    total = Removed()
    for stream in run.catalog.streams:
        for folder in retention.days(run.places.archive / stream.name, until=before.date()):
            total += retention.remove_folder(folder, dry_run=dry_run)
    return total


def _archive(run: MicroBatch, stream: LoggedStream) -> retention.Archive:
    source, folder = stream.stream.source, run.places.archive / stream.name
    return retention.Archive(source.landing, folder, source.format, StreamInput(run.ledger, stream.name))


def _remove_old(paths: list[Any], now: datetime, age: timedelta, *, dry_run: bool) -> int:
    before = min(now.timestamp(), time.time()) - age.total_seconds()
    old = [path for path in paths if path.stat().st_mtime < before]
    for path in () if dry_run else old:
        path.unlink(missing_ok=True)
    return len(old)


def _forget_batches(run: MicroBatch, before: datetime) -> int:
    here = []
    for stream in run.catalog.streams:
        source = stream.stream.source
        here += [stream.name.encode() + b"/" + file.name for file in landing.scan(source.landing, source.format)]
    return run.ledger.book.forget(before, here, _NEWEST_KEPT)
