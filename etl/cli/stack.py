"""`frontstage up` and `down`: the stack on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from etl import settings as configuration
from etl.cli.console import Console
from etl.cli.options import Json, print_json


def up(
    rate: Annotated[float, typer.Option(help="Events per second of the live generator; 0 for none.")] = 200.0,
    as_json: Json = False,
) -> None:
    """Start the stack with a live generator and leave it running; prints the address and the login."""
    from etl.samples.seed import DAGS, generator
    from etl.stack.airflow.client import Airflow
    from etl.stack.airflow.services import USER
    from etl.stack.credentials import credentials
    from etl.stack.daemon import down as stop
    from etl.stack.daemon import up_detached

    own = configuration.load()
    with Console(stderr=as_json) as console:
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
    if as_json:
        login = {"url": state.airflow_url, "user": USER, "password": credentials(own).airflow_password}
        places = {"landing": own.var / "landing", "reports": own.reports, "data_docs": own.data_docs / "index.html"}
        print_json({"airflow": login, **{name: str(path) for name, path in places.items()}})
        return
    typer.echo(f"Airflow      {state.airflow_url}   user {USER}, password {credentials(own).airflow_password}")
    typer.echo(f"landing      {own.var / 'landing'}")
    typer.echo(f"run reports  {own.reports}")
    typer.echo(f"data docs    {own.data_docs / 'index.html'}")
    typer.echo("`frontstage down` ends it, `frontstage status` shows how it does")


def down(as_json: Json = False) -> None:
    """Stop what `up` started, and wait until nothing of it runs."""
    from etl.stack.daemon import down as stop

    stopped = stop(configuration.load())
    if as_json:
        print_json({"stopped": stopped})
    else:
        typer.echo("stopped" if stopped else "nothing was running")
