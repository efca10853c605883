"""`frontstage run`, `status` and `report`: micro-batches and what became of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated

import typer

from etl import settings as configuration
from etl.cli.console import Console
from etl.cli.database import existing_database, migrated_database
from etl.cli.options import Json


def run(
    release: Annotated[str | None, typer.Option(help="Let this held batch pass, such as 12 or 12.1.")] = None,
) -> None:
    """Run one micro-batch now, without Airflow."""
    from etl.spark.client import run_step

    own = configuration.load()
    run_id = f"manual-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    with Console() as console, migrated_database(own) as dsn:
        console.doing("ingest and enrich")
        result = run_step(own, lambda: dsn, "ingest_enrich", run_id, release=release, say=console.say)
        if result["batch"] is None:
            return
        try:
            for step in ("validate", "load"):
                console.doing(step)
                run_step(own, lambda: dsn, step, run_id, batch=result["batch"], say=console.say)
        finally:
            run_step(own, lambda: dsn, "report", run_id, batch=result["batch"], say=console.say)


def status(as_json: Json = False, batches: Annotated[int, typer.Option(min=1, help="Batches to list.")] = 10) -> None:
    """Show what runs, where every order is, and the latest batches."""
    from etl.adapters import ledger
    from etl.stack.state import state

    own = configuration.load()
    running = state(own)
    with existing_database(own) as dsn, ledger.reading(dsn) as book:
        totals, records = book.totals(), book.history(batches)
    if as_json:
        listed = [{"batch": str(r.batch), "state": r.state, **r.counts.as_json()} for r in records]
        typer.echo(json.dumps({"services": running.services, "totals": totals, "batches": listed}, indent=2))
        return
    console = Console()
    console.table("Services", ["service", "state"], sorted(running.services.items()) or [("none", "not running")])
    console.table("Every order is in one place", list(totals), [list(totals.values())])
    columns = ["batch", "state", "landed", "accepted", "quarantined", "duplicates", "waiting", "seconds"]
    rows = [
        [
            str(r.batch), r.state, r.counts.landed, r.counts.accepted, r.counts.quarantined, r.counts.duplicates,
            r.counts.backlog_added, f"{sum(r.seconds.values()):.1f}",
        ]
        for r in records
    ]  # fmt: skip
    console.table("Batches", columns, rows)


def report(
    batch: Annotated[str | None, typer.Argument(help="A batch such as 12 or 12.1; the newest when left out.")] = None,
    as_json: Json = False,
) -> None:
    """Show a batch's run report and where its page is."""
    from etl.report.folder import read

    own = configuration.load()
    found = read(own.reports, batch)
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
        return
    typer.echo(f"batch {found.batch}: {found.outcome}, {found.message}")
    typer.echo(f"page       {own.reports / found.batch / 'index.html'}")
    typer.echo(f"data docs  {own.data_docs / 'index.html'}")
