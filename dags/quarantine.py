"""The `quarantine` DAG: refused lines by form, as `frontstage quarantine` has them by command. By hand only.

decide        list, release or reject lines of one pipeline or stream; the task's result says what became of them

Lines are named as the list shows them (12-3), or chosen by batch or reason. Values of sensitive fields are masked.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Param, dag, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from etl import settings
from etl.contract.correlations.correlation_files import load_streams
from etl.contract.load import load_all

RETRIES = {"retries": 3, "retry_delay": timedelta(seconds=20), "owner": "frontstage"}
LISTED = 100
own = settings.load()
PIPELINES = [pipeline.name for pipeline in load_all(own.pipelines, own.var).pipelines]
NAMES = PIPELINES + [f"streams/{stream.name}" for stream in load_streams(own.streams, own.var).found]
FORM: dict[str, Any] = {
    "pipeline": Param(NAMES[0] if NAMES else None, type="string", enum=NAMES or None, title="Pipeline or stream"),
    "action": Param("list", type="string", enum=["list", "release", "reject"], title="What to do"),
    "rows": Param(
        [], type="array", items={"type": "string", "pattern": "^[0-9]+-[0-9]+$"}, title="Lines, such as 12-3"
    ),
    "batch": Param(None, type=["null", "integer"], minimum=1, title="All open lines of this batch"),
    "reason": Param(None, type=["null", "string"], maxLength=200, title="All open lines with this reason"),
    "note": Param("", type="string", maxLength=2000, title="Why", description="A rejection needs a reason"),
}


@task
def decide() -> dict[str, Any]:
    """Do what the form says."""
    from etl.adapters.verdicts import RowId
    from etl.errors import TerminalError
    from etl.pipeline.review.quarantine import Selection
    from etl.pipeline.review.release import Person
    from etl.stack import postgres
    from etl.streams.refused import open_desk

    context: Any = get_current_context()
    asked, user = context["params"], context["dag_run"].triggering_user_name
    person = Person(user or "airflow", datetime.now(UTC), asked["note"])
    try:
        wanted = Selection(frozenset(map(RowId.parse, asked["rows"])), asked["batch"], asked["reason"])
        with open_desk(own, postgres.dsn(own), asked["pipeline"]) as desk:
            return desk.act(asked["action"], wanted, person, LISTED)
    except TerminalError as error:
        raise AirflowFailException(str(error)) from None


@dag(
    schedule=None,
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args=RETRIES,
    dagrun_timeout=timedelta(minutes=30),
    tags=["frontstage"],
    description="Refused lines: list, release, reject",
    doc_md=__doc__,
    params=FORM,
)
def quarantine() -> None:
    decide()


flow = quarantine()
