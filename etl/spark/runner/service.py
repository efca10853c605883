"""The resident Spark driver.

    Airflow task ──HTTP over a Unix socket──▶ service ──▶ Steps on one SparkSession
                 ◀── lines of JSON: progress …, then the result or the error ──

Only the socket's owner can connect. One step per pipeline runs at a time, a second one gets `Busy`; pipelines run
concurrently, and reports, which only read, concurrently with anything. When a client disconnects, the Spark jobs of its
step are cancelled: steps are idempotent.
"""

from __future__ import annotations

import json
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM
from socket import socket as Socket
from typing import Any

import structlog
import uvicorn
from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse
from pyspark.sql import SparkSession

from etl.adapters.great_expectations import audit
from etl.errors import Busy, FrontstageError, TransientError
from etl.logs import structured
from etl.model import Operation, Progress
from etl.observe.observer import Observer
from etl.pipeline.steps import Steps
from etl.private_paths import private_folder
from etl.settings import Settings, load
from etl.spark.correlate import SparkCorrelations
from etl.spark.executor import SparkExecutor
from etl.spark.runner.calls import CorrelationCall, CorrelationMaintenanceCall, MaintenanceCall, StepCall
from etl.spark.runner.memory import given_back
from etl.spark.runner.watchdog import Watchdog
from etl.spark.session import spark_session
from etl.spark.tables import SparkTables
from etl.streams.ledger import NAME as CORRELATIONS
from etl.streams.steps import CorrelationStep, CorrelationSteps

log = structlog.get_logger("runner")
_HEARTBEAT_S = 5.0
_PATIENCE_S = 1.0


