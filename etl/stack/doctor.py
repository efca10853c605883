"""Can this machine run Frontstage? One line per requirement, with the remedy for missing ones.

All checks run, even after a failure, so that a person sees all problems at once. Nothing is
started except, when asked to look deep, a small Spark session that ends again.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from etl.errors import FrontstageError, MissingPart, SettingsError
from etl.settings import Settings, load
from etl.stack import cluster, postgres, preflight
from etl.stack.environment import project_environment
from etl.stack.state import state
from etl.stack.supervision.processes import Service, ServiceFailed, run_to_end

PYTHONS = ((3, 11), (3, 12))
"""The versions that the lock files support: `requirements/pythons.txt`."""
SPARK_S = 120.0
SPARK_SCRIPT = """
from etl.settings import load
from etl.spark.session import spark_session
with spark_session(load(), app_name="doctor") as spark:
    assert spark.range(10).count() == 10
"""


@dataclass(frozen=True, slots=True)
class Check:
    """One check of the doctor."""

    name: str
    ok: bool
    sentence: str


def examine(*, deep: bool = False) -> Iterator[Check]:
    """All checks, beginning with the settings; without valid ones the others are skipped."""
    try:
        settings = load()
    except SettingsError as error:
        yield Check("settings", False, str(error))
        return
    yield from checks(settings, deep=deep)


def checks(settings: Settings, *, deep: bool = False) -> Iterator[Check]:
    """All checks for settings that are known to be valid. `deep` starts a small Spark session as well."""
    asked: list[tuple[str, Callable[[], str]]] = [
        ("settings", lambda: f"valid, home is {settings.home}"),
        ("Python", _python),
        ("Java", preflight.java),
        ("jars", lambda: preflight.jars(settings)),
        ("disk", lambda: preflight.disk(settings)),
        ("var", lambda: preflight.writable(settings.var)),
        ("ports", lambda: _ports(settings)),
        ("Postgres", lambda: _postgres(settings)),
    ]
    if deep:
        asked.append(("Spark", lambda: _spark(settings)))
    for name, ask in asked:
        try:
            yield Check(name, True, ask())
        except FrontstageError as error:
            yield Check(name, False, str(error))


def _python() -> str:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] not in PYTHONS:
        allowed = " or ".join(".".join(map(str, one)) for one in PYTHONS)
        raise MissingPart(f"this is Python {found}", f"use Python {allowed}")
    return f"Python {found}"


def _ports(settings: Settings) -> str:
    if state(settings).running:
        return f"port {settings.airflow_port} is used by the running stack"
    return preflight.ports(settings, ("postgres", "airflow"))


def _postgres(settings: Settings) -> str:
    if settings.postgres_dsn is not None:
        return f"Postgres {postgres.check(settings)} answers (yours)"
    if state(settings).running:
        return f"Postgres {postgres.check(settings)} answers (embedded)"
    program = str(cluster.binaries() / "postgres")
    try:
        result = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        raise MissingPart("the embedded Postgres does not run here", "set FRONTSTAGE_POSTGRES_DSN") from None
    return f"{result.stdout.strip()} is ready to start"


def _spark(settings: Settings) -> str:
    log = settings.var / "logs" / "doctor-spark.log"
    service = Service("spark", (sys.executable, "-c", SPARK_SCRIPT), project_environment(settings), log)
    try:
        run_to_end(service, settings.var, SPARK_S)
    except ServiceFailed as error:
        raise MissingPart("Spark does not start", f"see {error.log}") from None
    return "a Spark session started and counted"
