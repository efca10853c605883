"""Tasks at sites: a group per site with a task per correlation, and one that gathers results at their target.

A site's tasks run by its executor, on its queue and in its pool, if it declares them (ADR 104). They need no Spark: a
site joins its data with the kernels of `etl.correlate.multiway`. A task that waits too long for another site leaves the
rest to `gather`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from airflow.sdk import Asset, TaskGroup, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from etl.contract.correlations.sites import DeclaredSite, DeclaredSites, SiteCorrelation


def with_known_executors(sites: DeclaredSites) -> DeclaredSites:
    """Sites with executors that this Airflow has: an unknown executor is reported and dropped.

    Airflow itself would refuse the whole DAG, which would stop the other sites, too.
    """
    found, errors = list[DeclaredSite](), list(sites.errors)
    for one in sites.found:
        if one.executor is None or _has(one.executor):
            found.append(one)
        else:
            sentence = (
                f"executor {one.executor!r} is none of this Airflow's; add it to [core] executor or leave it out. "
                "Until then the tasks of the site are run by the first executor"
            )
            errors.append(sites.mistake(one.name, sentence, "executor"))
            found.append(replace(one, executor=None))
    return replace(sites, found=tuple(found), errors=tuple(errors))


def _has(executor: str) -> bool:
    from airflow.exceptions import UnknownExecutorException
    from airflow.executors.executor_loader import ExecutorLoader

    try:
        ExecutorLoader.lookup_executor_name_by_str(executor, validate_teams=False)
    except UnknownExecutorException:
        return False
    return True


def site_group(site: DeclaredSite, correlations: Sequence[SiteCorrelation]) -> TaskGroup:
    """The tasks at one site after a micro-batch."""
    wanted = {"queue": site.queue, "executor": site.executor, "pool": site.pool}
    placed: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}
    with TaskGroup(f"site_{site.name}", tooltip=f"Joins and shipments at {site.root}") as group:
        for one in correlations:

            @task(task_id=one.name, max_active_tis_per_dag=1, **placed)
            def work(correlation: str) -> dict[str, Any]:
                """Extract, join and ship; returns what crossed, in bytes and tuples."""
                return work_at(site.name, correlation)

            work(one.name)
    return group


def gather_at_target(written: Sequence[Asset]) -> Any:
    """The task after all sites: finishes their work, then publishes results."""

    # A site whose task failed, or whose queue has no worker, must not block the others' results.
    @task(outlets=list(written), max_active_tis_per_dag=1, trigger_rule="none_skipped")
    def gather() -> dict[str, Any]:
        """Finish what single sites could not, and publish finished batches."""
        run_id = get_current_context()["run_id"]
        result: dict[str, Any] = _terminal(lambda: _gather(run_id))
        return result

    return gather()


def work_at(site: str, correlation: str) -> dict[str, Any]:
    """Run one correlation at one site; an unreachable site is reported in the result, not as a failure."""
    steps = _steps()
    result: dict[str, Any] = _terminal(lambda: steps.work_at(site, print, correlation=correlation))
    print(f"shipped {result['shipped_bytes']:,} bytes with {result['shipped_tuples']:,} tuples from {site}")
    return result


def _gather(run_id: str) -> Any:
    """Run on the resident driver, which serializes requests; without one, in this process."""
    from etl import settings
    from etl.spark.runner.client import answers, run_correlations
    from etl.stack import postgres

    own = settings.load()
    if answers(own.runner_socket):
        return run_correlations(own, lambda: postgres.dsn(own), "gather", run_id)
    return _steps().gather(run_id, print)


def _steps() -> Any:
    from etl import settings
    from etl.stack import postgres
    from etl.streams.steps import CorrelationSteps
    from etl.streams.tasks.in_process import InProcess

    own = settings.load()
    return CorrelationSteps(own, postgres.dsn(own), InProcess())


def _terminal(work: Any) -> Any:
    """A terminal error fails the task for good, any other is retried."""
    from etl.errors import TerminalError

    try:
        return work()
    except TerminalError as error:
        raise AirflowFailException(str(error)) from None
