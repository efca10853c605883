"""`frontstage report …`: a batch's run report, a day or month of batches, what is unusual, and the daily digest.

`frontstage report NAME --batch 12` means `frontstage report show NAME --batch 12`.
"""

from __future__ import annotations

import getpass
import json
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from etl import settings as configuration
from etl.cli.batches import Name, chosen, declared
from etl.cli.console import Console
from etl.cli.database import existing_database
from etl.cli.options import Json, print_json
from etl.errors import TerminalError


class Span(StrEnum):
    """How far back a history goes."""

    day = "24h"
    month = "30d"


class ShowByDefault(TyperGroup):
    """A command group whose first command is the default."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ("--help", "-h")):
            args = ["show", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=ShowByDefault, help="Reports: of a batch, of a day, and what is unusual.", no_args_is_help=False)


@app.command()
def show(
    pipeline: Name = None,
    batch: Annotated[int | None, typer.Option(help="A batch such as 12; the newest when left out.")] = None,
    as_json: Json = False,
) -> None:
    """Show a batch's run report and where its page is."""
    from etl.report.folder import read

    own = configuration.load()
    folder = own.reports / chosen(own, pipeline)
    found = read(folder, None if batch is None else str(batch))
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
        return
    typer.echo(f"batch {found.batch}: {found.outcome}, {found.message}")
    for one in found.unusual:
        typer.echo(f"unusual    {one.check}: {one.sentence}{f' ({one.acknowledged})' if one.acknowledged else ''}")
    typer.echo(f"page       {folder / found.batch / 'index.html'}")
    typer.echo(f"data docs  {own.data_docs / 'index.html'}")


@app.command()
def history(
    pipeline: Name = None,
    span: Annotated[Span, typer.Option(help="24h in steps of 15 minutes, or 30d in steps of 8 hours.")] = Span.day,
    as_json: Json = False,
) -> None:
    """List what was loaded in the last day or month, step by step, as the page's History draws it."""
    from etl.adapters import postgres
    from etl.page.queries.history import history as loaded
    from etl.page.queries.overview import backlog_open
    from etl.report.figures import counted, duration, percent

    own = configuration.load()
    name = chosen(own, pipeline)
    with existing_database(own) as dsn, postgres.connect(dsn) as connection:
        found = loaded(connection, name, span.value, datetime.now(UTC), backlog_open(connection, name))
    points = [point for point in found.points if point.batches]
    if as_json:
        rows = [{**asdict(point), "at": point.at.isoformat()} for point in points]
        print_json({"pipeline": name, "span": span.value, "step_s": found.step.total_seconds(), "points": rows})
        return
    columns = ["from (UTC)", "batches", "lines", "accepted", "refused", "waiting", "hits", "p95"]
    shown = [
        [
            f"{at.at:%d %b %H:%M}", at.batches, at.lines, at.accepted, at.quarantined, at.backlog_open or 0,
            percent(at.hit_ratio), duration(at.fresh_p95_s),
        ]
        for at in points
    ]  # fmt: skip
    Console().table(f"{name}: {counted(found.batches, 'batch', 'batches')} in the last {span.value}", columns, shown)


@app.command()
def acknowledge(
    pipeline: Annotated[str, typer.Argument(help="A pipeline.")],
    batch: Annotated[int, typer.Argument(min=1, help="The batch, such as 12.")],
    check: Annotated[str | None, typer.Option(help="One check, such as mean:weight; all when left out.")] = None,
    note: Annotated[str, typer.Option(help="Why it is all right, for those who come after.")] = "",
    new_normal: Annotated[
        bool, typer.Option("--new-normal", help="Learn bounds from this batch on; what was before is forgotten.")
    ] = False,
    by: Annotated[str | None, typer.Option(help="Who has seen it; the account when left out.")] = None,
    as_json: Json = False,
) -> None:
    """Say that you have seen what is unusual about a batch."""
    from etl.adapters import ledger
    from etl.adapters.profiles import Profiles
    from etl.pipeline.inspection import reporting
    from etl.pipeline.prepare import Preparer

    own, who = configuration.load(), by or getpass.getuser()
    with existing_database(own) as dsn:
        known = Preparer(own, dsn).declared(pipeline)
        with ledger.reading(dsn, pipeline) as book:
            checks = Profiles(book).acknowledge(batch, check, who, datetime.now(UTC), note, new_normal=new_normal)
            reporting.report(own, book, book.get(batch), known)  # the page says so too
    if as_json:
        typer.echo(json.dumps({"pipeline": pipeline, "batch": batch, "checks": checks, "new_normal": new_normal}))
        return
    for one in checks:
        typer.echo(f"batch {batch} of {pipeline}: {one} is acknowledged by {who}")


@app.command()
def digest(
    day: Annotated[str | None, typer.Option(help="A day such as 2026-11-17 (UTC); yesterday when left out.")] = None,
    as_json: Json = False,
) -> None:
    """Write the digest of a day: trends, unusual figures, top failing rules, examples."""
    from etl.pipeline.inspection import digest as digests
    from etl.report.digest.folder import read

    own, now = configuration.load(), datetime.now(UTC)
    asked = _day(day, now.date())
    with existing_database(own) as dsn:
        written = digests.write(own, dsn, declared(own), asked, now)
    made = read(own.digests, asked)
    if as_json:
        typer.echo(made.model_dump_json(indent=2))
        return
    typer.echo(f"{asked}: {made.headline}")
    typer.echo(f"page  {written.html}")
    typer.echo(f"JSON  {written.json}")


def _day(given: str | None, today: date) -> date:
    try:
        return today - timedelta(days=1) if given is None else date.fromisoformat(given)
    except ValueError:
        raise TerminalError(f"--day {given!r} is not a day; write it as {today.isoformat()}") from None
