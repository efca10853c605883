"""The `held` DAG: a person decides about a batch whose audit failed, under Airflow's required actions.

describe ─▶ question ─▶ act        one run per batch, started by the pipeline whose batch it is

`question` waits as long as it takes, and ends by itself when the batch is decided elsewhere. `act` writes the answer
down; the pipeline's next run publishes the batch, or puts what it accepted into quarantine. `frontstage held` does the
same by command.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import Param, dag, get_current_context, task

from etl.airflow.tasks.held import DAG_ID, REJECT, RELEASE
from etl.airflow.tasks.held_question import HeldQuestion

RETRIES = {"retries": 5, "retry_delay": timedelta(seconds=20), "owner": "frontstage"}  # outlasts a batch under way
FORM: dict[str, Any] = {
    "pipeline": Param("", type="string", pattern=r"^[a-z0-9_]*$", maxLength=63, title="Pipeline"),
    "batch": Param(1, type="integer", minimum=1, title="Batch"),
}
NOTE = Param("", type="string", maxLength=2000, title="Why", description="A rejection needs a reason")


@task
def describe() -> str:
    """What the audit found, for the person who decides."""
    from etl.airflow.tasks.held import describe as described

    asked: Any = get_current_context()["params"]
    return described(asked["pipeline"], asked["batch"])


@task
def act(response: dict[str, Any]) -> dict[str, Any]:
    """Write the answer down."""
    from etl.airflow.tasks.held import act as acted

    asked: Any = get_current_context()["params"]
    return acted(asked["pipeline"], asked["batch"], response)


@dag(
    dag_id=DAG_ID,
    schedule=None,
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=64,
    is_paused_upon_creation=False,  # nobody would see the question
    default_args=RETRIES,
    tags=["frontstage"],
    description="A person decides about a batch whose audit failed",
    doc_md=__doc__,
    params=FORM,
)
def held() -> None:
    described = describe()
    question = HeldQuestion(
        task_id="question",
        pipeline="{{ params.pipeline }}",
        batch="{{ params.batch }}",
        subject="Batch {{ params.batch }} of {{ params.pipeline }} failed its audit",
        body="{{ ti.xcom_pull(task_ids='describe') }}",
        options=[RELEASE, REJECT],
        params={"note": NOTE},
    )
    described >> question
    act(question.output)


flow = held()
