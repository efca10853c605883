"""The `orders` DAG as Airflow reads it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from etl.settings import PROJECT

DAG_FILE = PROJECT / "dags" / "orders.py"


SCRIPT = """
import json, sys
sys.path.insert(0, "dags")
import orders
dag = orders.flow
print(json.dumps({
    "tasks": {task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks},
    "retries": sorted({task.retries for task in dag.tasks}),
    "schedule": str(dag.schedule),
    "max_active_runs": dag.max_active_runs,
    "catchup": dag.catchup,
    "params": list(dag.params),
}))
"""


@pytest.fixture
def dag(tmp_path: Path) -> dict[str, object]:
    env = {**os.environ, "AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": str(PROJECT)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=PROJECT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_the_dag_has_the_four_visible_steps_one_run_at_a_time_every_minute(dag: dict[str, object]) -> None:
    assert dag["tasks"] == {
        "ingest_enrich": ["report", "validate"],
        "validate": ["load"],
        "load": ["report"],
        "report": [],
    }
    assert dag["schedule"] == "* * * * *"
    assert (dag["max_active_runs"], dag["catchup"]) == (1, False)
    assert dag["retries"] == [4]
    assert dag["params"] == ["release"], "a form for manual triggers"


def test_the_dag_file_is_thin_and_imports_the_engine_inside_tasks_only() -> None:
    text = DAG_FILE.read_text()
    assert len(text.splitlines()) <= 90
    top = [line for line in text.splitlines() if line.startswith(("import ", "from "))]
    assert not [line for line in top if "pyspark" in line or "etl.spark" in line]
