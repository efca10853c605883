"""`frontstage up` and `down`: the stack on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from etl import settings as configuration
from etl.cli.console import Console


def up(
    rate: Annotated[float, typer.Option(help="Events per second of the live generator; 0 for none.")] = 200.0,
) -> None:
    """Start the stack with a live generator and leave it running; prints the address and the login."""
    from etl.samples.seed import DAGS, generator
    from etl.stack.airflow import Airflow
    from etl.stack.airflow_services import USER
    from etl.stack.credentials import credentials
    from etl.stack.daemon import down as stop
    from etl.stack.daemon import up_detached

    own = configuration.load()
    with Console() as console:
        console.doing("starting Postgres, Spark and Airflow")
        state = up_detached(
            own,
            extras=[generator(rate)] if rate > 0 else [],
            on_postgres="etl.samples.seed:prepare",
            progress=console.say,
        )
        try:
            with Airflow.of(own) as airflow:
                for name in DAGS:
                    airflow.wait_for_dag(name)
                    airflow.unpause(name)
        except BaseException:
            stop(own)
            raise
    typer.echo(f"Airflow      {state.airflow_url}   user {USER}, password {credentials(own).airflow_password}")
    typer.echo(f"landing      {own.var / 'landing'}")
    typer.echo(f"run reports  {own.reports}")
    typer.echo(f"data docs    {own.data_docs / 'index.html'}")
    typer.echo("`frontstage down` ends it, `frontstage status` shows how it does")


def down() -> None:
    """Stop what `up` started, and wait until nothing of it runs."""
    from etl.stack.daemon import down as stop

    typer.echo("stopped" if stop(configuration.load()) else "nothing was running")
