"""`frontstage demo`, `up`, `down` and `doctor`: the stack on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from etl import settings as configuration
from etl.cli.console import Console


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
    with Console() as console:
        summary = demonstration.run(own, size, console)
        console.say("everything is stopped")
    _show_summary(console, summary, own.var / "summary.json")


def up(
    rate: Annotated[float, typer.Option(help="Orders per second of the live generator; 0 for none.")] = 200.0,
) -> None:
    """Start the stack with a live generator and leave it running; prints the address and the login."""
    from etl.stack.airflow import Airflow
    from etl.stack.airflow_services import USER
    from etl.stack.credentials import credentials
    from etl.stack.daemon import down as stop
    from etl.stack.daemon import up_detached
    from etl.stack.stack import Extra

    own = configuration.load()
    live = Extra("generator", (sys.executable, "-m", "etl.cli", "generate", "live", "--rate", str(rate)))
    with Console() as console:
        console.doing("starting Postgres, Spark and Airflow")
        state = up_detached(
            own,
            extras=[live] if rate > 0 else [],
            on_postgres="etl.stack.seed:prepare",
            progress=console.say,
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


def down() -> None:
    """Stop what `up` started, and wait until nothing of it runs."""
    from etl.stack.daemon import down as stop

    typer.echo("stopped" if stop(configuration.load()) else "nothing was running")


def doctor(deep: Annotated[bool, typer.Option(help="Also start a small Spark session.")] = True) -> None:
    """Check what a start needs and say what is wrong, one line each."""
    from etl.stack.doctor import examine

    wrong = 0
    for check in examine(deep=deep):
        wrong += not check.ok
        typer.echo(f"{'ok   ' if check.ok else 'WRONG'} {check.name:<10} {check.sentence}")
    raise typer.Exit(1 if wrong else 0)


def _show_summary(console: Console, summary: dict[str, Any], path: Path) -> None:
    places = ["orders_landed", "fact", "quarantine", "backlog_open", "duplicates"]
    console.table("Every order is in exactly one place", places, [[summary[name] for name in places]])
    freshness = summary["freshness_s"]
    console.table(
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