class WorkLost(TransientError):
    """The thread of a step has died without a result."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"{self.what} ended in the driver without a result; see the driver's log"


class Work:
    """One piece of work in its own thread, as a stream of events."""

    def __init__(self, spark: SparkSession, what: str, group: str, work: Callable[[Progress], dict[str, Any]]) -> None:
        self._spark, self._what, self._group, self._work = spark, what, group, work
        self._events: queue.Queue[dict[str, Any]] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name=what, daemon=True)
        self._over = False

    def events(self) -> Iterator[bytes]:
        """Progress, heartbeats, and last the result or the error. Closing it early cancels the Spark jobs."""
        self._thread.start()
        try:
            while True:
                event = self._next()
                yield json.dumps(event).encode() + b"\n"
                if event.keys() & {"result", "error"}:
                    self._over = True
                    return
        finally:
            if self._thread.is_alive() and not self._over:
                log.warning("client gone, cancelling", step=self._what, group=self._group)
                self._spark.sparkContext.cancelJobGroup(self._group)

    def _next(self) -> dict[str, Any]:
        try:
            return self._events.get(timeout=_HEARTBEAT_S)
        except queue.Empty:
            if self._thread.is_alive() or not self._events.empty():
                return {"alive": True}
            return {"error": described(WorkLost(self._what))}

    def _run(self) -> None:
        outcome: dict[str, Any] = {"error": described(WorkLost(self._what))}
        try:
            self._spark.sparkContext.setJobGroup(self._group, self._what, interruptOnCancel=True)
            result = self._work(self._progress)
            outcome = {"result": result}
            shown = {name: result.get(name) for name in ("pipeline", "batch", "state")}
            log.info("step done", step=self._what, **shown)
        except BaseException as error:
            outcome = {"error": described(error)}
            log.error("step failed", step=self._what, group=self._group, exc_info=not _expected(error))
        finally:
            self._events.put(outcome)

    def _progress(self, line: str) -> None:
        self._events.put({"line": line})


class OneAtATime:
    """Admits one piece of work per pipeline; others get `Busy`."""

    def __init__(self) -> None:
        self._guard, self._at_work = threading.Lock(), set[str]()

    def wrap(self, pipeline: str, work: Callable[[Progress], dict[str, Any]]) -> Callable[[Progress], dict[str, Any]]:
        def alone(progress: Progress) -> dict[str, Any]:
            with self._guard:
                if pipeline in self._at_work:
                    raise Busy(f"another step of {pipeline}")
                self._at_work.add(pipeline)
            try:
                return work(progress)
            finally:  # before the result is sent: the run's next step must find the driver free
                self._at_work.discard(pipeline)

        return alone


def app(spark: SparkSession, steps: Steps, watchdog: Watchdog | None = None) -> FastAPI:
    """The service, for prepared steps."""
    service = FastAPI(title="Frontstage runner", docs_url=None, redoc_url=None, openapi_url=None)
    one_at_a_time, tables = OneAtATime(), SparkTables(spark)
    correlations = CorrelationSteps(steps.settings, steps.dsn, SparkCorrelations(spark), steps.clock)

    @service.get("/health")
    def health() -> dict[str, str]:
        wrong = None if watchdog is None else watchdog.health()
        if wrong is not None:
            raise HTTPException(503, wrong)
        try:
            stopped = bool(spark.sparkContext._jsc.sc().isStopped())
        except Exception as error:
            raise HTTPException(503, "the JVM does not answer") from error
        if stopped:
            raise HTTPException(503, "Spark has stopped")
        return {"status": "ready", "spark": spark.version}

    @service.post("/steps/{step}")
    def run(step: Operation, call: StepCall) -> StreamingResponse:
        work = partial(call.run, steps, step)
        alone = work if step == "report" else one_at_a_time.wrap(call.pipeline, work)
        return _streamed(Work(spark, step, f"{call.pipeline} {call.run_id}", alone))

    @service.post("/maintenance")
    def maintain(call: MaintenanceCall) -> StreamingResponse:
        def work(progress: Progress) -> dict[str, Any]:
            with given_back(spark):
                return steps.maintain(call.pipeline, call.keep, tables, progress)

        alone = one_at_a_time.wrap(call.pipeline, work)
        return _streamed(Work(spark, "maintenance", f"{call.pipeline} maintenance", alone))

    @service.post("/correlations/{step}")
    def correlate(step: CorrelationStep, call: CorrelationCall) -> StreamingResponse:
        work = partial(correlations.run, step, call.run_id, call.batch)
        alone = work if step == "report" else one_at_a_time.wrap(CORRELATIONS, work)
        return _streamed(Work(spark, step, f"{CORRELATIONS} {call.run_id}", alone))

    @service.post("/correlations-maintenance")
    def maintain_correlations(call: CorrelationMaintenanceCall) -> StreamingResponse:
        def work(progress: Progress) -> dict[str, Any]:
            with given_back(spark):
                return correlations.maintain(call.keep, progress, tables)

        alone = one_at_a_time.wrap(CORRELATIONS, work)
        return _streamed(Work(spark, "maintenance", f"{CORRELATIONS} maintenance", alone))

    return service


def _streamed(work: Work) -> StreamingResponse:
    return StreamingResponse(work.events(), media_type="application/x-ndjson")


def _expected(error: BaseException) -> bool:
    return isinstance(error, FrontstageError)


def described(error: BaseException) -> dict[str, str]:
    """An error for the client. Unexpected errors count as transient."""
    kind = "transient" if isinstance(error, TransientError) or not _expected(error) else "terminal"
    text = str(error) if _expected(error) else f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    return {"kind": kind, "type": type(error).__name__, "message": text}


def serve(settings: Settings, dsn: str) -> None:
    """Start Spark, migrate the schemas, and serve until stopped."""
    with spark_session(settings, app_name="frontstage-runner") as spark:
        watchdog = Watchdog(SparkJvm(spark))
        watchdog.start()
        steps = Steps(settings, dsn, SparkExecutor(spark), observe=Observer(settings))
        prepare(steps)
        with listening(settings.runner_socket) as socket:
            log.info("ready", spark=spark.version)
            threading.Thread(target=warm, args=(spark,), name="warm", daemon=True).start()
            config = uvicorn.Config(app(spark, steps, watchdog), log_level="warning", timeout_graceful_shutdown=5)
            uvicorn.Server(config).run(sockets=[socket])
        watchdog.stop()


def prepare(steps: Steps) -> None:
    """Migrate the schemas; waits for an unreachable database and for locks."""
    while True:
        try:
            steps.prepare()
            return
        except TransientError as error:
            log.warning("waiting", why=str(error))
            time.sleep(_PATIENCE_S)


class SparkJvm:
    """The JVM behind a session."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self._process = getattr(self._context._gateway, "proc", None)  # None if we did not start it

    def is_running(self) -> bool:
        return self._process is None or self._process.poll() is None

    def answer(self) -> None:
        if self._context._jsc.sc().isStopped():
            raise RuntimeError("Spark has stopped")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()


def warm(spark: SparkSession) -> None:
    """Preload for the first batch: Python workers, the audit, report templates."""
    began = time.monotonic()
    slots = spark.sparkContext.defaultParallelism
    try:
        spark.range(0, slots, 1, slots).mapInArrow(_same, "id long").collect()
        audit.load()
        import_module("etl.report.page")
    except Exception:
        log.exception("not warm: the first batch waits a little longer")
        return
    log.info("warm", seconds=round(time.monotonic() - began, 1))


def _same(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


@contextmanager
def listening(path: Path) -> Iterator[Socket]:
    """A Unix socket with permissions for its owner only, from its creation on, in a folder that is private, too."""
    private_folder(path.parent)
    path.unlink(missing_ok=True)
    with Socket(AF_UNIX, SOCK_STREAM) as socket:
        before = os.umask(0o177)
        try:
            socket.bind(str(path))
            socket.listen()
        finally:
            os.umask(before)
        yield socket
        path.unlink(missing_ok=True)


def main() -> None:
    """Run the driver as a standalone program, on the stack's database."""
    from etl.stack import postgres

    structured()
    settings = load()
    serve(settings, postgres.dsn(settings))


if __name__ == "__main__":
    main()
