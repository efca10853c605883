"""The `digest` DAG as Airflow reads it, with and without somebody to tell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from etl.settings import PROJECT
from tests.support.airflow_python import ask

SCRIPT = """
import json, sys
sys.path.insert(0, "dags")
import digest
dag = digest.flow
print(json.dumps({
    "tasks": sorted(dag.task_dict),
    "schedule": str(dag.schedule),
    "max_active_runs": dag.max_active_runs,
    "params": {name: dag.params[name] for name in dag.params},
    "told": [type(one).__name__ for one in dag.on_success_callback or []],
    "heavy": sorted({"pyspark", "great_expectations", "pandas", "numba", "deltalake"} & set(sys.modules)),
}))
"""
NOTIFIER = """
from airflow.sdk import BaseNotifier
class Tell(BaseNotifier):
    def __init__(self, whom): super().__init__(); self.whom = whom
    def notify(self, context): ...
"""


def load(home: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    (home / "notifiers.py").write_text(NOTIFIER)
    env = {**os.environ, "AIRFLOW_HOME": str(home), "PYTHONPATH": f"{PROJECT}:{home}", **settings}
    return subprocess.run([sys.executable, "-c", SCRIPT], cwd=PROJECT, env=env, capture_output=True, text=True)


def test_the_digest_is_written_every_morning_and_tells_nobody_by_itself(tmp_path: Path) -> None:
    done = load(tmp_path)
    assert done.returncode == 0, done.stderr
    dag = json.loads(done.stdout.splitlines()[-1])
    assert (dag["tasks"], dag["schedule"], dag["max_active_runs"]) == (["write"], "15 0 * * *", 1)
    assert dag["params"] == {"day": None}
    assert (dag["told"], dag["heavy"]) == ([], [])


def test_a_notifier_is_told_and_what_is_none_is_refused_in_a_sentence(tmp_path: Path) -> None:
    arguments = {"FRONTSTAGE_DIGEST_NOTIFIER_ARGUMENTS": '{"whom": "us"}'}
    done = load(tmp_path, FRONTSTAGE_DIGEST_NOTIFIER="notifiers.Tell", **arguments)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["told"] == ["Tell"]
    refused = load(tmp_path, FRONTSTAGE_DIGEST_NOTIFIER="os.path", **arguments)
    assert "'os.path' is not a notifier of Airflow's" in refused.stderr


def test_the_benchmark_is_run_by_hand_only_and_its_form_knows_every_bench(tmp_path: Path) -> None:
    script = SCRIPT.replace("import digest", "import benchmark as digest") + "\nprint(json.dumps(digest.BENCHES))\n"
    dag, benches = (json.loads(line) for line in ask(script, tmp_path)[-2:])
    assert (dag["tasks"], dag["schedule"], dag["heavy"]) == (["measure"], "None", [])
    for bench in benches:
        assert (PROJECT / "bench" / f"{bench}.py").is_file() or (PROJECT / "bench" / bench / "__main__.py").is_file()
