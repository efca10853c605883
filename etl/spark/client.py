"""How a step is run from anywhere: by the resident driver when it answers, else by a Spark of one's own.

The second way costs a Spark start per step and needs nothing but this machine; the results are the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM
from socket import socket as Socket
from typing import Any

import httpx

from etl.errors import TerminalError, TransientError
from etl.model import Progress, Step
from etl.settings import Settings

Dsn = Callable[[], str]


class StepFailed(TerminalError):
    """The runner says a step failed and that trying again will not help."""


class StepRefused(TransientError):
    """The runner says a step did not work this time."""


def run_step(
    settings: Settings,
    dsn: Dsn,
    step: Step,
    run_id: str,
    *,
    batch: str | None = None,
    release: str | None = None,
    say: Progress = print,
) -> dict[str, Any]:
    """Run one step and return its result; raises `TerminalError` or `TransientError` with the runner's sentence."""
    if answers(settings.runner_socket):
        return _ask(settings.runner_socket, step, {"run_id": run_id, "batch": batch, "release": release}, say)
    from etl.spark.session import spark_session
    from etl.spark.steps import Steps

    say("no resident Spark driver answers; starting Spark for this step")
    with spark_session(settings) as spark:
        steps = Steps(spark, settings, dsn())
        steps.prepare()
        return steps.run(step, run_id, batch, release, say)


def answers(socket: Path) -> bool:
    """Whether a resident driver is ready."""
    try:
        with Socket(AF_UNIX, SOCK_STREAM) as probe:  # httpx would leave a socket open that nobody accepts
            probe.connect(str(socket))
        with _client(socket, timeout=5.0) as client:
            return client.get("/health").status_code == httpx.codes.OK
    except httpx.ReadTimeout:
        return True  # somebody is there, and busy
    except (OSError, httpx.TransportError):
        return False


def count_orders(settings: Settings) -> dict[str, int]:
    """Where every order is, counted anew in the Delta tables by the resident driver."""
    if not answers(settings.runner_socket):
        raise StepRefused("no resident Spark driver answers; start it with `frontstage up`")
    with _client(settings.runner_socket, timeout=300.0) as client:
        answer = client.get("/orders").raise_for_status()
        return {name: int(count) for name, count in answer.json().items()}


def _ask(socket: Path, step: Step, call: dict[str, str | None], say: Progress) -> dict[str, Any]:
    # The runner sends a sign of life every few seconds; silence means that it is gone.
    with (
        _client(socket, timeout=60.0) as client,
        client.stream("POST", f"/steps/{step}", json=call) as answer,
    ):
        answer.raise_for_status()
        for event in _events(answer):
            if "line" in event:
                say(event["line"])
            elif "result" in event:
                return dict(event["result"])
            elif "error" in event:
                kind = StepFailed if event["error"]["kind"] == "terminal" else StepRefused
                raise kind(event["error"]["message"])
    raise StepRefused(f"the runner ended in the middle of {step}; see its log under var/logs")


def _events(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    try:
        for line in answer.iter_lines():
            yield json.loads(line)
    except httpx.TransportError:
        return


def _client(socket: Path, timeout: float) -> httpx.Client:
    return httpx.Client(transport=httpx.HTTPTransport(uds=str(socket)), base_url="http://runner", timeout=timeout)
