"""The resident Spark driver: Spark starts once, and every step of every run finds it warm.

    Airflow task ──HTTP over a Unix socket──▶ runner ──▶ Steps on one SparkSession
                 ◀── lines of JSON: progress …, then the result or the error ──

Only the socket's owner can connect. One step runs at a time; a second one is told `Busy`. When a client goes away in
the middle, the Spark jobs of its step are cancelled: steps are made to be repeated.
"""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM
from socket import socket as Socket
from typing import Any

import structlog
import uvicorn
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from etl.errors import Busy, FrontstageError, TransientError
from etl.logs import structured
from etl.model import Step
from etl.settings import Settings, load
from etl.spark.session import spark_session
from etl.spark.steps import Steps

log = structlog.get_logger("runner")
_HEARTBEAT_S = 5.0


class Call(BaseModel):
    """What a client asks for."""

    run_id: str
    batch: str | None = None
    release: str | None = None


class Work:
    """One step in its own thread, seen as a stream of events."""

    def __init__(self, steps: Steps, step: Step, call: Call, ended: Callable[[], None]) -> None:
        """`ended` is called when the step is over, whoever still listens."""
        self._steps, self._step, self._call, self._ended = steps, step, call, ended
        self._events: queue.Queue[dict[str, Any]] = queue.Queue()
        self._thread = threading.Thread(target=self._work, name=step, daemon=True)
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
                self._cancel()

    def _cancel(self) -> None:
        """The client is gone. A stream runs under a group of its own, so it is told apart."""
        log.warning("client gone, cancelling", step=self._step, run_id=self._call.run_id)
        self._steps.spark.sparkContext.cancelJobGroup(self._call.run_id)
        for query in self._steps.spark.streams.active:
            query.stop()

    def _next(self) -> dict[str, Any]:
        try:
            return self._events.get(timeout=_HEARTBEAT_S)
        except queue.Empty:
            return {"alive": True}

    def _work(self) -> None:
        self._steps.spark.sparkContext.setJobGroup(self._call.run_id, self._step, interruptOnCancel=True)
        say = lambda line: self._events.put({"line": line})  # noqa: E731 - a name for the callback reads best here
        call = self._call
        try:
            outcome = {"result": self._steps.run(self._step, call.run_id, call.batch, call.release, say)}
            log.info("step done", step=self._step, run_id=call.run_id, batch=outcome["result"].get("batch"))
        except BaseException as error:
            outcome = {"error": _told(error)}
            log.error("step failed", step=self._step, run_id=call.run_id, exc_info=not _expected(error))
        finally:
            self._ended()  # before the outcome is told: the run's next step must find the driver free
        self._events.put(outcome)


def app(steps: Steps) -> FastAPI:
    """The service, for a prepared `Steps`."""
    service = FastAPI(title="Frontstage runner", docs_url=None, redoc_url=None, openapi_url=None)
    at_work = threading.Lock()

    def only_one(step: Step, call: Call) -> Iterator[bytes]:
        if not at_work.acquire(blocking=False):
            yield json.dumps({"error": _told(Busy("another step of the runner"))}).encode() + b"\n"
            return
        yield from Work(steps, step, call, ended=at_work.release).events()

    @service.get("/health")
    def health() -> dict[str, str]:
        return {"status": "ready", "spark": steps.spark.version}

    @service.get("/orders")
    def orders() -> dict[str, int]:
        return steps.count_orders()

    @service.post("/steps/{step}")
    def run(step: Step, call: Call) -> StreamingResponse:
        return StreamingResponse(only_one(step, call), media_type="application/x-ndjson")

    return service


def _expected(error: BaseException) -> bool:
    return isinstance(error, FrontstageError)


def _told(error: BaseException) -> dict[str, str]:
    """An error as the client sees it. What we did not expect may pass: it is worth another try."""
    kind = "transient" if isinstance(error, TransientError) or not _expected(error) else "terminal"
    text = str(error) if _expected(error) else f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    return {"kind": kind, "type": type(error).__name__, "message": text}


def serve(settings: Settings, dsn: str) -> None:
    """Start Spark, make the schemas, and answer until told to stop."""
    with spark_session(settings, app_name="frontstage-runner") as spark:
        steps = Steps(spark, settings, dsn)
        steps.prepare()
        with listening(settings.runner_socket) as socket:
            log.info("ready", spark=spark.version)
            config = uvicorn.Config(app(steps), log_level="warning", timeout_graceful_shutdown=5)
            uvicorn.Server(config).run(sockets=[socket])


@contextmanager
def listening(path: Path) -> Iterator[Socket]:
    """A Unix socket that only its owner can open, from the first moment on."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
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


if __name__ == "__main__":
    from etl.stack import postgres

    structured()
    settings = load()
    serve(settings, postgres.dsn(settings))
