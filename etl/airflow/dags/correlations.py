"""The DAG of all correlations: one run is one micro-batch. What runs when, nothing else; the work is in `etl.streams`.

micro_batch ─▶ report                                      (nothing to do: both are skipped)
micro_batch ─▶ site_eu, site_us, … ─▶ gather ─▶ report       with correlations over sites: a task group per site

`micro_batch` ingests what has landed in all streams, correlates, and loads, in one call of the resident driver: a task
of Airflow costs more than any of these steps (ADR 57); its log shows them. One runs at a time. The form `reset` lets a
correlation start anew before the batch, for one that was changed in a way its state cannot follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Asset, AssetWatcher, Metadata, Param, dag, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from etl.airflow.dags.pipeline import NO_BACKFILL, RETRIES, START
from etl.airflow.page.links import PageLink, ReportLink, link
from etl.airflow.tasks.sites import gather_at_target, site_group
from etl.airflow.triggers.stream_arrival import StreamArrivalTrigger
from etl.contract.correlations.correlation import LoggedStream
from etl.contract.correlations.correlation_files import AnyCorrelation
from etl.contract.correlations.sites import DeclaredSite, SiteCorrelation

if TYPE_CHECKING:
    from etl.settings import Settings
    from etl.streams.steps import CorrelationStep

NAME = "correlations"


def arrivals(streams: Sequence[LoggedStream]) -> Asset:
    """The asset that schedules the DAG: arriving tuples of any stream."""
    watcher = AssetWatcher(f"{NAME}-arrivals", trigger=StreamArrivalTrigger.over(streams))
    return Asset(f"{NAME}-arrivals", watchers=[watcher])


def tables(correlations: Sequence[AnyCorrelation]) -> list[Asset]:
    """The tables that a run writes: downstream DAGs can be scheduled on them."""
    return [Asset(f"{NAME}-{one.name}") for one in correlations]


def schedule_of(streams: Sequence[LoggedStream], override: str | None) -> str | Sequence[Asset] | None:
    """The schedule: on arriving tuples, or by the settings; none without a stream."""
    if not streams or override == "none":
        return None
    return [arrivals(streams)] if override in (None, "on_arrival") else override


def run_step(step: CorrelationStep, batch: int | None = None, reset: str | None = None) -> dict[str, Any]:
    """Run one step of this run; a terminal error fails the task for good, any other is retried."""
    from etl import settings
    from etl.errors import TerminalError
    from etl.spark.runner.client import run_correlations
    from etl.stack import postgres

    own, run_id = settings.load(), get_current_context()["run_id"]
    try:
        if reset is not None:
            _reset(own, postgres.dsn(own), reset)
        return run_correlations(own, lambda: postgres.dsn(own), step, run_id, batch=batch)
    except TerminalError as error:
        raise AirflowFailException(str(error)) from None


def _reset(own: Settings, dsn: str, correlation: str) -> None:
    from etl.streams.steps import CorrelationSteps
    from etl.streams.tasks.in_process import InProcess

    CorrelationSteps(own, dsn, InProcess()).reset(correlation, print)


def write_report(result: dict[str, Any]) -> str:
    """Write the page of a batch; returns its path."""
    from etl import settings
    from etl.report.correlations.folder import write

    own = settings.load()
    return str(write(result, own.reports / NAME, own.reports_kept).html)


def correlations_dag(
    streams: Sequence[LoggedStream],
    correlations: Sequence[AnyCorrelation],
    override: str | None,
    sites: Sequence[DeclaredSite] = (),
) -> DAG:
    """The DAG of everything that is declared."""
    over_sites = [one for one in correlations if isinstance(one, SiteCorrelation)]
    local = [one for one in correlations if one not in over_sites]
    written, schedule = tables(local), schedule_of(streams, override)
    names: list[str | None] = [None, *(one.name for one in correlations)]
    reset = Param(
        None,
        enum=names,
        title="Start a correlation anew",
        description="Its state goes, its tables stay",
        values_display={"null": "none"},
    )

    @dag(
        dag_id=NAME,
        schedule=schedule,
        start_date=START,
        catchup=False,
        max_active_runs=2 if isinstance(schedule, list) else 1,  # a run need not wait for the report before (ADR 24)
        default_args=RETRIES,
        dagrun_timeout=timedelta(minutes=30),
        tags=["frontstage", "correlation"],
        description=f"One micro-batch of {len(correlations)} correlations over {len(streams)} streams",
        doc_md=__doc__,
        params={"reset": reset},
        allowed_run_types=NO_BACKFILL,
    )
    def flow() -> None:
        @task(outlets=written, max_active_tis_per_dag=1)
        def micro_batch() -> Any:
            """Ingest what has landed, correlate it with what the windows hold, load what met."""
            reset = get_current_context()["params"]["reset"]
            result = run_step("streams" if over_sites else "micro_batch", reset=reset)
            if result["batch"] is None and not result.get("sites_wait"):
                raise AirflowSkipException("nothing to do")
            for table, one in zip(written, local if result["batch"] is not None else (), strict=False):
                yield Metadata(table, extra=_extra(result, one.name))
            return result

        @task
        def report(loaded: dict[str, Any]) -> dict[str, Any]:
            """Write the page of the batch."""
            result = run_step("report", loaded["batch"])
            if result["batch"] is None:
                raise AirflowSkipException("no batch has run")
            return {"batch": result["batch"], "state": result["state"], "report": write_report(result)}

        loaded = link(micro_batch(), PageLink, ReportLink)
        reported = link(report(loaded), PageLink, ReportLink)
        if over_sites:
            used = {one.site for one in streams} | {one.target for one in over_sites}
            groups = [site_group(site, over_sites) for site in sites if site.name in used]
            loaded >> groups >> gather_at_target(tables(over_sites)) >> reported

    return flow()


def _extra(result: dict[str, Any], name: str) -> dict[str, Any]:
    """The extra of a correlation's asset event: batch and counts."""
    counts = result["correlations"].get(name, {})
    return {"batch": result["batch"], **{key: counts[key] for key in ("pairs", "rows", "late") if key in counts}}


def broken_dag(sentences: Sequence[str]) -> DAG:
    """A DAG that reports unusable files of streams or correlations, in its documentation and by failing runs."""

    @dag(
        dag_id=f"{NAME}_broken",
        schedule=None,
        start_date=START,
        catchup=False,
        tags=["frontstage", "broken"],
        description=sentences[0][:500],
        doc_md="These files cannot be used:\n\n" + "\n".join(f"> {sentence}\n" for sentence in sentences),
    )
    def broken() -> None:
        @task(retries=0)
        def correct_the_files() -> None:
            """Fails with what is wrong."""
            raise AirflowFailException("; ".join(sentences))

        correct_the_files()

    return broken()
