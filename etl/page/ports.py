"""The page's port to its host: authentication, permissions, and runs of DAGs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from fastapi import Request

from etl.errors import TerminalError


@dataclass(frozen=True, slots=True)
class User:
    """A logged-in user. `who` is the host's own, opaque user object."""

    id: str
    name: str
    who: Any = None


@dataclass(frozen=True, slots=True)
class Dag:
    """A DAG's state in the scheduler."""

    name: str
    paused: bool


@dataclass(frozen=True, slots=True)
class Order:
    """A run that a user has confirmed. `action` names it in the audit log."""

    action: str
    dag: str
    conf: Mapping[str, Any]
    note: str = ""
    unpause: bool = False


class NotLoggedIn(TerminalError):
    """The request has no logged-in user."""

    def __str__(self) -> str:
        return "please log in"


class Forbidden(TerminalError):
    """The user lacks the permission."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"{self.what} needs the right to start runs of the DAG; ask who runs this Airflow"


class RunRefused(TerminalError):
    """A run could not be started."""

    def __init__(self, dag: str, reason: str) -> None:
        super().__init__(dag, reason)
        self.dag, self.reason = dag, reason

    def __str__(self) -> str:
        return f"no run of {self.dag} was started: {self.reason}"


class Access(Protocol):
    """The host of the page."""

    async def user(self, request: Request) -> User:
        """The user of a request. Raises `NotLoggedIn`."""
        ...

    def may_run(self, user: User, dag: str) -> bool:
        """Whether the user may start runs of a DAG."""
        ...

    def dag(self, name: str) -> Dag | None:
        """A DAG, if there is one of this name."""
        ...

    def start(self, user: User, order: Order) -> str:
        """Start a run on behalf of a user, with an entry in the audit log; returns its id. Raises `RunRefused`."""
        ...

    def run_state(self, dag: str, run_id: str) -> str | None:
        """The state of a run."""
        ...

    def secret(self) -> bytes:
        """The key for signing forms; the same in every process of the host."""
        ...

    def login_url(self, request: Request) -> str:
        """The URL of the login page."""
        ...
