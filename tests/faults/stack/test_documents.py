"""A micro-batch of 100,000 documents through the DAG: the resident driver is killed in it, and the run goes on.

documents land ─▶ Airflow ─▶ resident driver ─▶ batch 1 is read … ✗        the task is tried again: the same batch,
                                                                           every pair once
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from etl import settings as configuration
from etl.adapters import postgres
from etl.errors import FrontstageError
from etl.settings import PROJECT
from etl.stack.airflow.client import Airflow
from etl.stack.daemon import down, up_detached
from etl.stack.postgres import dsn
from etl.stack.state import state
from etl.stack.supervision.processes import wait_until
from etl.streams.tasks.in_process import InProcess
from tests.support.document_site import DocumentSite, seconds

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.full, pytest.mark.timeout(1_800)]
MANY = 100_000
BOUND_S = 300.0


def migrated(where: str) -> None:
    postgres.migrate(where)


def couples() -> list[dict[str, Any]]:
    """Every other document shares a ticket with the one before; every fifth couple conflicts in its host."""
    return [
        {"n": {"id": i}, "time": seconds(i / MANY), "ticket": i // 2, **({"host": i} if i // 2 % 5 == 0 else {})}
        for i in range(MANY)
    ]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[DocumentSite]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    streams, correlations = tmp_path / "streams", tmp_path / "correlations"
    jars = PROJECT / "var" / "jars"
    own = configuration.load(
        home=tmp_path, jars=jars, streams=streams, correlations=correlations, airflow_port=port
    )  # fmt: skip
    declared = DocumentSite.under(tmp_path, dsn(own), InProcess())
    declared.declare("links", documents={"stream": "logs", "window": "1 hour", "partitions": 4})
    rows = couples()
    declared.land("a", rows[: MANY // 2])
    declared.land("b", rows[MANY // 2 :])
    up_detached(own, on_postgres=f"{__name__}:migrated")
    try:
        with Airflow.of(own) as airflow:
            airflow.wait_for_dag("correlations", BOUND_S)
            airflow.unpause("correlations")
            yield declared
            ended = wait_until(lambda: all(run.done for run in airflow.runs("correlations")), BOUND_S, every_s=0.5)
            assert ended, "runs end"
            assert {run.state for run in airflow.runs("correlations")} == {"success"}, "the task is tried again"
    finally:
        down(own)


def stands(site: DocumentSite) -> str | None:
    """The state of the last batch; None before there is one."""
    with suppress(FrontstageError):
        return site.steps.report(None).get("state")
    return None


def resident_driver(site: DocumentSite) -> psutil.Process:
    pid = state(site.under_it.settings).pid
    assert pid is not None, "the stack runs"
    lines = {one: " ".join(one.cmdline()) for one in psutil.Process(pid).children(recursive=True)}
    (found,) = (one for one, line in lines.items() if line.endswith("-m etl.spark.runner") and "guard.py" not in line)
    return found


def test_a_batch_of_100_000_documents_goes_on_after_a_kill_and_every_pair_is_there_once(site: DocumentSite) -> None:
    assert wait_until(lambda: stands(site) == "reading", BOUND_S, every_s=0.01), "no batch began"
    os.kill(resident_driver(site).pid, signal.SIGKILL)
    assert stands(site) == "reading", "it was killed in the middle"
    assert wait_until(lambda: stands(site) == "loaded", BOUND_S, every_s=0.2), "the batch was not taken up"
    assert site.steps.report(None)["batch"] == 1
    found = site.pairs("links")
    assert set(found) == {(i, i + 1) for i in range(0, MANY, 2) if i // 2 % 5}
    assert set(found.values()) == {1}
