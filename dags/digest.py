"""The `digest` DAG: a day of all pipelines on one page, and as JSON. The work is in `etl.pipeline.inspection.digest`.

Every morning for the day before, or by hand for any day. The page is `digest/index.html` among the run reports. To send
it, set `FRONTSTAGE_DIGEST_NOTIFIER` to a notifier of Airflow's, such as
`airflow.providers.smtp.notifications.smtp.SmtpNotifier`, and its arguments as JSON in
`FRONTSTAGE_DIGEST_NOTIFIER_ARGUMENTS`; texts may use `{{ ti.xcom_pull(task_ids='write')['headline'] }}`.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

from airflow.sdk import Param, dag, get_current_context, task

from etl import settings
from etl.airflow.notify import digest_notifiers

DAY: Any = Param(None, type=["null", "string"], format="date", title="Day", description="UTC; the day before if empty")


@task
def write() -> dict[str, Any]:
    """Write the digest; gives where it is and its headline."""
    from etl.contract.load import load_all
    from etl.pipeline.inspection import digest as digests
    from etl.report.digest.folder import read
    from etl.stack import postgres

    own, now = settings.load(), datetime.now(UTC)
    asked = get_current_context()["params"]["day"]
    day = date.fromisoformat(asked) if asked else now.date() - timedelta(days=1)
    pipelines = load_all(own.pipelines, own.var).pipelines
    written = digests.write(own, postgres.dsn(own), pipelines, day, now)
    return {"day": day.isoformat(), "page": str(written.html), "headline": read(own.digests, day).headline}


@dag(
    schedule="15 0 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1), "owner": "frontstage"},
    dagrun_timeout=timedelta(hours=1),
    on_success_callback=digest_notifiers(),
    tags=["frontstage"],
    description="A day of all pipelines on one page",
    doc_md=__doc__,
    params={"day": DAY},
)
def digest() -> None:
    write()


flow = digest()
