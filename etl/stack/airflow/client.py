"""A small client of Airflow's REST API, for commands, the demo and tests.

A token is fetched with the login and renewed when it has expired. Temporary failures (no connection yet, 502 to
504) are retried for a while; anything else is an error with Airflow's own message in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import httpx
from tenacity import Retrying, retry_if_exception_type, retry_if_result, stop_after_delay, wait_fixed

from etl.errors import MissingPart, TerminalError, TransientError
from etl.settings import Settings
from etl.stack.airflow import services
from etl.stack.credentials import credentials

DONE = frozenset({"success", "failed"})


class AirflowRefused(TerminalError):
    """Airflow refused a request."""

    def __init__(self, what: str, status: int, detail: str) -> None:
        super().__init__(what, status, detail)
        self.what, self.status, self.detail = what, status, detail

    def __str__(self) -> str:
        return f"Airflow refused to {self.what} ({self.status}: {self.detail})"


class RunUnfinished(TransientError):
    """A DAG run was not done within the time given."""

    def __init__(self, dag_id: str, run_id: str, state: str, seconds: float) -> None:
        super().__init__(dag_id, run_id, state, seconds)
        self.dag_id, self.run_id, self.state, self.seconds = dag_id, run_id, state, seconds

    def __str__(self) -> str:
        return f"run {self.run_id} of {self.dag_id} is still {self.state} after {self.seconds:.0f} s"


@dataclass(frozen=True, slots=True)
class Run:
    """A DAG run from Airflow's API."""

    dag_id: str
    run_id: str
    state: str
    conf: Mapping[str, Any]
    queued_at: datetime | None
    start: datetime | None
    end: datetime | None

    @property
    def done(self) -> bool:
        return self.state in DONE

    @property
    def seconds(self) -> float | None:
        """From queued to done."""
        first = self.queued_at or self.start
        return (self.end - first).total_seconds() if first and self.end else None


