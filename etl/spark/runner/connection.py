"""The connection to the resident driver: HTTP over a Unix socket, with responses as JSON lines.

Only a private socket in a private folder is used, since both sides trust each other's messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM
from socket import socket as Socket
from typing import Any

import httpx
from pydantic import BaseModel

from etl.errors import TerminalError, TransientError
from etl.model import Progress
from etl.private_paths import NotPrivate, require_private


class StepFailed(TerminalError):
    """The runner reports a terminal error of a step."""


class StepRefused(TransientError):
    """The runner reports a transient error of a step."""


def answers(socket: Path) -> bool:
    """Whether a resident driver is ready."""
    try:
        _require_private(socket)
        with Socket(AF_UNIX, SOCK_STREAM) as probe:  # httpx would leave an unaccepted socket open
            probe.connect(str(socket))
        with _client(socket, timeout=5.0) as client:
            return client.get("/health").status_code == httpx.codes.OK
    except httpx.ReadTimeout:
        return True  # alive, but busy
    except (OSError, httpx.TransportError):
        return False


def responds(socket: Path) -> bool:
    """Whether there is any response, even an error. A driver that hangs gives none, and neither does another user's."""
    try:
        with _client(socket, timeout=20.0) as client:
            client.get("/health")
            return True
    except (OSError, httpx.TransportError, NotPrivate):
        return False


def post(socket: Path, path: str, call: BaseModel, progress: Progress) -> dict[str, Any]:
    """Send a request and wait for its result; raises `StepFailed` or `StepRefused` with the driver's message."""
    asked = call.model_dump(mode="json", exclude_none=True)
    # The runner sends a heartbeat every few seconds; silence means that it is gone.
    try:
        with _client(socket, timeout=60.0) as client, client.stream("POST", path, json=asked) as answer:
            answer.raise_for_status()
            for event in _events(answer):
                if "line" in event:
                    progress(event["line"])
                elif "result" in event:
                    return dict(event["result"])
                elif "error" in event:
                    kind = StepFailed if event["error"]["kind"] == "terminal" else StepRefused
                    raise kind(event["error"]["message"])
    except (
        FileNotFoundError,
        httpx.TransportError,
    ) as error:  # it exited after it had accepted the request, or it hangs
        raise StepRefused(f"the runner does not take {path} ({type(error).__name__}); see its log") from error
    raise StepRefused(f"the runner ended in the middle of {path}; see its log under var/logs")


def _require_private(socket: Path) -> None:
    """Refuse a socket that another user has created, or could have."""
    require_private(socket.parent)
    require_private(socket)


def _events(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    try:
        for line in answer.iter_lines():
            yield json.loads(line)
    except httpx.TransportError:
        return


def _client(socket: Path, timeout: float) -> httpx.Client:
    _require_private(socket)
    return httpx.Client(transport=httpx.HTTPTransport(uds=str(socket)), base_url="http://runner", timeout=timeout)
