"""Who is told when a run is not done in time. That Airflow asks for it is tried in `test_arrival`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.airflow_python import ask

CALL = """
import asyncio
from etl.airflow.freshness import too_late
asyncio.run(too_late("trips", 60.0, {"dag_run": {"dag_id": "trips", "dag_run_id": "manual__1", "state": "running"}}))
"""
WRONG = """
from etl.airflow.notify import alert_notifiers
from etl.errors import SettingsError
try:
    alert_notifiers()
except SettingsError as error:
    print(error)
"""
NOBODY = "postgresql://nobody@127.0.0.1:1/nothing"


def test_a_late_run_is_a_log_line_and_a_text_of_the_notifier_even_without_a_ledger(tmp_path: Path) -> None:
    arguments = json.dumps({"path": str(tmp_path / "told"), "text": "{{ frontstage.sentence }}"})
    said = ask(
        CALL,
        tmp_path,
        FRONTSTAGE_POSTGRES_DSN=NOBODY,
        FRONTSTAGE_ALERT_NOTIFIER="tests.support.notifier.FileNotifier",
        FRONTSTAGE_ALERT_NOTIFIER_ARGUMENTS=arguments,
    )
    (sentence,) = (tmp_path / "told").read_text().splitlines()
    assert sentence.startswith("trips is not fresh: run manual__1 was not done within 60 s; the ledger cannot be asked")
    (line,) = [line for line in said if "not fresh" in line]
    assert ("manual__1" in line, "nobody@" in line) == (True, False)


def test_nobody_need_be_told(tmp_path: Path) -> None:
    assert any("not fresh" in line for line in ask(CALL, tmp_path, FRONTSTAGE_POSTGRES_DSN=NOBODY))


@pytest.mark.parametrize("path", ["tests.support.notifier.Nothing", "json.JSONDecoder", "nowhere.at.all"])
def test_what_is_no_notifier_is_refused_with_a_sentence(tmp_path: Path, path: str) -> None:
    assert path in ask(WRONG, tmp_path, FRONTSTAGE_ALERT_NOTIFIER=path)[-1]
