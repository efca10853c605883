"""The DAG of one pipeline: one run is one micro-batch. What runs when, nothing else; the work is in `etl.pipeline`.

micro_batch ─┬─▶ report                (nothing to do: all are skipped)
             └─▶ ask_a_person          (only when it failed)

`micro_batch` goes from landing to mart in one call of the resident driver, because a task of Airflow costs more than a
step (ADR 24); its log shows the steps. A batch that the audit holds fails it, `report` writes the page that says why,
and `ask_a_person` starts a run of DAG `held`, where somebody releases or rejects it; the form `release` does so, too.
One `micro_batch` runs at a time; a run that events start need not wait for the report of the one before.

A run reads what has landed since the last one, whatever its own date, so a backfill would find nothing and is refused.
To process days again, start a run with the form `reprocess_from`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, get_args

from airflow.sdk import DAG, Asset, AssetWatcher, Metadata, Param, dag, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from etl.airflow.freshness import freshness_alert
from etl.airflow.page.links import DataDocsLink, PageLink, ReportLink, link
from etl.airflow.tasks.held import AskAPerson
from etl.airflow.triggers.arrival import ArrivalTrigger
from etl.contract.errors import PipelineFileError
from etl.contract.model import Pipeline, Shedding
from etl.model import Operation
from etl.settings import Tactic

RETRIES = {"retries": 4, "retry_delay": timedelta(seconds=5), "retry_exponential_backoff": True, "owner": "frontstage"}
RELEASE = Param(None, type=["null", "integer"], minimum=1, title="Release a held batch", description="Such as 12")
FORM: dict[str, Any] = {
    "release": RELEASE,
    "tactic": Param(
        None, enum=[None, *get_args(Tactic)], title="Join tactic", description="In the place of the setting, this time",
        values_display={"null": "as the setting says"},
    ),
    "budget_mib": Param(
        None, type=["null", "integer"], minimum=1, maximum=1 << 20, title="Memory of the joins in MiB",
        description="In the place of the setting, this time",
    ),
    "deadline_s": Param(
        None, type=["null", "number"], exclusiveMinimum=0, maximum=86_400, title="Deadline in seconds",
        description="In the place of the file's, this time",
    ),
    "shedding": Param(
        None, enum=[None, *get_args(Shedding)], title="Shedding under overload",
        description="In the place of the file's, this time", values_display={"null": "as the file says"},
    ),
    "reprocess_from": Param(
        None, type=["null", "string"], format="date", title="Process again from this day",
        description="UTC. Lines refused since then and events that wait are tried with today's rules and masters",
    ),
    "reprocess_to": Param(
        None, type=["null", "string"], format="date", title="… to this day", description="The same day, if empty",
    ),
}  # fmt: skip
"""The form of one run; empty fields are as declared."""
NO_BACKFILL = ("scheduled", "manual", "operator_triggered", "asset_triggered", "asset_materialization")
"""A run reads what has landed, whatever its date: a backfill would find nothing. The form reprocesses days."""
START = datetime(2026, 1, 1)


def arrivals(pipeline: Pipeline) -> Asset:
    """The asset that schedules the DAG: events in the landing folder."""
    watcher = AssetWatcher(f"{pipeline.name}-arrivals", trigger=ArrivalTrigger.of(pipeline))
    return Asset(f"{pipeline.name}-arrivals", watchers=[watcher])


def tables(pipeline: Pipeline) -> list[Asset]:
    """The tables that a run writes: downstream DAGs can be scheduled on them."""
    dimensions = [f"dim_{master.name}" for master in pipeline.masters if master.history != "none"]
    marts = [f"mart-{table.name}" for table in pipeline.mart]
    return [Asset(f"{pipeline.name}-{table}") for table in ("fact", "quarantine", "backlog", *dimensions, *marts)]


def schedule_of(pipeline: Pipeline, override: str | None) -> str | Sequence[Asset] | None:
    """The schedule: the file's, or the override of the settings."""
    wanted = override or pipeline.schedule
    if wanted == "on_arrival":
        return [arrivals(pipeline)]
    return None if wanted == "none" else wanted


