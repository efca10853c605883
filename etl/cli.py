"""The `frontstage` command: thin wiring from words to the parts that do the work.

Exit codes: 0 done, 1 something is wrong with the data or the work, 2 or 64 a bad option, 69 something is missing or
taken, 75 try again later, 78 a wrong setting, 130 interrupted.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from etl import cli_explain, cli_master
from etl import settings as configuration
from etl.console import Teller, complain
from etl.errors import FrontstageError, MissingPart
from etl.logs import structured
from etl.settings import Settings

app = typer.Typer(
    name="frontstage",
    help="Near-real-time warehouse ETL: enrich a stream of orders, check it, load it, and lose none.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
generate = typer.Typer(help="Make master data and orders to work on.", no_args_is_help=True)
app.add_typer(generate, name="generate")
app.add_typer(cli_master.app, name="master")

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same data.")]


@app.command()
def demo(
    customers: Annotated[int, typer.Option(min=1000)] = 100_000,
    products: Annotated[int, typer.Option(min=100)] = 20_000,
    orders: Annotated[int, typer.Option(min=1000)] = 200_000,
    waves: Annotated[int, typer.Option(min=1, max=20, help="Micro-batches to run.")] = 4,
) -> None:
    """See it work: start everything, let Airflow run micro-batches, show where every order is, stop everything."""
    from etl.stack import demo as demonstration

    home = configuration.load().var / "demo"
    places = {name: home / name for name in ("landing", "archive", "warehouse", "master_pages")}
    own = configuration.load(var=home, schedule="none", postgres_dsn=None, airflow_dsn=None, **places)
    size = demonstration.DemoSize(customers, products, orders, waves)
    with Teller() as teller:
        summary = demonstration.run(own, size, teller)
        teller.say("everything is stopped")
    _show_summary(teller, summary, own.var / "summary.json")


@app.command()
def up(
    rate: Annotated[float, typer.Option(help="Orders per second of the live generator; 0 for none.")] = 200.0,
) -> None:
    """Start the stack with a live generator and leave it running; prints the address and the login."""
    from etl.stack.airflow import Airflow
    from etl.stack.airflow_services import USER
    from etl.stack.credentials import credentials
    from etl.stack.detached import down as stop
    from etl.stack.detached import up_detached
    from etl.stack.stack import Extra

    own = configuration.load()
    live = Extra("generator", (sys.executable, "-m", "etl.cli", "generate", "live", "--rate", str(rate)))
    with Teller() as teller:
        teller.doing("starting Postgres, Spark and Airflow")
        state = up_detached(
            own,
            extras=[live] if rate > 0 else [],
            on_postgres="etl.stack.first_data:prepare",
            progress=teller.say,
        )
        try:
            with Airflow.of(own) as airflow:
                for name in ("orders", "master_data"):
                    airflow.wait_for_dag(name)
                    airflow.unpause(name)
        except BaseException:
            stop(own)
            raise
    typer.echo(f"Airflow      {state.airflow_url}   user {USER}, password {credentials(own).airflow_password}")
    typer.echo(f"landing      {own.landing}")
    typer.echo(f"run reports  {own.reports / 'index.html'}")
    typer.echo(f"data docs    {own.data_docs / 'index.html'}")
    typer.echo("`frontstage down` ends it, `frontstage status` shows how it does")


@app.command()
def down() -> None:
    """Stop what `up` started, and wait until nothing of it runs."""
    from etl.stack.detached import down as stop

    typer.echo("stopped" if stop(configuration.load()) else "nothing was running")


@app.command()
def run(
    release: Annotated[str | None, typer.Option(help="Let this held batch pass, such as 12 or 12.1.")] = None,
) -> None:
    """Run one micro-batch now, without Airflow."""
    from etl.spark.client import run_step

    own = configuration.load()
    run_id = f"manual-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    with Teller() as teller, _database(own) as dsn:
        teller.doing("ingest and enrich")
        told = run_step(own, lambda: dsn, "ingest_enrich", run_id, release=release, say=teller.say)
        if told["batch"] is None:
            return
        try:
            for step in ("validate", "load"):
                teller.doing(step)
                run_step(own, lambda: dsn, step, run_id, batch=told["batch"], say=teller.say)
        finally:
            run_step(own, lambda: dsn, "report", run_id, batch=told["batch"], say=teller.say)


@app.command()
def status(as_json: Json = False, batches: Annotated[int, typer.Option(min=1, help="Batches to list.")] = 10) -> None:
    """Show what runs, where every order is, and the latest batches."""
    from etl.adapters import ledger
    from etl.stack.state import state

    own = configuration.load()
    running = state(own)
    with _existing_database(own) as dsn, ledger.reading(dsn) as book:
        totals, records = book.totals(), book.history(batches)
    if as_json:
        listed = [{"batch": str(r.batch), "state": r.state, **r.counts.as_json()} for r in records]
        typer.echo(json.dumps({"services": running.services, "totals": totals, "batches": listed}, indent=2))
        return
    teller = Teller()
    teller.table("Services", ["service", "state"], sorted(running.services.items()) or [("none", "not running")])
    teller.table("Every order is in one place", list(totals), [list(totals.values())])
    columns = ["batch", "state", "landed", "accepted", "quarantined", "duplicates", "waiting", "seconds"]
    rows = [
        [
            str(r.batch), r.state, r.counts.landed, r.counts.accepted, r.counts.quarantined, r.counts.duplicates,
            r.counts.backlog_added, f"{sum(r.seconds.values()):.1f}",
        ]
        for r in records
    ]  # fmt: skip
    teller.table("Batches", columns, rows)


@app.command()
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


@app.command()
def doctor(deep: Annotated[bool, typer.Option(help="Also start a small Spark session.")] = True) -> None:
    """Check what a start needs and say what is wrong, one line each."""
    from etl.stack.doctor import examine

    wrong = 0
    for check in examine(deep=deep):
        wrong += not check.ok
        typer.echo(f"{'ok   ' if check.ok else 'WRONG'} {check.name:<10} {check.sentence}")
    raise typer.Exit(1 if wrong else 0)


app.command()(cli_explain.explain)


@generate.command("master")
def generate_master_data(
    customers: Annotated[int, typer.Option(min=1)] = 100_000,
    products: Annotated[int, typer.Option(min=1)] = 20_000,
    seed: Seed = 1,
) -> None:
    """Write customers and products into Postgres; rows that exist are brought back to their first state."""
    from etl.adapters import postgres
    from etl.stack.generate import generate_master

    own = configuration.load()
    with Teller() as teller, _database(own) as dsn, postgres.connect(dsn) as connection:
        generate_master(
            connection, seed, customers, products,
            lambda what, done, total: teller.doing(f"{done:,} of {total:,} {what}"),
        )  # fmt: skip
        teller.say(f"{customers:,} customers and {products:,} products are in Postgres")


@generate.command("orders")
def generate_order_files(
    count: Annotated[int, typer.Option(min=1, help="Lines of a wave, dirt included.")] = 50_000,
    waves: Annotated[int, typer.Option(min=1)] = 1,
    lines_per_file: Annotated[int, typer.Option(min=1)] = 10_000,
    seed: Seed = 1,
    customers: Annotated[int, typer.Option(min=1)] = 100_000,
    products: Annotated[int, typer.Option(min=1)] = 20_000,
    exponent_customers: Annotated[float, typer.Option(help="Skew of customers, 0 to 1.5.")] = 1.0,
    exponent_products: Annotated[float, typer.Option(help="Skew of products, 0 to 1.5.")] = 0.8,
    duplicates: Annotated[float, typer.Option(help="Share of exact duplicates.")] = 0.01,
    conflicts: Annotated[float, typer.Option(help="Share of known ids with another payload.")] = 0.002,
    malformed: Annotated[float, typer.Option(help="Share of malformed lines.")] = 0.003,
    unknown_customers: Annotated[float, typer.Option(help="Share whose customer never comes.")] = 0.002,
    late_customers: Annotated[float, typer.Option(help="Share whose customer comes later.")] = 0.01,
    out_of_range: Annotated[float, typer.Option(help="Share with values out of range.")] = 0.005,
    start: Annotated[
        datetime | None,
        typer.Option(help="Time of the first order (UTC). With it the same seed gives the same files."),
    ] = None,
    landing: Annotated[Path | None, typer.Option(help="Folder to write to; the landing folder when left out.")] = None,
) -> None:
    """Write order files that appear whole in the landing folder."""
    from etl.stack.generate import OrderConfig, generate_orders

    config = OrderConfig(
        seed=seed, customers=customers, products=products, exponent_customers=exponent_customers,
        exponent_products=exponent_products, share_duplicates=duplicates, share_conflicts=conflicts,
        share_malformed=malformed, share_unknown_customers=unknown_customers,
        share_late_customers=late_customers, share_out_of_range=out_of_range,
    )  # fmt: skip
    now = datetime.now(UTC)
    config = config if start is not None else config.fresh(now)
    first = now if start is None else start.replace(tzinfo=UTC)
    folder = configuration.load().landing if landing is None else landing
    with Teller() as teller:
        tallies = generate_orders(folder, config, waves, count, lines_per_file, first)
        teller.say(
            f"{sum(t.lines for t in tallies):,} lines in {sum(t.files for t in tallies)} files landed in {folder}"
        )


@generate.command("live")
def generate_live(rate: Annotated[float, typer.Option(help="Orders per second.")] = 200.0, seed: Seed = 1) -> None:
    """Let orders land every second until interrupted; late customers arrive after two minutes."""
    from etl.adapters import postgres
    from etl.stack.generate import OrderConfig, arrive_late_customers, live

    own, config, stop = configuration.load(), OrderConfig(seed=seed), threading.Event()

    def arrive() -> None:
        with _existing_database(own) as dsn, postgres.connect(dsn) as connection:
            arrive_late_customers(connection, config)

    live(config, own.landing, rate, stop.is_set, sleep=stop.wait, arrive=arrive)


@contextmanager
def _existing_database(own: Settings) -> Iterator[str]:
    """The DSN of a Postgres that answers; nothing is started."""
    from etl.stack import postgres
    from etl.stack.state import state

    if own.postgres_dsn is None and not state(own).running:
        raise MissingPart("the embedded Postgres is not running", "start the stack with `frontstage up`")
    postgres.check(own)
    yield postgres.dsn(own)


@contextmanager
def _database(own: Settings) -> Iterator[str]:
    """The DSN of a migrated database: the running one, or the embedded server for as long as we need it."""
    from etl.adapters.postgres import migrate
    from etl.stack import postgres
    from etl.stack.state import state

    running = own.postgres_dsn is not None or state(own).running
    with _existing_database(own) if running else postgres.embedded_postgres(own) as dsn:
        migrate(dsn)
        yield dsn


def _show_summary(teller: Teller, summary: dict[str, Any], path: Path) -> None:
    places = ["orders_landed", "fact", "quarantine", "backlog_open", "duplicates"]
    teller.table("Every order is in exactly one place", places, [[summary[name] for name in places]])
    freshness = summary["freshness_s"]
    teller.table(
        "How it went",
        ["", "figure"],
        [
            ("answered by the front stage", f"{summary['hit_ratio']:.1%}"),
            ("orders that wait for a customer", summary["unmatched_open"]),
            ("from landing to the mart, median", f"{freshness['p50']:.1f} s"),
            ("from landing to the mart, 95 %", f"{freshness['p95']:.1f} s"),
            ("DAG runs, all successful", len(summary["dag_runs"])),
            ("longest DAG run", f"{max(run['seconds'] for run in summary['dag_runs']):.1f} s"),
        ],
    )
    typer.echo(f"run reports  {summary['reports']['run']}")
    typer.echo(f"data docs    {summary['reports']['data_docs']}")
    typer.echo(f"summary      {path}")


def main() -> NoReturn:
    """Run the command; a user's mistake ends in one sentence, never in a stack trace."""
    structured()
    try:
        app()
    except FrontstageError as error:
        complain(str(error))
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        complain("interrupted; everything that was started is stopped")
        raise SystemExit(130) from None
    raise SystemExit(0)


if __name__ == "__main__":
    main()
