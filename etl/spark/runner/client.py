"""Run a step from any process: on the resident driver if it answers, else with its own Spark.

The second way costs a start of Spark and needs nothing but this machine; the results are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, Unpack

from etl.model import Operation, Progress
from etl.pipeline.review.run_form import RunForm
from etl.settings import Settings
from etl.spark.runner.calls import CorrelationCall, CorrelationMaintenanceCall, MaintenanceCall, StepCall
from etl.spark.runner.connection import StepFailed, StepRefused, answers, post, responds

if TYPE_CHECKING:
    from etl.streams.steps import CorrelationStep

__all__ = [
    "RunStep",
    "StepFailed",
    "StepRefused",
    "answers",
    "maintain",
    "maintain_correlations",
    "responds",
    "run_correlations",
    "run_step",
    "step_runner",
]

Dsn = Callable[[], str]


class Asked(TypedDict, total=False):
    """Optional arguments of a step: its batch, a held batch to release, overrides of the declaration."""

    batch: int | None
    release: int | None
    form: RunForm


class RunStep(Protocol):
    """Runs one step of a pipeline; raises `TerminalError` or `TransientError`."""

    def __call__(
        self, step: Operation, pipeline: str, run_id: str, *, progress: Progress = print, **asked: Unpack[Asked]
    ) -> dict[str, Any]: ...


# ── pipelines ──────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def step_runner(settings: Settings, dsn: Dsn, progress: Progress = print) -> Iterator[RunStep]:
    """A runner of steps: the resident driver, or our own Spark for the duration of the block."""
    with _performer(settings, dsn, progress) as perform:

        def run(
            step: Operation, pipeline: str, run_id: str, *, progress: Progress = print, **asked: Unpack[Asked]
        ) -> dict[str, Any]:
            return perform(step, StepCall(pipeline=pipeline, run_id=run_id, **asked), progress)

        yield run


@contextmanager
def _performer(
    settings: Settings, dsn: Dsn, progress: Progress
) -> Iterator[Callable[[Operation, StepCall, Progress], dict[str, Any]]]:
    if answers(settings.runner_socket):
        yield lambda step, call, progress: post(settings.runner_socket, f"/steps/{step}", call, progress)
        return
    from etl.pipeline.steps import Steps
    from etl.spark.executor import SparkExecutor
    from etl.spark.session import spark_session

    progress("no resident Spark driver answers; starting Spark for this run")
    with spark_session(settings) as spark:
        steps = Steps(settings, dsn(), SparkExecutor(spark))
        steps.prepare()
        yield lambda step, call, progress: call.run(steps, step, progress)


def run_step(
    settings: Settings,
    dsn: Dsn,
    step: Operation,
    pipeline: str,
    run_id: str,
    *,
    progress: Progress = print,
    **asked: Unpack[Asked],
) -> dict[str, Any]:
    """Run a single step."""
    with step_runner(settings, dsn, progress) as run:
        return run(step, pipeline, run_id, progress=progress, **asked)


def maintain(
    settings: Settings, dsn: Dsn, pipeline: str, days: int, *, dry_run: bool = False, progress: Progress = print
) -> dict[str, Any]:
    """A round of maintenance of one pipeline, with the days of history to keep."""
    call = MaintenanceCall(pipeline=pipeline, days=days, dry_run=dry_run)
    if answers(settings.runner_socket):
        return post(settings.runner_socket, "/maintenance", call, progress)
    from etl.pipeline.steps import Steps
    from etl.spark.executor import SparkExecutor
    from etl.spark.session import spark_session
    from etl.spark.tables import SparkTables

    progress("no resident Spark driver answers; starting Spark for this round")
    with spark_session(settings) as spark:
        return Steps(settings, dsn(), SparkExecutor(spark)).maintain(pipeline, call.keep, SparkTables(spark), progress)


# ── correlations ───────────────────────────────────────────────────────────────────────────────────────────────────


def run_correlations(
    settings: Settings,
    dsn: Dsn,
    step: CorrelationStep,
    run_id: str,
    *,
    batch: int | None = None,
    progress: Progress = print,
) -> dict[str, Any]:
    """Run a step of all correlations."""
    if answers(settings.runner_socket):
        call = CorrelationCall(run_id=run_id, batch=batch)
        return post(settings.runner_socket, f"/correlations/{step}", call, progress)
    from etl.spark.correlate import SparkCorrelations
    from etl.spark.session import spark_session
    from etl.streams.steps import CorrelationSteps

    progress("no resident Spark driver answers; starting Spark for this run")
    with spark_session(settings) as spark:
        steps = CorrelationSteps(settings, dsn(), SparkCorrelations(spark))
        steps.prepare()
        return steps.run(step, run_id, batch, progress)


def maintain_correlations(
    settings: Settings, dsn: Dsn, days: int, *, dry_run: bool = False, progress: Progress = print
) -> dict[str, Any]:
    """A round of maintenance of all correlations; needs no Spark."""
    call = CorrelationMaintenanceCall(days=days, dry_run=dry_run)
    if answers(settings.runner_socket):
        return post(settings.runner_socket, "/correlations-maintenance", call, progress)
    from etl.streams.steps import CorrelationSteps
    from etl.streams.tasks.in_process import InProcess

    steps = CorrelationSteps(settings, dsn(), InProcess())
    steps.prepare()
    return steps.maintain(call.keep, progress)
