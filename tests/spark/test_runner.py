"""The resident driver and its client, over a real Unix socket."""

from __future__ import annotations

import stat
import threading
from collections.abc import Iterator

import pytest
import uvicorn

from etl.adapters import ledger
from etl.spark.client import StepFailed, StepRefused, answers, count_orders, run_step
from etl.spark.runner import app, listening
from etl.stack.processes import wait_until
from tests.support.site import Site, order

pytestmark = pytest.mark.spark


@pytest.fixture
def served(site: Site) -> Iterator[Site]:
    with listening(site.settings.runner_socket) as socket:
        server = uvicorn.Server(uvicorn.Config(app(site.steps), log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]})
        thread.start()
        assert wait_until(lambda: answers(site.settings.runner_socket), 20)
        yield site
        server.should_exit = True
        thread.join(timeout=20)
        assert not thread.is_alive()


def no_dsn() -> str:
    raise AssertionError("the client must not start a Spark of its own while the driver answers")


def test_the_driver_tells_progress_result_and_errors_and_only_its_owner_can_ask(served: Site) -> None:
    mode = served.settings.runner_socket.stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600
    served.land("a.jsonl", order(1))
    said: list[str] = []
    result = run_step(served.settings, no_dsn, "ingest_enrich", "run", say=said.append)
    assert result["batch"] == "0"
    assert "publishing master customer" in said[0]
    assert "1 orders landed; 1 accepted" in said[-1]
    with pytest.raises(StepFailed, match="batch 99 is not in the ledger"):
        run_step(served.settings, no_dsn, "validate", "run", batch="99", say=said.append)
    with pytest.raises(StepFailed, match="'x' is not a batch"):
        run_step(served.settings, no_dsn, "load", "run", batch="x", say=said.append)
    with ledger.writing(served.dsn, "somebody else"), pytest.raises(StepRefused, match="somebody else"):
        run_step(served.settings, no_dsn, "validate", "run", batch="0", say=said.append)
    assert count_orders(served.settings)["fact"] == 0


def test_without_a_driver_the_client_says_so(site: Site) -> None:
    assert not answers(site.settings.runner_socket)
    with pytest.raises(StepRefused, match="frontstage up"):
        count_orders(site.settings)
