"""`frontstage correlate …`: run micro-batches of correlations, and see what they answer, hold and cost."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from etl import settings as configuration
from etl.cli.console import Console, printable
from etl.cli.correlations.correlate_text import plan_lines
from etl.cli.correlations.documents_text import document_plan_lines
from etl.cli.correlations.sites_text import site_plan_lines
from etl.cli.database import existing_database, migrated_database
from etl.cli.options import Json, print_json
from etl.errors import TerminalError

if TYPE_CHECKING:
    from etl.settings import Settings
    from etl.streams.steps import CorrelationSteps

Name = Annotated[str, typer.Argument(metavar="CORRELATION", help="As its file names it.")]
Batches = Annotated[int, typer.Option(min=1, help="Batches to list.")]

_PLAN_LINES = {"documents": document_plan_lines, "sites": site_plan_lines}
app = typer.Typer(help="Join streams with streams: run, look, explain.", no_args_is_help=True)


@app.command("run")
def run(as_json: Json = False) -> None:
    """Run one micro-batch of all correlations now, without Airflow."""
    from etl.report.correlations.folder import write
    from etl.spark.runner.client import run_correlations

    own = configuration.load()
    run_id = f"manual-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    with Console(stderr=as_json) as console, migrated_database(own) as dsn:
        console.doing("micro-batch")
        result = run_correlations(own, lambda: dsn, "micro_batch", run_id, progress=console.say)
        if result["batch"] is not None:
            written = write(result, own.reports / "correlations", own.reports_kept)
            console.say(f"report     {written.html}")
    if as_json:
        print_json(result)


@app.command("status")
def status(as_json: Json = False) -> None:
    """Show streams, correlations, what their state holds, and how far event time has come."""
    own = configuration.load()
    with existing_database(own) as dsn:
        standing = _steps(own, dsn).status()
    if as_json:
        typer.echo(json.dumps(standing, indent=2))
        return
    console, last = Console(), standing["last_batch"]
    console.say("no batch has run yet" if last is None else f"batch {last['batch']} is {last['state']}")
    rows = [[name, one["rows"], one["segments"], one["latest"] or "–"] for name, one in standing["streams"].items()]
    console.table("Streams in the log", ["stream", "tuples", "segments", "newest event"], rows)
    columns = ["correlation", "since batch", "tuples held", "bytes", "units", "watermark"]
    console.table("Correlations", columns, [_standing(name, one) for name, one in standing["correlations"].items()])
    for name, shut in standing["shut"].items():
        console.say(printable(f"stream {name}: {shut['what']}; {shut['remedy']}"))
    for sentence in standing["errors"]:
        console.say(sentence)


def _standing(name: str, one: dict[str, Any]) -> list[Any]:
    if one["since"] is None:
        return [name, "–", 0, 0, 0, "has not run yet"]
    known = [at for at in one["watermarks"].values() if at is not None]
    return [
        name,
        str(one["since"]),
        one["state"]["tuples"],
        one["state"]["bytes"],
        one["units"],
        min(known, default="–"),
    ]


@app.command("history")
def history(as_json: Json = False, batches: Batches = 10) -> None:
    """List the latest batches: tuples in, pairs out, late and quarantined tuples, seconds."""
    own = configuration.load()
    with existing_database(own) as dsn:
        records = _steps(own, dsn).history(batches)
    if as_json:
        typer.echo(json.dumps(records, indent=2))
        return
    columns = ["batch", "state", "tuples", "quarantined", "late", "pairs", "scaled", "seconds"]
    Console().table("Batches of correlations", columns, [_record(one) for one in records])


def _record(one: dict[str, Any]) -> list[Any]:
    streams, correlations = one.get("streams", {}).values(), one.get("correlations", {}).values()
    return [
        str(one["batch"]), one["state"], sum(each["accepted"] for each in streams),
        sum(each["quarantined"] for each in streams), sum(sum(each["late"].values()) for each in correlations),
        sum(each["pairs"] for each in correlations), sum(len(each["scaling"]) for each in correlations),
        f"{sum(one['seconds'].values()):.1f}",
    ]  # fmt: skip


@app.command("explain")
def explain(correlation: Name, as_json: Json = False) -> None:
    """Draw the plan of one correlation: joins, indexes, routing, units, expected and measured costs."""
    own = configuration.load()
    with migrated_database(own) as dsn:
        plan = _steps(own, dsn).explain(correlation)
    lines = _PLAN_LINES.get(plan.get("kind", ""), plan_lines)(plan)
    typer.echo(json.dumps(plan, indent=2) if as_json else "\n".join(lines))


@app.command("list")
def list_declared(as_json: Json = False) -> None:
    """List what the files declare."""
    from etl.streams.declared import catalog

    found = catalog(configuration.load())
    shown = {
        "streams": [{"name": one.name, "landing": str(one.stream.source.landing)} for one in found.streams],
        "correlations": [{"name": one.name, "sql": one.sql.strip()} for one in found.correlations],
        "documents": [{"name": one.name, "stream": one.stream} for one in found.documents],
        "over_sites": [{"name": one.name, "sql": one.sql.strip()} for one in found.over_sites],
    }
    if as_json:
        typer.echo(json.dumps(shown, indent=2))
        return
    console = Console()
    console.table("Streams", ["stream", "lands in"], [list(one.values()) for one in shown["streams"]])
    console.table(
        "Correlations", ["correlation", "window", "lateness"],
        [[one.name, "full history" if one.within is None else str(one.within), str(one.lateness)]
         for one in found.correlations],
    )  # fmt: skip
    if found.documents:
        columns = ["correlation", "stream", "partitions", "lateness"]
        rows = [[one.name, one.stream, one.partitions, str(one.lateness)] for one in found.documents]
        console.table("Correlations of documents", columns, rows)
    if found.over_sites:
        over = [[one.name, one.plan, one.target or "where they are made", str(one.lateness)]
                for one in found.over_sites]  # fmt: skip
        console.table("Correlations over sites", ["correlation", "plan", "results at", "lateness"], over)


@app.command("check")
def check(as_json: Json = False) -> None:
    """Check the files of streams and correlations; every mistake with its file and line."""
    from etl.streams.declared import catalog, unreachable_sites

    found = catalog(configuration.load())
    errors = (*found.errors, *unreachable_sites(found.sites))
    if as_json:
        counts = {"streams": len(found.streams), "correlations": len(found.names)}
        print_json({**counts, "errors": [str(error) for error in errors]})
    for error in () if as_json else errors:
        typer.echo(str(error))
    if errors:
        raise typer.Exit(1)
    if not as_json:
        typer.echo(f"{len(found.streams)} streams and {len(found.names)} correlations can be used")


@app.command("report")
def report(
    batch: Annotated[int | None, typer.Option(min=1, help="A batch such as 12; the newest when left out.")] = None,
    as_json: Json = False,
) -> None:
    """Show where the page of a batch is."""
    from etl.report.correlations.folder import read

    folder = configuration.load().reports / "correlations"
    found = read(folder, batch)
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
        return
    point = found.point()
    typer.echo(f"batch {found.batch}: {found.state}, {point.accepted:,} tuples in, {point.pairs:,} pairs out")
    typer.echo(f"page       {folder / found.batch / 'index.html'}")


@app.command("reset")
def reset(
    correlation: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Let a correlation start anew: its state is forgotten, its tables stay."""
    own = configuration.load()
    if not yes and not typer.confirm(f"forget what {correlation} holds of its streams?", err=True):
        raise TerminalError(f"{correlation} stays as it is")
    with Console(stderr=as_json) as console, existing_database(own) as dsn:
        _steps(own, dsn).reset(correlation, console.say)
    if as_json:
        print_json({"correlation": correlation, "reset": True})


def _steps(own: Settings, dsn: str) -> CorrelationSteps:
    """The steps for read-only use, without Spark."""
    from etl.streams.steps import CorrelationSteps
    from etl.streams.tasks.in_process import InProcess

    return CorrelationSteps(own, dsn, InProcess())
