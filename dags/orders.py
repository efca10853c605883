"""The `orders` DAG: one run is one micro-batch. What runs when, nothing else; the work is in `etl`.

ingest_enrich ─▶ validate ─▶ load ─▶ report        (nothing landed: the rest is skipped)
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import Param, dag, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from etl import settings

SCHEDULE = settings.load().schedule
RETRIES = {"retries": 4, "retry_delay": timedelta(seconds=10)}  # outlasts a step of somebody else


def run_step(step: str, batch: str | None = None) -> dict[str, Any]:
    """Run one step of this run; a terminal error fails the task for good, any other is retried."""
    from etl.errors import TerminalError
    from etl.spark.client import run_step as ask
    from etl.stack import postgres

    context = get_current_context()
    try:
        own = settings.load()
        release = context["params"].get("release")
        return ask(own, lambda: postgres.dsn(own), step, context["run_id"], batch=batch, release=release)
    except TerminalError as error:
        raise AirflowFailException(str(error)) from None


@dag(
    schedule=None if SCHEDULE == "none" else SCHEDULE,
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args=RETRIES,
    dagrun_timeout=timedelta(minutes=30),
    tags=["frontstage"],
    doc_md=__doc__,
    params={
        "release": Param(None, type=["null", "string"], title="Release a held batch", description="Such as 12 or 12.1"),
    },
)
def orders() -> None:
    @task.short_circuit(ignore_downstream_trigger_rules=True)
    def ingest_enrich() -> dict[str, Any] | None:
        """Read what has landed, join it with master data, decide every order's route in one commit."""
        told = run_step("ingest_enrich")
        return told if told["batch"] is not None else None

    @task
    def validate(decided: dict[str, Any]) -> dict[str, Any]:
        """Let Great Expectations prove the accepted orders; a failed gate holds the batch."""
        return run_step("validate", decided["batch"])

    @task
    def load(passed: dict[str, Any]) -> dict[str, Any]:
        """Load the star schema and, in one transaction with the ledger, the mart."""
        return run_step("load", passed["batch"])

    @task(trigger_rule="all_done")
    def report(decided: dict[str, Any], _loaded: dict[str, Any]) -> dict[str, Any]:
        """Write the run report, also of a batch that is held; such a run has failed."""
        told = run_step("report", (decided or {}).get("batch"))
        if told["state"] != "loaded":
            raise AirflowFailException(f"batch {told['batch']} is {told['state']}; see {told['report']}")
        return told

    decided = ingest_enrich()
    report(decided, load(validate(decided)))


flow = orders()
