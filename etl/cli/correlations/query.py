"""`frontstage query …`: ad-hoc joins over streams, created and dropped while the streams run."""

from __future__ import annotations

import getpass
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from etl import settings as configuration
from etl.cli.console import Console
from etl.cli.correlations.query_text import explain_lines, show_lines
from etl.cli.database import migrated_database
from etl.cli.options import Json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from etl.streams.adhoc.service import Queries

from contextlib import contextmanager

Name = Annotated[str, typer.Argument(metavar="NAME", help="Lower-case letters, digits and _.")]
Owner = Annotated[str | None, typer.Option(help="Who asks; your account's name when left out.")]
Admin = Annotated[bool, typer.Option("--admin", help="Also when it belongs to somebody else.")]

app = typer.Typer(help="Ad-hoc joins over streams: create, look, drop.", no_args_is_help=True)


@app.command("create")
def create(
    name: Name,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="A SELECT that joins two to five streams.")],
    within: Annotated[str, typer.Option(help="The window: all tuples of a result lie within it, such as 2m.")],
    expires: Annotated[str | None, typer.Option(help="When it goes by itself, such as 7d.")] = None,
    owner: Owner = None,
    as_json: Json = False,
) -> None:
    """Create a query; it sees what comes with the next micro-batch, and later."""
    with _queries() as queries:
        made = queries.create(name, sql, within, owner or getpass.getuser(), expires)
    if as_json:
        typer.echo(json.dumps(made, indent=2))
        return
    typer.echo(f"{name} is created and takes effect with the next micro-batch; it expires at {made['expires_at']}")
    typer.echo(f"table      {made['table']}")


@app.command("list")
def list_queries(as_json: Json = False) -> None:
    """List queries with their owners, states and rates."""
    with _queries() as queries:
        found = queries.summaries()
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    columns = ["query", "owner", "state", "window", "in effect", "rows", "rows/s", "expires"]
    Console().table(_many(len(found)), columns, [_row(one) for one in found])


def _many(queries: int) -> str:
    return "1 query" if queries == 1 else f"{queries} queries"


def _row(one: dict[str, Any]) -> list[Any]:
    effect = "next batch" if one["deployment_s"] is None else f"in {one['deployment_s']:.1f} s"
    return [
        one["name"], one["owner"], one["state"]["name"], f"{one['within_s']:.0f} s", effect, int(one["rows"]),
        f"{one['rows_per_s']:.1f}", one["expires_at"][:10],
    ]  # fmt: skip


@app.command("show")
def show(name: Name, as_json: Json = False) -> None:
    """Show one query: its plan, what it shares, its rates, and how long its deployment took."""
    with _queries() as queries:
        found = queries.show(name)
    typer.echo(json.dumps(found, indent=2) if as_json else "\n".join(show_lines(found)))


@app.command("explain")
def explain(name: Name, as_json: Json = False) -> None:
    """Explain how a query runs beside the others, and the decisions that led to it."""
    with _queries() as queries:
        found = queries.explain(name)
    typer.echo(json.dumps(found, indent=2) if as_json else "\n".join(explain_lines(found)))


@app.command("rows")
def rows(
    name: Name,
    limit: Annotated[int, typer.Option(min=1, help="Rows to show.")] = 20,
    by_batch: Annotated[bool, typer.Option("--by-batch", help="Aggregates batch by batch, not added up.")] = False,
    as_json: Json = False,
) -> None:
    """Show what a query has answered: the newest rows, or its aggregates so far."""
    with _queries() as queries:
        found = queries.rows(name, limit, by_batch=by_batch)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    shown = [[str(row[column]) for column in found["columns"]] for row in found["rows"]]
    Console().table(f"{name}: {len(shown)} of {found['total']:,} rows", found["columns"], shown)


@app.command("delete")
def delete(name: Name, owner: Owner = None, admin: Admin = False, as_json: Json = False) -> None:
    """Delete a query; it has no result in the next micro-batch. Its table stays for a week."""
    with _queries() as queries:
        gone = queries.delete(name, owner or getpass.getuser(), admin=admin)
    typer.echo(json.dumps(gone) if as_json else f"{name} is deleted; its table stays for a week: {gone['table']}")


@app.command("resume")
def resume(name: Name, owner: Owner = None, admin: Admin = False, as_json: Json = False) -> None:
    """Let a suspended query run again, from the next micro-batch on."""
    with _queries() as queries:
        found = queries.resume(name, owner or getpass.getuser(), admin=admin)
    typer.echo(json.dumps(found, indent=2) if as_json else f"{name} runs again with the next micro-batch")


@contextmanager
def _queries() -> Iterator[Queries]:
    from etl.streams.adhoc.service import Queries

    own = configuration.load()
    with migrated_database(own) as dsn:
        yield Queries(own, dsn)
