"""`frontstage backlog list|show|drain`: events that wait, and how to be rid of them while it is quiet."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated

import typer

from etl import settings as configuration
from etl.cli.console import Console, printable
from etl.cli.database import existing_database, migrated_database
from etl.cli.options import Json

app = typer.Typer(help="Events that wait, for time, a master row or a person.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="PIPELINE")]


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List how much waits in every pipeline, for what, and since when."""
    from etl.adapters import ledger
    from etl.contract.load import load_all
    from etl.pipeline.inspection.backlog import heaps

    own = configuration.load()
    found = []
    with existing_database(own) as dsn:
        for one in load_all(own.pipelines, own.var).pipelines:
            with ledger.reading(dsn, one.name) as book:
                found += heaps(book)
    if as_json:
        typer.echo(json.dumps([heap.as_json() for heap in found], indent=2))
        return
    rows = [[heap.pipeline, heap.waits_for, heap.events, heap.files, f"{heap.oldest:%F %T}"] for heap in found]
    total = sum(heap.events for heap in found)
    Console().table(f"{total:,} events wait", ["pipeline", "waits for", "events", "files", "oldest since"], rows)


@app.command()
def show(
    pipeline: Name,
    limit: Annotated[int, typer.Option(min=1, help="Events to show, oldest first.")] = 50,
    as_json: Json = False,
) -> None:
    """Show events that wait for time or for a master row."""
    from etl.adapters import ledger
    from etl.pipeline.inspection.backlog import events
    from etl.pipeline.prepare import Preparer, places_of

    own = configuration.load()
    with existing_database(own) as dsn:
        declared = Preparer(own, dsn).declared(pipeline)
        with ledger.reading(dsn, declared.name) as book:
            found = list(islice(events(declared, places_of(own, declared), book), limit))
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    columns = ["key", "waits for", "reasons", "since", "file and line"]
    rows = [
        [", ".join(one["key"]), one["waits_for"], ", ".join(one["reasons"]), one["since"],
         f"{printable(one['file'])}:{one['line']}"]
        for one in found
    ]  # fmt: skip
    Console().table(f"{declared.name}: {len(found)} events that wait, oldest first", columns, rows)


@app.command("drain")
def drain_(
    pipeline: Name,
    minutes: Annotated[float, typer.Option(min=0.1, help="When to stop, if it takes so long.")] = 30.0,
    as_json: Json = False,
) -> None:
    """Run batches until no shed event waits, as the DAG `backlog` does in quiet hours."""
    from etl.adapters import ledger
    from etl.pipeline.inspection.backlog import drain, waiting_for_time
    from etl.pipeline.prepare import Preparer
    from etl.spark.runner.client import step_runner

    own = configuration.load()
    until = time.monotonic() + 60 * minutes
    with Console(stderr=as_json) as console, migrated_database(own) as dsn:
        name = Preparer(own, dsn).declared(pipeline).name

        def waiting() -> int:
            with ledger.reading(dsn, name) as book:
                return waiting_for_time(book)

        with step_runner(own, lambda: dsn, console.say) as run_step:

            def run_batch() -> int | None:
                run_id = f"drain-{datetime.now(UTC):%Y%m%dT%H%M%S}"
                batch: int | None = run_step("micro_batch", name, run_id, progress=console.say)["batch"]
                return batch

            done = drain(name, waiting, run_batch, lambda: time.monotonic() < until, console.say)
    if as_json:
        typer.echo(json.dumps(done.as_json(), indent=2))
    else:
        typer.echo(f"{name}: {done.before - done.after} of {done.before} shed events are back, {done.batches} batches")
    if done.after:
        raise typer.Exit(75)
