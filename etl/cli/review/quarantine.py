"""`frontstage quarantine list`, `show`, `release` and `reject`: refused lines, and what people decide about them."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from etl import settings as configuration
from etl.cli.console import Console, printable
from etl.cli.database import migrated_database
from etl.cli.options import Json

if TYPE_CHECKING:
    from etl.pipeline.review.desk import Desk
    from etl.pipeline.review.quarantine import Selection
    from etl.pipeline.review.release import Outcome, Person

app = typer.Typer(
    help="Refused lines: look at them, send them in again, or keep them out for good.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(metavar="PIPELINE", help="A pipeline, or a stream as streams/NAME.")]
Rows = Annotated[list[str] | None, typer.Argument(metavar="[ROW]…", help="Refused lines, such as 12-3.")]
Batch = Annotated[int | None, typer.Option(min=1, help="Lines that this batch refused.")]
Reason = Annotated[str | None, typer.Option(help="Lines that were refused for this reason.")]
Key = Annotated[list[str] | None, typer.Option(help="Lines with this key; once for each of its fields, in order.")]
By = Annotated[str | None, typer.Option(help="Who decides; your account's name when left out.")]
Note = Annotated[str, typer.Option(help="Why, in your words.")]
_SHOWN_OF_RAW = 60


@app.command("list")
def list_lines(
    pipeline: Name,
    batch: Batch = None,
    reason: Reason = None,
    key: Key = None,
    every: Annotated[bool, typer.Option("--all", help="Also those that are released or rejected.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Lines to list.")] = 50,
    as_json: Json = False,
) -> None:
    """List refused lines, newest batch first."""
    wanted = _selection(None, batch, reason, key, open_only=not every)
    with _desk(pipeline) as desk:
        lines = [desk.quarantine.shown(line) for line in islice(desk.quarantine.find(wanted), limit)]
    if as_json:
        typer.echo(json.dumps(lines, indent=2))
        return
    columns = ["row", "state", "reasons", "key", "file and line", "line as it came"]
    Console().table(f"{pipeline}: {len(lines)} refused lines", columns, [_row(line) for line in lines])


def _row(line: dict[str, Any]) -> list[str]:
    key = "" if line["key"] is None else ", ".join(line["key"])
    came = line["raw"] if len(line["raw"]) <= _SHOWN_OF_RAW else f"{line['raw'][:_SHOWN_OF_RAW]}…"
    place = f"{line['file']}:{line['line']}"
    return [line["row"], line["state"], ", ".join(line["reasons"]), key, place, came]


@app.command()
def show(pipeline: Name, row: Annotated[str, typer.Argument(metavar="ROW")], as_json: Json = False) -> None:
    """Show one refused line with its history."""
    from etl.adapters.verdicts import RowId

    with _desk(pipeline) as desk:
        line = desk.quarantine.get(RowId.parse(row))
        found = desk.quarantine.shown(line)
        found["history"] = [desk.quarantine.shown(earlier) for earlier in desk.quarantine.history(line)]
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    for one in (*found["history"], found):
        typer.echo("\n".join(_paragraph(one)))


def _paragraph(line: dict[str, Any]) -> Iterator[str]:
    yield f"{line['row']}  refused {line['refused_at']}: {', '.join(line['reasons'])}"
    yield f"  from     {printable(line['file'])}, line {line['line']}, landed {line['landed_at']}"
    yield f"  line     {printable(line['raw'])}"
    verdict = line["verdict"]
    if verdict is None:
        yield "  open     nobody has decided about it"
        return
    note = f": {printable(verdict['note'])}" if verdict["note"] else ""
    yield f"  {verdict['word']} {verdict['at']} by {printable(verdict['by'])}{note}"


@app.command()
def release(
    pipeline: Name,
    rows: Rows = None,
    batch: Batch = None,
    reason: Reason = None,
    key: Key = None,
    by: By = None,
    note: Note = "",
    as_json: Json = False,
) -> None:
    """Send refused lines through the front door again; the next batch reads them."""
    with _desk(pipeline) as desk:
        outcome = desk.release(_selection(rows, batch, reason, key), _person(by, note))
    _tell(outcome, "released", as_json)


@app.command()
def reject(
    pipeline: Name,
    note: Annotated[str, typer.Option(help="Why, in your words.")],
    rows: Rows = None,
    batch: Batch = None,
    reason: Reason = None,
    key: Key = None,
    by: By = None,
    as_json: Json = False,
) -> None:
    """Keep refused lines out for good."""
    with _desk(pipeline) as desk:
        outcome = desk.reject(_selection(rows, batch, reason, key), _person(by, note))
    _tell(outcome, "rejected", as_json)


def _tell(outcome: Outcome, word: str, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(outcome.as_json(), indent=2))
    else:
        typer.echo(f"{len(outcome.done)} lines {word}")
        if outcome.decided_before:
            typer.echo(f"{len(outcome.decided_before)} were decided about before; that stays")
        for row, why in outcome.impossible:
            typer.echo(f"{row} cannot be {word}: {why}")
    if outcome.impossible:
        raise typer.Exit(1)


def _selection(
    rows: list[str] | None, batch: int | None, reason: str | None, key: list[str] | None, *, open_only: bool = True
) -> Selection:
    from etl.adapters.verdicts import RowId
    from etl.pipeline.review.quarantine import Selection

    named = frozenset(RowId.parse(row) for row in rows or ())
    return Selection(named, batch, reason, tuple(key or ()), open_only)


def _person(by: str | None, note: str) -> Person:
    from etl.pipeline.review.release import Person

    return Person(by or getpass.getuser(), datetime.now(UTC), note)


@contextmanager
def _desk(pipeline: str) -> Iterator[Desk]:
    from etl.streams.refused import open_desk

    own = configuration.load()
    with migrated_database(own) as dsn, open_desk(own, dsn, pipeline) as desk:
        yield desk
