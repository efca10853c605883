"""`frontstage held list|release|reject`: batches whose audit failed, as Airflow's required actions have them."""

from __future__ import annotations

import getpass
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from etl import settings as configuration
from etl.cli.console import Console
from etl.cli.database import existing_database, migrated_database
from etl.cli.options import Json

if TYPE_CHECKING:
    from etl.pipeline.review.held import Word

app = typer.Typer(help="Batches that failed their audit: look, release, reject.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="PIPELINE")]
Batch = Annotated[int, typer.Argument(metavar="BATCH", min=1)]
By = Annotated[str | None, typer.Option(help="Who decides; you, when left out.")]


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List batches that wait for somebody's decision."""
    from etl.contract.load import load_all
    from etl.pipeline.review.held import questions

    own = configuration.load()
    with existing_database(own) as dsn:
        found = questions(dsn, load_all(own.pipelines, own.var).pipelines)
    if as_json:
        typer.echo(json.dumps([one.as_json() for one in found], indent=2))
        return
    rows = [
        [one.pipeline, str(one.batch), one.events, ", ".join(f["name"] for f in one.failed), f"{one.since:%F %T}",
         "wait" if one.others_wait else "go on"]
        for one in found
    ]  # fmt: skip
    columns = ["pipeline", "batch", "events", "failed", "since", "later batches"]
    Console().table(f"{len(found)} batches wait for a decision", columns, rows)


@app.command()
def release(
    pipeline: Name, batch: Batch, by: By = None, note: Annotated[str, typer.Option()] = "", as_json: Json = False
) -> None:
    """Let the accepted events of a batch into the warehouse; the next run does it."""
    _answer(pipeline, batch, "released", by, note, as_json)


@app.command()
def reject(
    pipeline: Name,
    batch: Batch,
    note: Annotated[str, typer.Option(help="Why, in your words.")],
    by: By = None,
    as_json: Json = False,
) -> None:
    """Put the accepted events of a batch into quarantine; the next run does it. They may be sent again."""
    _answer(pipeline, batch, "rejected", by, note, as_json)


def _answer(pipeline: str, batch: int, word: Word, by: str | None, note: str, as_json: bool) -> None:
    from etl.pipeline.prepare import Preparer
    from etl.pipeline.review.held import answer
    from etl.pipeline.review.release import Person

    own = configuration.load()
    person = Person(by or getpass.getuser(), datetime.now(UTC), note)
    with migrated_database(own) as dsn:
        name = Preparer(own, dsn).declared(pipeline).name
        first = answer(own, dsn, name, batch, word, person)
    if as_json:
        typer.echo(json.dumps({"pipeline": name, "batch": batch, "word": word, "decided_before": not first}))
    elif first:
        typer.echo(f"batch {batch} of {name} is {word}; the next run acts on it")
    else:
        typer.echo(f"somebody has decided about batch {batch} of {name} before; that stays")
