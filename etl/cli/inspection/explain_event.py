"""`frontstage explain-event`: where one event is, how it got there, with which master versions, from which file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from etl import settings as configuration
from etl.cli.console import printable
from etl.cli.database import migrated_database
from etl.cli.options import Json

if TYPE_CHECKING:
    from etl.pipeline.inspection.event_trace import EventTrace

_PLACES = {
    "fact": "is in the fact table",
    "held": "was accepted, and waits for a decision: the audit of its batch failed",
    "backlog": "waits in the backlog",
    "quarantine": "is in quarantine",
    "landing": "has landed, and no batch has decided about it",
    "nowhere": "is not known here",
}


def explain_event(
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE", help="A pipeline.")],
    key: Annotated[list[str], typer.Argument(metavar="KEY…", help="The event's key: a value for each of its fields.")],
    raw: Annotated[bool, typer.Option(help="Look into the raw files, too.")] = True,
    as_json: Json = False,
) -> None:
    """Show where an event is and how it got there."""
    from etl.adapters import ledger
    from etl.pipeline.inspection.event_trace import Tracer
    from etl.pipeline.prepare import Preparer, places_of

    own = configuration.load()
    with migrated_database(own) as dsn:
        declared = Preparer(own, dsn).declared(pipeline)
        with ledger.reading(dsn, pipeline) as book:
            found = Tracer(declared, places_of(own, declared), book, dsn, key).trace(datetime.now(UTC), raw=raw)
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2))
    else:
        typer.echo("\n".join(printable(line) for line in _text(found)))
    if found.place == "nowhere":
        raise typer.Exit(1)


def _text(found: EventTrace) -> Iterator[str]:
    yield f"{found.pipeline} {' '.join(found.key)} {_PLACES[found.place]}"
    for one in found.landed:
        reader = "" if one.batch is None else f"batch {one.batch}: "
        yield f"  landed      {reader}{one.file}, line {one.line} ({one.role})"
    for refused in found.quarantine:
        before = f", before that {', '.join(refused['history'])}" if refused["history"] else ""
        yield f"  quarantine  {refused['row']}: {', '.join(refused['reasons'])} ({refused['state']}{before})"
    for waiting in found.backlog:
        state = "waits" if waiting["open"] else "waits no longer"
        since = f"since batch {waiting['batch']}, {waiting['since']}"
        yield f"  backlog     {since}: {', '.join(waiting['reasons'])} ({state})"
    yield from _accepted(found)
    for number, batch in found.batches.items():
        yield f"  batch {number}  {batch['state']}{_loaded(batch)}"


def _accepted(found: EventTrace) -> Iterator[str]:
    if found.place == "fact":
        yield f"  fact        batch {found.claim['batch']}{'' if found.fact else ', which is not published yet'}"
    for name, master in found.masters.items():
        yield f"  master      {name}: version {master['version']}, dimension key {master['dimension_key']}"
    for table, row in found.mart.items():
        yield f"  mart        {table}: {'not there' if row is None else 'since ' + row['loaded_at']}"
    for table in found.aggregates:
        yield f"  mart        {table}: counted in"


def _loaded(batch: dict[str, Any]) -> str:
    return f" at {batch['loaded_at']} (run {batch['run_id']})" if batch.get("loaded_at") else ""