def run_step(
    step: Operation, pipeline: str, batch: int | None = None, asked: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Run one step of this run; a terminal error fails the task for good, any other is retried."""
    from etl import settings
    from etl.errors import TerminalError
    from etl.pipeline.review.days import Days
    from etl.pipeline.review.run_form import RunForm
    from etl.spark.runner.client import run_step as ask
    from etl.stack import postgres

    own, run_id, given = settings.load(), get_current_context()["run_id"], asked or {}
    _refuse_unknown(given)
    release, mib = given.get("release"), given.get("budget_mib")
    wanted = {name: given.get(name) for name in ("tactic", "deadline_s", "shedding")}
    try:
        days = Days.parse(given.get("reprocess_from"), given.get("reprocess_to"))
        form = RunForm(budget_bytes=None if mib is None else mib << 20, reprocess=days, **wanted)
        return ask(own, lambda: postgres.dsn(own), step, pipeline, run_id, batch=batch, release=release, form=form)
    except TerminalError as error:
        raise AirflowFailException(str(error)) from None


def _refuse_unknown(given: Mapping[str, Any]) -> None:
    """Refuse unknown params: Airflow ignores them, so that a typo would silently have no effect."""
    unknown = sorted(set(given) - set(FORM))
    if unknown:
        raise AirflowFailException(f"this DAG has no param {', '.join(unknown)}; it has {', '.join(FORM)}")


def pipeline_dag(pipeline: Pipeline, override: str | None) -> DAG:
    """The DAG of a declared pipeline."""
    name, written = pipeline.name, tables(pipeline)

    @dag(
        dag_id=name,
        schedule=schedule_of(pipeline, override),
        start_date=START,
        catchup=False,
        max_active_runs=2 if (override or pipeline.schedule) == "on_arrival" else 1,
        default_args=RETRIES,
        dagrun_timeout=timedelta(minutes=30),
        tags=["frontstage", "pipeline"],
        description=f"One micro-batch of {name}: from landing to mart",
        doc_md=__doc__,
        params=FORM,
        allowed_run_types=NO_BACKFILL,
        deadline=freshness_alert(pipeline),
    )
    def flow() -> None:
        @task(outlets=written, max_active_tis_per_dag=1)
        def micro_batch() -> Any:
            """Read what has landed, join it with master data, decide, audit, publish; a failed audit holds it."""
            result = run_step("micro_batch", name, asked=get_current_context()["params"])
            if result["batch"] is None:
                raise AirflowSkipException("nothing to do")
            for table in written:
                yield Metadata(table, extra=_extra(result))
            return result

        @task(trigger_rule="none_skipped")
        def report(loaded: dict[str, Any] | None) -> dict[str, Any]:
            """Write the run report, also of a batch that is held; such a run has failed."""
            from etl.pipeline.inspection.outcome import unsettled

            result = run_step("report", name, None if loaded is None else loaded["batch"])
            if wrong := unsettled(result, get_current_context()["run_id"] if loaded is None else None):
                raise AirflowFailException(wrong)
            return result

        loaded = link(micro_batch(), PageLink, ReportLink, DataDocsLink)
        link(report(loaded), PageLink, ReportLink, DataDocsLink)
        loaded >> AskAPerson(task_id="ask_a_person", pipeline=name, trigger_rule="all_failed")

    return flow()


def _extra(result: dict[str, Any]) -> dict[str, Any]:
    """The extra of an asset event: batch, counts, master versions."""
    wanted = ("pipeline", "batch", "lines", "accepted", "quarantined", "duplicates", "backlog_added", "master_versions")
    return {name: result[name] for name in wanted if name in result}


def broken_dag(dag_id: str, error: PipelineFileError) -> DAG:
    """A placeholder DAG for an unreadable file, which reports the error in its documentation and by failing runs."""

    @dag(
        dag_id=dag_id,
        schedule=None,
        start_date=START,
        catchup=False,
        default_args={"owner": "frontstage"},
        tags=["frontstage", "broken"],
        description=str(error)[:500],
        doc_md=f"This pipeline's file cannot be used:\n\n> {error}",
    )
    def broken() -> None:
        @task(retries=0)
        def correct_the_file() -> None:
            """Fails with the file's first mistake."""
            raise AirflowFailException(str(error))

        correct_the_file()

    return broken()
