"""The `master_data` DAG: master pages stay fresh and small, also while no orders come. The work is in `etl`.

refresh ─▶ compact ─▶ prune        for every master on its own; safe while `orders` runs
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import Param, dag, get_current_context, task, task_group
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from warehouse import contract

MASTERS = [master.name for master in contract.load().masters]
RETRIES = {"retries": 5, "retry_delay": timedelta(seconds=30)}  # outlasts somebody who publishes


@task(map_index_template="{{ master }}", trigger_rule="none_failed")
def care(work: str, master: str) -> dict[str, Any]:
    """Do one thing for one master; a terminal error fails the task for good, any other is retried."""
    from etl import settings
    from etl.errors import TerminalError
    from etl.masters.maintenance import ReadDirectly, run
    from etl.stack import postgres

    context: Any = get_current_context()
    context["master"] = master  # what Airflow's pages call this task
    try:
        own, whole = settings.load(), work == "refresh" and context["params"]["publish"]
        return run(own, lambda: postgres.dsn(own), "publish" if whole else work, master)
    except ReadDirectly as error:
        raise AirflowSkipException(str(error)) from None
    except TerminalError as error:
        raise AirflowFailException(str(error)) from None


@dag(
    schedule="@hourly",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args=RETRIES,
    dagrun_timeout=timedelta(hours=2),
    tags=["frontstage"],
    doc_md=__doc__,
    params={"publish": Param(False, type="boolean", title="Publish whole", description="Not only what changed")},
)
def master_data() -> None:
    @task_group
    def each(master: str) -> None:
        refresh, compact, prune = (care.override(task_id=it)(it, master) for it in ("refresh", "compact", "prune"))
        refresh >> compact >> prune

    each.expand(master=MASTERS)


flow = master_data()
