"""How a step is run from anywhere: by the resident driver when it answers, else by a Spark of one's own.

The second way costs a start of Spark and needs nothing but this machine; the results are the same.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM
from socket import socket as Socket
from typing import TYPE_CHECKING, Any, Protocol

import httpx

from etl.errors import TerminalError, TransientError
from etl.model import Operation, Progress
from etl.pipeline.run_form import DECLARED, RunForm
from etl.settings import Settings

if TYPE_CHECKING:
    from etl.streams.steps import CorrelationStep

Dsn = Callable[[], str]


class StepFailed(TerminalError):
    """The runner says a step failed and that trying again will not help."""


class StepRefused(TransientError):
    """The runner says a step did not work this time."""


class RunStep(Protocol):
    """Runs one step of a pipeline; raises `TerminalError` or `TransientError` with a sentence."""

    def __call__(
        self,
        step: Operation,
        pipeline: str,
        run_id: str,
        *,
        batch: int | None = None,
        release: int | None = None,
        form: RunForm = DECLARED,
        progress: Progress = print,
    ) -> dict[str, Any]: ...


@contextmanager
def step_runner(settings: Settings, dsn: Dsn, progress: Progress = print) -> Iterator[RunStep]:
    """What runs steps here: the resident driver, or one Spark of our own for as long as the block lasts."""
    if answers(settings.runner_socket):
        yield partial(_ask, settings.runner_socket)
        return
    from etl.pipeline.steps import Steps
    from etl.spark.executor import SparkExecutor
    from etl.spark.session import spark_session

    progress("no resident Spark driver answers; starting Spark for this run")
    with spark_session(settings) as spark:
        steps = Steps(settings, dsn(), SparkExecutor(spark))
        steps.prepare()

        def run(
            step: Operation,
            pipeline: str,
            run_id: str,
            *,
            batch: int | None = None,
            release: int | None = None,
            form: RunForm = DECLARED,
            progress: Progress = print,
        ) -> dict[str, Any]:
            return steps.asked(form).run(step, pipeline, run_id, batch, release, progress)

        yield run


def run_step(
    settings: Settings,
    dsn: Dsn,
    step: Operation,
    pipeline: str,
    run_id: str,
    *,
    batch: int | None = None,
    release: int | None = None,
    form: RunForm = DECLARED,
    progress: Progress = print,
) -> dict[str, Any]:
    """Run a single step."""
    with step_runner(settings, dsn, progress) as run:
        return run(step, pipeline, run_id, batch=batch, release=release, form=form, progress=progress)


def answers(socket: Path) -> bool:
    """Whether a resident driver is ready."""
    try:
        _require_own(socket)
        with Socket(AF_UNIX, SOCK_STREAM) as probe:  # httpx would leave a socket open that nobody accepts
            probe.connect(str(socket))
        with _client(socket, timeout=5.0) as client:
            return client.get("/health").status_code == httpx.codes.OK
    except httpx.ReadTimeout:
        return True  # somebody is there, and busy
    except (OSError, httpx.TransportError):
        return False


class ForeignSocket(TerminalError):
    """Somebody else could have put the driver's socket where it is."""

    def __init__(self, socket: str, what: str) -> None:
        super().__init__(socket, what)
        self.socket, self.what = socket, what

    def __str__(self) -> str:
        return f"{self.socket} {self.what}; whoever answers there might not be our driver, so nothing is asked of it"


def _require_own(socket: Path) -> None:
    """Refuse a socket that another user made, or could have: what we send there is run, what it says is believed."""
    seen, folder = socket.lstat(), socket.parent.stat()
    if seen.st_uid not in (os.geteuid(), 0):
        raise ForeignSocket(str(socket), f"belongs to user {seen.st_uid}")
    if folder.st_mode & stat.S_IWOTH and not folder.st_mode & stat.S_ISVTX:
        raise ForeignSocket(str(socket), "is in a folder that everybody may write to")


