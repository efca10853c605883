"""End to end as a user sees it: the command, real Airflow processes, its REST API, the pages, and nothing left."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from etl import settings as configuration
from etl.adapters import ledger
from etl.settings import PROJECT, Settings
from etl.spark.runner.client import answers
from etl.stack import postgres
from etl.stack.airflow.client import Airflow
from etl.stack.daemon import down
from etl.stack.state import state
from etl.stack.supervision.processes import marked, wait_until
from tests.support.command_line import command_line

pytestmark = pytest.mark.stack

FRONTSTAGE = [sys.executable, "-m", "etl.cli"]


@pytest.fixture(scope="module")
def environment(session_home: Path) -> dict[str, str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = session_home / "demo"
    home.mkdir()
    own = {"FRONTSTAGE_HOME": home, "FRONTSTAGE_JARS": PROJECT / "var" / "jars", "FRONTSTAGE_AIRFLOW_PORT": port}
    return {**os.environ, **{name: str(value) for name, value in own.items()}}


@pytest.fixture(scope="module")
def demo(environment: dict[str, str]) -> dict[str, object]:
    sizes = ["--customers", "2000", "--products", "500", "--orders", "4000", "--waves", "2"]
    done = subprocess.run(
        [*FRONTSTAGE, "demo", *sizes], env=environment, cwd=PROJECT, capture_output=True, text=True, timeout=1200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every order is in exactly one place" in done.stdout
    summary = json.loads((Path(environment["FRONTSTAGE_HOME"]) / "var" / "demo" / "summary.json").read_text())
    return dict(summary)


def test_the_demo_accounts_for_every_order(demo: dict[str, int]) -> None:
    assert demo["orders_landed"] == 4000
    assert demo["fact"] + demo["quarantine"] + demo["backlog_open"] + demo["duplicates"] == 4000
    assert demo["fact"] > 3500
    assert demo["unmatched_open"] == demo["backlog_open"] > 0, "some customers never arrive"


def test_airflow_ran_every_micro_batch_and_all_succeeded(demo: dict[str, list[dict[str, object]]]) -> None:
    assert len(demo["dag_runs"]) == 2
    assert {run["state"] for run in demo["dag_runs"]} == {"success"}


def test_both_reports_are_there(demo: dict[str, dict[str, str]]) -> None:
    assert "Frontstage" in Path(demo["reports"]["run"]).read_text()
    assert "orders-1" in Path(demo["reports"]["data_docs"]).read_text()


def test_nothing_runs_after_the_demo(demo: dict[str, object], environment: dict[str, str]) -> None:
    assert marked(Path(environment["FRONTSTAGE_HOME"]) / "var" / "demo") == []


def test_ctrl_c_in_the_middle_stops_everything(demo: dict[str, object], environment: dict[str, str]) -> None:
    var = Path(environment["FRONTSTAGE_HOME"]) / "var" / "demo"
    running = subprocess.Popen(
        [*FRONTSTAGE, "demo"],
        env=environment,
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background shell has it ignored
    )
    assert running.stdout is not None
    assert any("Postgres answers" in line for line in running.stdout), "the demo starts"
    assert wait_until(lambda: len(marked(var)) >= 3, 120), "services are on their way"
    running.send_signal(signal.SIGINT)
    try:
        output = running.communicate(timeout=120)[0]
    finally:
        running.kill()
    assert running.returncode == 130, output
    assert "Traceback" not in output
    assert wait_until(lambda: not marked(var), 60), "every process ends by itself"


@pytest.fixture(scope="module")
def up(environment: dict[str, str], demo: dict[str, object]) -> Iterator[Settings]:
    """`frontstage up` without its generator, as a user would leave it running."""
    done = subprocess.run(
        [*FRONTSTAGE, "up", "--rate", "0"], env=environment, cwd=PROJECT, capture_output=True, text=True, timeout=1200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "password" in done.stdout
    home = Path(environment["FRONTSTAGE_HOME"])
    own = configuration.load(
        home=home, jars=PROJECT / "var" / "jars", airflow_port=int(environment["FRONTSTAGE_AIRFLOW_PORT"])
    )
    yield own
    ended = subprocess.run([*FRONTSTAGE, "down"], env=environment, cwd=PROJECT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert marked(own.var) == []
    down(own)


GOOD = {"order_id": 1, "customer_id": 1, "product_id": 1, "quantity": 1, "unit_price": 2, "ordered_at": "2026-11-01"}


def land(own: Settings, name: str, *lines: bytes) -> None:
    folder = own.var / "landing" / "orders"
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{name}"
    draft.write_bytes(b"".join(line + b"\n" for line in lines))
    draft.rename(folder / f"{name}.jsonl")


def totals(own: Settings) -> dict[str, int]:
    with ledger.reading(postgres.dsn(own), "orders") as book:
        return book.totals()


def test_a_file_put_into_landing_by_hand_is_loaded_once_though_the_driver_is_killed_in_the_middle(up: Settings) -> None:
    orders = [GOOD, GOOD, {**GOOD, "quantity": 5}, {**GOOD, "order_id": 2, "quantity": -1}]
    pins = up.master_pages / "postgres.master.customers" / "pins"
    land(up, "by-hand", *[json.dumps(order).encode() for order in orders], b"{broken")
    assert wait_until(lambda: any(pins.glob("*.json")), 120), (
        "a run starts and holds its master rows until it has decided"
    )
    (driver,) = (one for one in marked(up.var) if command_line(one)[1:] == ["-m", "etl.spark.runner"])
    for process in (driver, *driver.children(recursive=True)):
        process.kill()
    assert wait_until(lambda: totals(up).get("lines") == 5, 240, every_s=0.5), "the run is tried again"
    after = totals(up)
    assert {name: after[name] for name in ("fact", "duplicates", "quarantine", "backlog_open")} == {
        "fact": 1, "duplicates": 1, "quarantine": 3, "backlog_open": 0,
    }  # fmt: skip
    latest = up.reports / "orders" / "latest.json"
    assert wait_until(latest.exists, 120)
    assert json.loads(latest.read_text())["counts"]["landed"] == 5
    assert wait_until(lambda: answers(up.runner_socket), 120), "the driver is started again"
    assert wait_until(lambda: not any(pins.glob("*.json")), 120), "nobody holds rows any more"
    with Airflow.of(up) as airflow:
        assert wait_until(lambda: all(run.done for run in airflow.runs("orders")), 120)
        assert {run.state for run in airflow.runs("orders")} == {"success"}
    assert state(up).running


def test_status_and_a_second_start_say_what_is_running(up: Settings, environment: dict[str, str]) -> None:
    result = subprocess.run(
        [*FRONTSTAGE, "status", "--json"], env=environment, cwd=PROJECT, capture_output=True, text=True
    )
    assert json.loads(result.stdout)["services"] == {"airflow": "running", "postgres": "running", "spark": "running"}
    again = subprocess.run([*FRONTSTAGE, "up"], env=environment, cwd=PROJECT, capture_output=True, text=True)
    assert again.returncode != 0
    assert again.stderr.startswith("frontstage: ")
    assert "Traceback" not in again.stderr
