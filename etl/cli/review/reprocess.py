"""`frontstage reprocess`: days are read again, with the rules and masters of today."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime
from typing import Annotated

import typer

from etl import settings as configuration
from etl.cli.database import migrated_database
from etl.cli.options import Json, print_json

First = Annotated[str, typer.Option("--from", metavar="DAY", help="The first day (UTC), such as 2026-11-01.")]
Last = Annotated[str | None, typer.Option("--to", metavar="DAY", help="The last day; the first when left out.")]


def reprocess(
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE", help="A pipeline.")],
    first: First,
    last: Last = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how much it would be.")] = False,
    by: Annotated[str | None, typer.Option(help="Who asks; your account's name when left out.")] = None,
    as_json: Json = False,
) -> None:
    """Try again what was refused on these days, or waits since then, with today's rules and masters.

    The next batch does it, or the next ones. Facts stay as they are, and so does what a person has rejected.
    """
    from etl.pipeline.review.days import Days, NotDays
    from etl.pipeline.review.desk import open_desk
    from etl.pipeline.review.release import Person
    from etl.pipeline.review.reprocess import preview

    own, days = configuration.load(), Days.parse(first, last)
    if days is None:
        raise NotDays(first, last or "")
    with migrated_database(own) as dsn, open_desk(own, dsn, pipeline) as desk:
        if dry_run:
            found = preview(desk.quarantine, desk.ledger, days)
        else:
            person = Person(by or getpass.getuser(), datetime.now(UTC), f"{days} are processed again")
            found = desk.reprocess(days, person)
    if as_json:
        print_json({"pipeline": pipeline, "dry_run": dry_run, **found.as_json()})
        return
    for sentence in found.sentences():
        typer.echo(sentence)
    typer.echo("nothing was done: this is a dry run" if dry_run else "the next batch reads them")