def maintain(
    settings: Settings, dsn: Dsn, pipeline: str, days: int, *, dry_run: bool = False, progress: Progress = print
) -> dict[str, Any]:
    """A round of maintenance of one pipeline, keeping so many days of history."""
    if answers(settings.runner_socket):
        call = {"pipeline": pipeline, "days": days, "dry_run": dry_run}
        return _post(settings.runner_socket, "/maintenance", call, progress)
    from etl.pipeline.maintenance import Keep
    from etl.pipeline.steps import Steps
    from etl.spark.executor import SparkExecutor
    from etl.spark.session import spark_session
    from etl.spark.tables import SparkTables

    keep = Keep(timedelta(days=days), dry_run)
    progress("no resident Spark driver answers; starting Spark for this round")
    with spark_session(settings) as spark:
        return Steps(settings, dsn(), SparkExecutor(spark)).maintain(pipeline, keep, SparkTables(spark), progress)


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
    with correlation_runner(settings, dsn, progress) as run:
        return run(step, run_id, batch=batch, progress=progress)


class RunCorrelations(Protocol):
    """Runs one step of all correlations; raises `TerminalError` or `TransientError` with a sentence."""

    def __call__(
        self, step: CorrelationStep, run_id: str, *, batch: int | None = None, progress: Progress = print
    ) -> dict[str, Any]: ...


@contextmanager
def correlation_runner(settings: Settings, dsn: Dsn, progress: Progress = print) -> Iterator[RunCorrelations]:
    """What runs correlations here: the resident driver, or one Spark of our own for as long as the block lasts."""
    if answers(settings.runner_socket):

        def ask(
            step: CorrelationStep, run_id: str, *, batch: int | None = None, progress: Progress = print
        ) -> dict[str, Any]:
            call = {"run_id": run_id, "batch": batch}
            return _post(settings.runner_socket, f"/correlations/{step}", call, progress)

        yield ask
        return
    from etl.spark.correlate import SparkCorrelations
    from etl.spark.session import spark_session
    from etl.streams.steps import CorrelationSteps

    progress("no resident Spark driver answers; starting Spark for this run")
    with spark_session(settings) as spark:
        steps = CorrelationSteps(settings, dsn(), SparkCorrelations(spark))
        steps.prepare()

        def run(
            step: CorrelationStep, run_id: str, *, batch: int | None = None, progress: Progress = print
        ) -> dict[str, Any]:
            return steps.run(step, run_id, batch, progress)

        yield run


def maintain_correlations(
    settings: Settings, dsn: Dsn, days: int, *, dry_run: bool = False, progress: Progress = print
) -> dict[str, Any]:
    """A round of maintenance of all correlations; needs no Spark."""
    if answers(settings.runner_socket):
        call = {"days": days, "dry_run": dry_run}
        return _post(settings.runner_socket, "/correlations-maintenance", call, progress)
    from etl.pipeline.maintenance import Keep
    from etl.streams.in_process import InProcess
    from etl.streams.steps import CorrelationSteps

    steps = CorrelationSteps(settings, dsn(), InProcess())
    steps.prepare()
    return steps.maintain(Keep(timedelta(days=days), dry_run), progress)


def _ask(
    socket: Path,
    step: Operation,
    pipeline: str,
    run_id: str,
    *,
    batch: int | None = None,
    release: int | None = None,
    form: RunForm = DECLARED,
    progress: Progress = print,
) -> dict[str, Any]:
    asked = form.model_dump(exclude_none=True)
    call = {"pipeline": pipeline, "run_id": run_id, "batch": batch, "release": release, "form": asked}
    return _post(socket, f"/steps/{step}", call, progress)


def _post(socket: Path, path: str, call: dict[str, Any], progress: Progress) -> dict[str, Any]:
    # The runner sends a sign of life every few seconds; silence means that it is gone.
    with _client(socket, timeout=60.0) as client, client.stream("POST", path, json=call) as answer:
        answer.raise_for_status()
        for event in _events(answer):
            if "line" in event:
                progress(event["line"])
            elif "result" in event:
                return dict(event["result"])
            elif "error" in event:
                kind = StepFailed if event["error"]["kind"] == "terminal" else StepRefused
                raise kind(event["error"]["message"])
    raise StepRefused(f"the runner ended in the middle of {path}; see its log under var/logs")


def _events(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    try:
        for line in answer.iter_lines():
            yield json.loads(line)
    except httpx.TransportError:
        return


def _client(socket: Path, timeout: float) -> httpx.Client:
    return httpx.Client(transport=httpx.HTTPTransport(uds=str(socket)), base_url="http://runner", timeout=timeout)
