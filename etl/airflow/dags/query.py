"""The DAG `query`: ad-hoc joins over streams by form, as `frontstage query` has them by command. By hand only.

ask        create, list, show, explain, rows, delete or resume; the task's result says what became of it

A query belongs to who triggered the run. It sees what comes with the next run of the DAG `correlations`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, dag, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from etl.airflow.dags.pipeline import RETRIES, START

ACTIONS = ["create", "list", "show", "explain", "rows", "delete", "resume"]
FORM: dict[str, Any] = {
    "action": Param("list", type="string", enum=ACTIONS, title="What to do"),
    "name": Param(
        "", type="string", pattern="^([a-z][a-z0-9_]{0,62})?$", title="Name of the query",
        description="Lower-case letters, digits and _",
    ),
    "sql": Param(
        "", type="string", maxLength=20_000, format="multiline", title="SQL",
        description="A SELECT that joins two to five streams",
    ),
    "within": Param("2m", type="string", maxLength=40, title="Window", description="Such as 90s, 2m or 1h"),
    "expires": Param(None, type=["null", "string"], maxLength=40, title="Expires after", description="Such as 7d"),
    "limit": Param(20, type="integer", minimum=1, maximum=1000, title="Rows to show"),
}  # fmt: skip


def perform(asked: dict[str, Any], user: str) -> Any:
    """Do what the form says."""
    from etl import settings
    from etl.errors import TerminalError
    from etl.stack import postgres
    from etl.streams.adhoc.service import Queries

    own = settings.load()
    try:
        return Queries(own, postgres.dsn(own)).perform(asked, user)
    except TerminalError as error:
        raise AirflowFailException(str(error)) from None


def query_dag() -> DAG:
    """The DAG with its form."""

    @dag(
        dag_id="query",
        schedule=None,
        start_date=START,
        catchup=False,
        max_active_runs=4,
        default_args=RETRIES,
        dagrun_timeout=timedelta(minutes=5),
        tags=["frontstage", "correlation"],
        description="Ad-hoc joins over streams: create, look, drop",
        doc_md=__doc__,
        params=FORM,
    )
    def flow() -> None:
        @task
        def ask() -> Any:
            """Do what the form says."""
            context: Any = get_current_context()
            return perform(context["params"], context["dag_run"].triggering_user_name or "airflow")

        ask()

    return flow()
