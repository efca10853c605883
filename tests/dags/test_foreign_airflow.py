"""In somebody else's Airflow: another home, another database, a DAG file of two lines."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from etl.settings import PROJECT

pytestmark = pytest.mark.stack

GUIDE = (PROJECT / "docs" / "how-to" / "existing-airflow.md").read_text()
OURS = {"orders", "trips", "web_sessions", "master_data", "maintenance", "quarantine", "correlations", "digest"}


def test_two_lines_give_every_dag_and_a_run_of_one_succeeds(database: str, tmp_path: Path) -> None:
    (lines,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert len([line for line in lines.splitlines() if line]) == 2
    (tmp_path / "airflow" / "dags").mkdir(parents=True)
    (tmp_path / "airflow" / "dags" / "frontstage.py").write_text(lines)
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "FRONTSTAGE"))},
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "FRONTSTAGE_HOME": str(tmp_path / "ours"),
        "FRONTSTAGE_POSTGRES_DSN": database,
    }

    def airflow(*words: str) -> str:
        command = [str(Path(sys.executable).with_name("airflow")), *words]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    airflow("db", "migrate")
    airflow("dags", "reserialize")
    listed = json.loads(re.search(r"^\[.*\]$", airflow("dags", "list", "--output", "json"), re.M | re.S)[0])  # type: ignore[index]
    assert {one["dag_id"] for one in listed} >= OURS
    assert {Path(one["fileloc"]).name for one in listed} == {"frontstage.py"}
    day = datetime.now(UTC).date().isoformat()
    airflow("dags", "test", "digest", "--conf", json.dumps({"day": day}))
    assert (tmp_path / "ours" / "var" / "reports" / "digest" / day / "digest.json").is_file()
