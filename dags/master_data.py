"""The `master_data` DAG: master pages stay fresh and small, also while no events come. The work is in `etl`.

refresh ─▶ compact ─▶ prune        for every master on its own; safe while pipelines run

A master that no pipeline has used yet is skipped. One whose rows have changed has an asset event.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import Param, dag, task_group

from etl import settings
from etl.airflow.tasks.masters import care, refreshing
from etl.masters.declared import declared_masters

RETRIES = {"retries": 5, "retry_delay": timedelta(seconds=30), "owner": "frontstage"}  # outlasts somebody who publishes
PUBLISH: Any = Param(False, type="boolean", title="Publish whole", description="Not only what changed")


@dag(
    schedule="@hourly",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args=RETRIES,
    dagrun_timeout=timedelta(hours=2),
    tags=["frontstage"],
    description="Master pages stay fresh and small",
    doc_md=__doc__,
    params={"publish": PUBLISH},
)
def master_data() -> None:
    for master in declared_masters(settings.load()):

        @task_group(group_id=master.name.replace(".", "-"))
        def each(name: str = master.name) -> None:
            refreshing(name) >> care("compact", name) >> care("prune", name)

        each()


flow = master_data()
