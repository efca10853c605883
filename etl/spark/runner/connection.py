"""The connection to the resident driver: HTTP over a Unix socket, with responses as JSON lines.

Only a socket created by this user or root is used, since both sides trust each other's messages.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM
from socket import socket as Socket
from typing import Any

import httpx
from pydantic import BaseModel

from etl.errors import TerminalError, TransientError
from etl.model import Progress


class StepFailed(TerminalError):
    """The runner reports a terminal error of a step."""


class StepRefused(TransientError):
    """The runner reports a transient error of a step."""


class ForeignSocket(TerminalError):
    """The driver's socket could have been created by another user."""

    def __init__(self, socket: str, what: str) -> None:
        super().__init__(socket, what)
        self.socket, self.what = socket, what

    def __str__(self) -> str:
        return f"{self.socket} {self.what}; whoever answers there might not be our driver, so nothing is asked of it"


def answers(socket: Path) -> bool:
    """Whether a resident driver is ready."""
    try:
        _require_own(socket)
        with Socket(AF_UNIX, SOCK_STREAM) as probe:  # httpx would leave an unaccepted socket open
            probe.connect(str(socket))
        with _client(socket, timeout=5.0) as client:
            return client.get("/health").status_code == httpx.codes.OK
    except httpx.ReadTimeout:
        return True  # alive, but busy
    except (OSError, httpx.TransportError):
        return False


def responds(socket: Path) -> bool:
    """Whether there is any response, even an error. A driver that hangs gives none."""
    try:
        with _client(socket, timeout=20.0) as client:
            client.get("/health")
            return True
    except (OSError, httpx.TransportError):
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
    except httpx.TransportError as error:  # it exited after it had accepted the request, or it hangs
        raise StepRefused(f"the runner does not take {path} ({type(error).__name__}); see its log") from error
    raise StepRefused(f"the runner ended in the middle of {path}; see its log under var/logs")


def _require_own(socket: Path) -> None:
    """Refuse a socket that another user has created, or could have."""
    wrong = foreign(socket.lstat(), socket.parent.stat(), os.geteuid())
    if wrong is not None:
        raise ForeignSocket(str(socket), wrong)


def foreign(socket: os.stat_result, folder: os.stat_result, user: int) -> str | None:
    """Why a socket is not trusted; None when only this user or root can have created it."""
    if socket.st_uid not in (user, 0):
        return f"belongs to user {socket.st_uid}"
    if folder.st_uid not in (user, 0):
        return f"is in a folder of user {folder.st_uid}"
    if folder.st_mode & stat.S_IWOTH and not folder.st_mode & stat.S_ISVTX:
        return "is in a folder that everybody may write to"
    return None


def _events(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    try:
        for line in answer.iter_lines():
            yield json.loads(line)
    except httpx.TransportError:
        return


def _client(socket: Path, timeout: float) -> httpx.Client:
    return httpx.Client(transport=httpx.HTTPTransport(uds=str(socket)), base_url="http://runner", timeout=timeout)