class Airflow:
    """One Airflow, logged in. Use as a context manager, or call `close`."""

    def __init__(self, url: str, user: str, password: str, patience_s: float = 20.0) -> None:
        self._login = {"username": user, "password": password}
        self._patience_s = patience_s
        # A local address: ignore proxies of the environment.
        self._http = httpx.Client(base_url=url, timeout=30, trust_env=False)

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The Airflow of this stack."""
        return cls(services.url(settings), services.USER, credentials(settings).airflow_password)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def unpause(self, dag_id: str) -> None:
        """Unpause a DAG. Its file is parsed again at once, as only that starts its asset watchers."""
        dag = self._call("unpause a DAG", "PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": False})
        self._send("PUT", f"/api/v2/parseDagFile/{dag['file_token']}")

    def pause(self, dag_id: str) -> None:
        self._call("pause a DAG", "PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": True})

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Queue a run; returns its id."""
        body = {"logical_date": None, "conf": dict(conf or {})}
        return str(self._call("start a run", "POST", f"/api/v2/dags/{dag_id}/dagRuns", json=body)["dag_run_id"])

    def run(self, dag_id: str, run_id: str) -> Run:
        return _run(self._call("show a run", "GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}"))

    def runs(self, dag_id: str, limit: int = 100) -> list[Run]:
        """The latest runs, newest first."""
        query = {"limit": limit, "order_by": "-run_after"}
        found = self._call("list runs", "GET", f"/api/v2/dags/{dag_id}/dagRuns", params=query)
        return [_run(each) for each in found["dag_runs"]]

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str]:
        """The state of every task of a run; of mapped ones that of the last."""
        found = self._call("list tasks", "GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances")
        return {task["task_id"]: str(task["state"]) for task in found["task_instances"]}

    def wait(self, dag_id: str, run_id: str, timeout_s: float, every_s: float = 0.5) -> Run:
        """The run, once it is done; `RunUnfinished` when that takes too long."""
        tries = Retrying(
            retry=retry_if_result(lambda run: not run.done),
            wait=wait_fixed(every_s),
            stop=stop_after_delay(timeout_s),
            retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
        )
        run: Run = tries(self.run, dag_id, run_id)
        if not run.done:
            raise RunUnfinished(dag_id, run_id, run.state, timeout_s)
        return run

    def wait_for_dag(self, dag_id: str, timeout_s: float = 60.0) -> None:
        """Return once the DAG has been read; a broken DAG file is an error with its reason."""

        def known() -> bool:
            answer = self._send("GET", f"/api/v2/dags/{dag_id}")
            return answer.status_code == httpx.codes.OK

        tries = Retrying(
            retry=retry_if_result(lambda found: not found),
            wait=wait_fixed(0.5),
            stop=stop_after_delay(timeout_s),
            retry_error_callback=lambda _: False,
        )
        if not tries(known):
            errors = self._call("list import errors", "GET", "/api/v2/importErrors")["import_errors"]
            reason = str(errors[0]["stack_trace"]).strip().splitlines()[-1] if errors else "its file was not read"
            raise MissingPart(f"Airflow does not know the DAG {dag_id!r} ({reason})", "see var/logs/dag-processor.log")

    def dag(self, dag_id: str) -> dict[str, Any]:
        """A DAG's details from Airflow."""
        return dict(self._call("show a DAG", "GET", f"/api/v2/dags/{dag_id}"))

    def required_actions(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """The open required actions of a run."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/hitlDetails"
        return [dict(one) for one in self._call("list required actions", "GET", path)["hitl_details"]]

    def respond(self, dag_id: str, run_id: str, task_id: str, option: str, **form: Any) -> None:
        """Respond to a required action of a run."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/-1/hitlDetails"
        body = {"chosen_options": [option], "params_input": form}
        self._call("answer a required action", "PATCH", path, json=body)

    def asset_events(self, dag_id: str, limit: int = 100) -> dict[str, dict[str, Any]]:
        """The extra of the newest event from this DAG, by asset."""
        query = {"source_dag_id": dag_id, "limit": limit, "order_by": "timestamp"}
        found = self._call("list asset events", "GET", "/api/v2/assets/events", params=query)
        return {event["name"]: dict(event["extra"]) for event in found["asset_events"]}

    def health(self) -> dict[str, str]:
        """Status of each of Airflow's parts; empty while the API server does not answer."""
        try:
            parts = self._http.get("/api/v2/monitor/health", timeout=5).json()
        except (httpx.HTTPError, ValueError):
            return {}
        return {name: str(part.get("status")) for name, part in parts.items()}

    def runs_tasks(self) -> bool:
        """Whether the API for tasks answers.

        That API is initialised by its first request, which takes seconds; this call makes it happen before a task
        has to wait for it.
        """
        try:
            return self._http.get("/execution/health", timeout=10).is_success
        except httpx.HTTPError:
            return False

    def _call(self, what: str, method: str, path: str, **request: Any) -> Any:
        answer = self._send(method, path, **request)
        if answer.is_success:
            return answer.json()
        try:
            detail = str(answer.json()["detail"])
        except (ValueError, KeyError, TypeError):
            detail = answer.text[:200]
        raise AirflowRefused(what, answer.status_code, detail)

    def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Send with a token, a new one if ours is missing or rejected."""
        if "Authorization" in self._http.headers:
            answer = self._patiently(method, path, **request)
            if answer.status_code != httpx.codes.UNAUTHORIZED:
                return answer
        self._http.headers.pop("Authorization", None)
        token = self._patiently("POST", "/auth/token", json=self._login)
        if not token.is_success:
            raise AirflowRefused("log in", token.status_code, "the login is not accepted")
        self._http.headers["Authorization"] = f"Bearer {token.json()['access_token']}"
        return self._patiently(method, path, **request)

    def _patiently(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Retry only requests that cannot have arrived, or that are idempotent."""
        safe = method != "POST" or path == "/auth/token"
        errors = (httpx.TransportError,) if safe else (httpx.ConnectError,)
        tries = Retrying(
            retry=retry_if_exception_type(errors) | retry_if_result(lambda answer: safe and _not_now(answer)),
            wait=wait_fixed(0.5),
            stop=stop_after_delay(self._patience_s),
            retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
        )
        try:
            answer: httpx.Response = tries(self._http.request, method, path, **request)
        except httpx.TransportError as error:
            raise MissingPart(
                f"Airflow at {self._http.base_url} does not answer ({type(error).__name__})",
                "start the stack with `frontstage up`, or see var/logs/api-server.log",
            ) from None
        return answer


def _not_now(answer: httpx.Response) -> bool:
    return answer.status_code in (502, 503, 504)


def _run(payload: Mapping[str, Any]) -> Run:
    def moment(name: str) -> datetime | None:
        return datetime.fromisoformat(payload[name]) if payload.get(name) else None

    return Run(
        dag_id=payload["dag_id"],
        run_id=payload["dag_run_id"],
        state=payload["state"],
        conf=payload["conf"] or {},
        queued_at=moment("queued_at"),
        start=moment("start_date"),
        end=moment("end_date"),
    )
