"""The DAG of correlations over sites: a task group per site, its queue and pool, and results gathered after all."""

from __future__ import annotations

import json
from pathlib import Path

from etl.settings import PROJECT
from tests.support.airflow_python import ask

SCRIPT = """
import json, sys
sys.path.insert(0, "dags")
import correlations

tasks = {
    task.task_id: [sorted(task.downstream_task_ids), task.queue, task.pool, [one.name for one in task.outlets]]
    for task in correlations.flow.tasks
}
print(json.dumps([tasks, sorted(name for name in correlations.flow.task_group_dict if name)]))
"""


def test_sites_have_task_groups_with_their_queues_and_pools(tmp_path: Path) -> None:
    text = (PROJECT / "examples" / "sites" / "sites.toml").read_text()
    (tmp_path / "sites.toml").write_text(text.replace("[site.us]", '[site.us]\nqueue = "far"\npool = "slow"'))
    folders = {name: str(PROJECT / "examples" / "sites" / name.lower()) for name in ("STREAMS", "CORRELATIONS")}
    variables = {f"FRONTSTAGE_{name}": path for name, path in folders.items()}
    tasks, groups = json.loads(ask(SCRIPT, tmp_path, FRONTSTAGE_SITES=str(tmp_path / "sites.toml"), **variables)[-1])
    assert groups == ["site_ap", "site_eu", "site_us"]
    work = [f"{group}.hot_items" for group in groups]
    assert tasks["micro_batch"][0] == sorted([*work, "report"])
    assert [tasks[one][0] for one in work] == [["gather"]] * 3
    assert [tasks[one][1:3] for one in work] == [["default", "default_pool"]] * 2 + [["far", "slow"]]
    assert tasks["gather"][0] == ["report"]
    assert tasks["gather"][3] == ["correlations-hot_items"]
