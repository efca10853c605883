"""The whole stack as a context manager: Postgres, the resident Spark driver, Airflow, and extras.

    with Stack(load(), progress=print) as stack:
        stack.postgres_dsn, stack.airflow_url, stack.login

    preflight ─ lock ─ postgres ─┬─ spark driver ─────┬─ all healthy ─ extras (e.g. a live generator)
                                 └─ airflow, migrated ┘

Leaving the block stops everything, Postgres last, as the others need it to shut down. Inside the block, `watch`
restarts services that end. If this process dies, the guards end everything (see `supervision.guard`).
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import FrameType, TracebackType
from typing import Literal, Self, get_args

from etl.settings import PROJECT, Settings
from etl.spark.runner.client import answers, responds
from etl.stack import cluster, postgres, preflight, state
from etl.stack.airflow import services as airflow_services
from etl.stack.airflow.client import Airflow
from etl.stack.credentials import credentials
from etl.stack.environment import project_environment
from etl.stack.supervision.guard import adopt_orphans
from etl.stack.supervision.probe import Probe
from etl.stack.supervision.processes import (
    Guarded,
    Service,
    ServiceFailed,
    StackRunning,
    last_line,
    locked,
    stack_lock,
    start,
    wait_until,
)
from etl.stack.supervision.supervisor import Status, Watch

Part = Literal["postgres", "spark", "airflow"]
PARTS: tuple[Part, ...] = get_args(Part)
AIRFLOW_PARTS = ("metadatabase", "scheduler", "dag_processor", "triggerer")
HEALTHY_S = 300.0

Progress = Callable[[str], None]


def silent(_: str) -> None:
    """The default progress callback: does nothing."""


@dataclass(frozen=True, slots=True)
class Extra:
    """A program to run beside the stack once it is healthy."""

    name: str
    argv: tuple[str, ...]


class Stack:
    """The stack, from `with` to the end of the block."""

    def __init__(
        self,
        settings: Settings,
        services: Collection[Part] = PARTS,
        extras: Sequence[Extra] = (),
        on_postgres: Callable[[str], None] | None = None,
        progress: Progress = silent,
    ) -> None:
        """`on_postgres` is called with our database's DSN before anything that uses it starts."""
        self.settings = settings
        self.parts = frozenset(services) | ({"postgres"} if "airflow" in services else frozenset())
        self._extras, self._on_postgres, self._progress = tuple(extras), on_postgres, progress
        self._watch = Watch(self._write)
        self._undo = ExitStack()
        self._record = state.Record.of_this_process(self.airflow_url)

    @property
    def postgres_dsn(self) -> str:
        return postgres.dsn(self.settings)

    @property
    def airflow_url(self) -> str | None:
        return airflow_services.url(self.settings) if "airflow" in self.parts else None

    @property
    def login(self) -> tuple[str, str]:
        """User and password of Airflow's pages."""
        return airflow_services.USER, credentials(self.settings).airflow_password

    def airflow(self) -> Airflow:
        """A client of this stack's Airflow; close it."""
        return Airflow.of(self.settings)

    def statuses(self) -> dict[str, Status]:
        """The status of each service."""
        return self._watch.statuses()

    def __enter__(self) -> Self:
        if locked(self.settings):
            raise StackRunning(self.settings.var)
        preflight.require(self.settings, self.parts)
        with ExitStack() as undo:
            lock = undo.enter_context(stack_lock(self.settings))
            undo.callback(state.forget, self.settings)
            undo.enter_context(_adopting())
            undo.enter_context(_ending_on_signals())
            undo.callback(self._stop)
            self._start([lock])
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    def wait(self) -> None:
        """Wait until a signal ends the process."""
        while True:
            signal.pause()

    def _start(self, keep: Sequence[int]) -> None:
        if "postgres" in self.parts:
            self._start_postgres(keep)
        waiting: dict[str, Callable[[], bool]] = {}
        if "spark" in self.parts:
            probe = Probe(partial(responds, self.settings.runner_socket))
            self._begin(self._service("spark", (sys.executable, "-m", "etl.spark.runner")), keep, probe)
            waiting["the Spark driver"] = partial(answers, self.settings.runner_socket)
        with ExitStack() as clients:
            if "airflow" in self.parts:
                self._watch.add("airflow", partial(_start_airflow, self.settings, keep), needs=["postgres"])
                client = clients.enter_context(self.airflow())
                waiting["Airflow"] = partial(_airflow_answers, client)
            self._wait_for(waiting)
            if "airflow" in self.parts:
                airflow_services.remember_schema(self.settings)
        for extra in self._extras:
            self._begin(self._service(extra.name, extra.argv), keep)
        self._watch.start()

    def _start_postgres(self, keep: Sequence[int]) -> None:
        external = self.settings.postgres_dsn is not None
        if external:
            postgres.check(self.settings)
            if "airflow" in self.parts and self.settings.airflow_dsn is None:
                postgres.create_databases(self.settings, [postgres.AIRFLOW])
        else:
            self._watch.add("postgres", partial(postgres.start_embedded, self.settings, keep))
        self._progress(f"Postgres answers{' (yours)' if external else ''}")
        if self._on_postgres is not None:
            self._on_postgres(self.postgres_dsn)

    def _service(self, name: str, argv: tuple[str, ...]) -> Service:
        log = self.settings.var / "logs" / f"{name}.log"
        return Service(name, argv, project_environment(self.settings), log, cwd=PROJECT)

    def _begin(self, service: Service, keep: Sequence[int], probe: Probe | None = None) -> None:
        self._watch.add(service.name, partial(start, service, self.settings.var, keep), ["postgres"], probe)

    def _wait_for(self, waiting: dict[str, Callable[[], bool]]) -> None:
        """Wait until all answer; raises if one ends or on a timeout."""

        def all_answer() -> bool:
            for kept in self._watch.kept:
                code = kept.guarded.poll()
                if code is not None:
                    log = kept.guarded.service.log
                    raise ServiceFailed(kept.name, f"ended while starting, code {code} ({last_line(log)})", log)
            for name in [name for name, is_up in waiting.items() if is_up()]:
                del waiting[name]
                self._progress(f"{name} answers")
            return not waiting

        if not wait_until(all_answer, HEALTHY_S, every_s=0.2):
            missing = " and ".join(waiting)
            raise ServiceFailed(missing, f"did not answer within {HEALTHY_S:.0f} s", self.settings.var / "logs")

    def _write(self, statuses: dict[str, Status]) -> None:
        self._record = replace(self._record, services=dict(statuses))
        self._record.write(self.settings)

    def _stop(self) -> None:
        self._progress("stopping")
        self._watch.stop(last="postgres")
        cluster.tidy(self.settings)


def _start_airflow(settings: Settings, keep: Sequence[int]) -> Guarded:
    return start(airflow_services.service(settings), settings.var, keep)


def _airflow_answers(airflow: Airflow) -> bool:
    health = airflow.health() if airflow.runs_tasks() else {}
    return all(health.get(part) == "healthy" for part in AIRFLOW_PARTS)


@contextmanager
def _adopting() -> Iterator[None]:
    """Become a subreaper: if a guard is killed, its service becomes our child, not init's."""
    adopt_orphans()
    try:
        yield
    finally:
        adopt_orphans(False)


@contextmanager
def _ending_on_signals() -> Iterator[None]:
    """TERM and HUP leave the block by an exception, unless they have other handlers."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    ours = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) == signal.SIG_DFL]
    for number in ours:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
