"""The `maintenance` DAG: what keeps batches cheap however old the warehouse is. The work is in `etl.pipeline`.

keep_up (each pipeline) │ correlations │ masters │ logs

Daily, or by hand with a form; each takes its pipeline's lock for its turn.

Per pipeline: garbage of tries that were not decided, claims, OPTIMIZE and VACUUM, and what is older than the days asked
for: archived input, batches in the ledger, run reports, Data Docs. For correlations the same, with segments and state
that nothing looks at any more. For masters: pages compacted, change logs pruned. Last, the logs of old runs.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Param, dag, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from etl import settings
from etl.contract.load import load_all

RETRIES = {"retries": 5, "retry_delay": timedelta(seconds=30), "owner": "frontstage"}  # outlasts a batch under way
DAYS: Any = Param(30, type="integer", minimum=7, title="Days of history", description="What is older goes")
DRY_RUN: Any = Param(False, type="boolean", title="Dry run", description="Only say what would go")


@task(owner="frontstage", map_index_template="{{ pipeline }}")
def keep_up(pipeline: str) -> dict[str, Any]:
    """A round of maintenance of one pipeline, on the resident driver."""
    from etl.errors import TerminalError
    from etl.spark.runner.client import maintain
    from etl.stack import postgres

    context: Any = get_current_context()
    context["pipeline"] = pipeline  # what Airflow's pages call this task
    own, asked = settings.load(), context["params"]
    try:
        return maintain(own, lambda: postgres.dsn(own), pipeline, asked["days"], dry_run=asked["dry_run"])
    except TerminalError as error:
        raise AirflowFailException(str(error)) from None


@task
def correlations() -> dict[str, Any]:
    """Segments and state that nothing looks at any more, files of undecided tries; on the resident driver."""
    from etl.errors import TerminalError
    from etl.spark.runner.client import maintain_correlations
    from etl.stack import postgres

    own, asked = settings.load(), get_current_context()["params"]
    try:
        return maintain_correlations(own, lambda: postgres.dsn(own), asked["days"], dry_run=asked["dry_run"])
    except TerminalError as error:
        raise AirflowFailException(str(error)) from None


@task
def masters() -> list[dict[str, Any]]:
    """Pages compacted and change logs pruned."""
    from etl.masters.upkeep.maintenance import care
    from etl.stack import postgres

    own = settings.load()
    return [] if get_current_context()["params"]["dry_run"] else care(own, postgres.dsn(own), print)


@task
def logs() -> int:
    """Bytes of logs of old runs that are removed."""
    from etl.pipeline.upkeep.retention import remove_run_logs

    asked = get_current_context()["params"]
    before = datetime.now(UTC) - timedelta(days=asked["days"])
    return remove_run_logs(settings.load().run_logs, before, dry_run=asked["dry_run"]).bytes


@dag(
    schedule="@daily",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args=RETRIES,
    dagrun_timeout=timedelta(hours=6),
    tags=["frontstage"],
    description="What keeps batches cheap however old the warehouse is",
    doc_md=__doc__,
    params={"days": DAYS, "dry_run": DRY_RUN},
)
def maintenance() -> None:
    own = settings.load()
    keep_up.expand(pipeline=[one.name for one in load_all(own.pipelines, own.var).pipelines])
    correlations()
    masters()
    logs()


flow = maintenance()
