"""The shipped examples in one stack, by their files alone: Airflow runs a DAG of each, on what lands."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from etl import settings as configuration
from etl.adapters import ledger, postgres
from etl.pipeline.inspection import inventory
from etl.pipeline.prepare import Preparer, places_of
from etl.samples.example import Expected
from etl.samples.examples import EXAMPLES
from etl.settings import PROJECT, Settings
from etl.stack.airflow.client import Airflow
from etl.stack.stack import Stack
from etl.stack.supervision.processes import marked, wait_until

pytestmark = pytest.mark.stack
SOON_S, EVENTS = 300.0, 500


@dataclass(frozen=True)
class Running:
    """A stack with the examples' masters, and what was promised of the events that landed."""

    settings: Settings
    airflow: Airflow
    dsn: str
    promised: dict[str, Expected]

    def totals(self, name: str) -> dict[str, int]:
        with ledger.reading(self.dsn, name) as book:
            return book.totals()


@pytest.fixture(scope="module")
def running(session_home: Path) -> Iterator[Running]:
    home = session_home / "examples"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    own = configuration.load(home=home, jars=PROJECT / "var" / "jars", airflow_port=port)

    def on_postgres(dsn: str) -> None:
        postgres.migrate(dsn)
        for example in EXAMPLES.values():
            example.seed(dsn, own.var)

    with Stack(own, on_postgres=on_postgres) as stack, stack.airflow() as airflow:
        start = datetime.now(UTC) - timedelta(minutes=1)
        promised = {
            name: example.generate(own.var / "landing" / name, EVENTS, 1, start) for name, example in EXAMPLES.items()
        }
        for name in EXAMPLES:
            airflow.wait_for_dag(name)
            airflow.unpause(name)
        airflow.trigger("trips", {})  # its schedule is every five minutes
        yield Running(own, airflow, stack.postgres_dsn, promised)
    assert marked(own.var) == [], "nothing is left running"


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_event_of_an_example_ends_where_it_must(running: Running, name: str) -> None:
    promised = running.promised[name]
    assert wait_until(lambda: running.totals(name).get("lines") == promised.lines, SOON_S, every_s=0.5), (
        f"{running.totals(name)} after {running.airflow.runs(name)[:3]}"
    )
    totals = running.totals(name)
    found = {where: totals[where] for where in ("fact", "quarantine", "backlog_open", "duplicates")}
    assert found == {
        "fact": promised.fact,
        "quarantine": promised.quarantined,
        "backlog_open": promised.backlog,
        "duplicates": promised.duplicates,
    }


@pytest.mark.parametrize("name", EXAMPLES)
def test_its_runs_succeed_and_what_lies_in_files_and_tables_adds_up(running: Running, name: str) -> None:
    assert wait_until(lambda: all(run.done for run in running.airflow.runs(name)), SOON_S, every_s=0.5)
    assert {run.state for run in running.airflow.runs(name)} == {"success"}
    declared = Preparer(running.settings, running.dsn).declared(name)
    with ledger.reading(running.dsn, name) as book:
        found = inventory.take(declared, places_of(running.settings, declared), book, running.dsn)
    assert found.faults == []
    assert found.raw_lines == running.promised[name].lines
