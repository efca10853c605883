"""The `backlog` DAG: events that were shed under load come back while it is quiet. Nightly, or by hand with a form.

drain (each pipeline)        batches, oldest events first, until none waits for time or the minutes are over

Runs of the pipelines themselves reload what they have room for; this is for what is left after a long day.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import Param, dag, get_current_context, task

from etl import settings
from etl.contract.load import load_all

RETRIES = {"retries": 3, "retry_delay": timedelta(seconds=30), "owner": "frontstage"}  # outlasts a batch under way
MINUTES: Any = Param(60, type="integer", minimum=1, maximum=600, title="Minutes", description="For each pipeline")


@task(owner="frontstage", map_index_template="{{ pipeline }}", max_active_tis_per_dag=1)
def drain(pipeline: str) -> dict[str, Any]:
    """Reload shed events of one pipeline, on the resident driver."""
    from etl.airflow.tasks.backlog import drain_pipeline

    context: Any = get_current_context()
    context["pipeline"] = pipeline  # what Airflow's pages call this task
    return drain_pipeline(pipeline, context["run_id"], timedelta(minutes=context["params"]["minutes"]))


@dag(
    schedule="0 2 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args=RETRIES,
    dagrun_timeout=timedelta(hours=12),
    tags=["frontstage"],
    description="Shed events come back at night, one pipeline at a time",
    doc_md=__doc__,
    params={"minutes": MINUTES},
)
def backlog() -> None:
    own = settings.load()
    drain.expand(pipeline=[one.name for one in load_all(own.pipelines, own.var).pipelines])


flow = backlog()
