"""The demonstration of correlations as a user sees it: the command, real Airflow, the oracle, and nothing left."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from etl.settings import PROJECT
from etl.stack.supervision.processes import marked

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def home(session_home: Path) -> Path:
    folder = session_home / "demo-correlations"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def summary(home: Path) -> dict[str, Any]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    own = {"FRONTSTAGE_HOME": home, "FRONTSTAGE_JARS": PROJECT / "var" / "jars", "FRONTSTAGE_AIRFLOW_PORT": port}
    env = {**os.environ, **{name: str(value) for name, value in own.items()}}
    command = [sys.executable, "-m", "etl.cli", "demo-correlations", "--orders", "800", "--waves", "3"]
    done = subprocess.run(command, env=env, cwd=PROJECT, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every correlation holds what the raw files say" in done.stdout
    return dict(json.loads((home / "var" / "demo-correlations" / "summary.json").read_text()))


def test_every_correlation_equals_the_oracle(summary: dict[str, Any]) -> None:
    assert set(summary) == {"correlations"}
    assert [one["name"] for one in summary["correlations"]] == ["paid_orders", "reconciled_payments", "shipped_revenue"]
    for one in summary["correlations"]:
        assert set(one) == {"name", "pairs", "oracle_pairs", "equal", "late", "batches", "seconds"}
        assert one["equal"] is True
        assert one["pairs"] == one["oracle_pairs"] > 0
        assert one["batches"] == 3


def test_every_batch_has_a_page(summary: dict[str, Any], home: Path) -> None:
    reports = home / "var" / "demo-correlations" / "reports" / "correlations"
    assert sorted(path.name for path in reports.iterdir() if path.is_dir()) == ["1", "2", "3"]
    assert "paid_orders" in (reports / "3" / "index.html").read_text()


def test_nothing_runs_afterwards(summary: dict[str, Any], home: Path) -> None:
    assert marked(home / "var" / "demo-correlations") == []
