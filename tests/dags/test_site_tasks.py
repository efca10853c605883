"""The DAG of correlations over sites: a task group per site, where its tasks run, and results gathered after all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from etl.settings import PROJECT
from tests.support.airflow_python import ask

SCRIPT = """
import json, sys
sys.path.insert(0, "dags")
import correlations

tasks = {
    task.task_id: {
        "then": sorted(task.downstream_task_ids),
        "placed": [task.queue, task.executor, task.pool],
        "when": task.trigger_rule,
        "outlets": [one.name for one in task.outlets],
    }
    for task in correlations.flow.tasks
}
groups = sorted(name for name in correlations.flow.task_group_dict if name)
print(json.dumps({"tasks": tasks, "groups": groups, "wrong": [str(one) for one in correlations.wrong]}))
"""
WORK = [f"site_{name}.hot_items" for name in ("ap", "eu", "us")]
QUEUES = {"eu": 'queue = "near"', "us": 'queue = "far"\nexecutor = "CeleryExecutor"\npool = "slow"'}


def described(home: Path, executors: str) -> dict[str, Any]:
    """The DAG of the example, where two sites declare queues, in an Airflow with some executors."""
    example = PROJECT / "examples" / "sites"
    text = (example / "sites.toml").read_text()
    for name, more in QUEUES.items():
        text = text.replace(f"[site.{name}]", f"[site.{name}]\n{more}")
    (home / "sites.toml").write_text(f'{text}\n[site.idle]\nroot = "var/sites/idle"\n')
    variables = {f"FRONTSTAGE_{name}": str(example / name.lower()) for name in ("STREAMS", "CORRELATIONS")}
    variables |= {"FRONTSTAGE_SITES": str(home / "sites.toml"), "AIRFLOW__CORE__EXECUTOR": executors}
    return dict(json.loads(ask(SCRIPT, home, **variables)[-1]))


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return described(tmp_path_factory.mktemp("several"), "LocalExecutor,CeleryExecutor")


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return described(tmp_path_factory.mktemp("local"), "LocalExecutor")


def test_sites_have_task_groups_and_results_are_gathered_after_all(several: dict[str, Any]) -> None:
    tasks = several["tasks"]
    assert several["groups"] == ["site_ap", "site_eu", "site_us"], "none for a site without a stream"
    assert tasks["micro_batch"]["then"] == sorted([*WORK, "report"])
    assert [tasks[one]["then"] for one in WORK] == [["gather"]] * 3
    assert (tasks["gather"]["then"], tasks["gather"]["outlets"]) == (["report"], ["correlations-hot_items"])
    assert tasks["gather"]["when"] == "none_skipped", "a site that failed keeps nothing from the tables"


def test_tasks_of_a_site_go_where_it_declares(several: dict[str, Any]) -> None:
    nowhere, near = ["default", None, "default_pool"], ["near", None, "default_pool"]
    assert [several["tasks"][one]["placed"] for one in WORK] == [nowhere, near, ["far", "CeleryExecutor", "slow"]]
    assert several["tasks"]["gather"]["placed"] == nowhere
    assert several["wrong"] == []


def test_a_queue_does_no_harm_where_executors_have_none(local: dict[str, Any]) -> None:
    assert local["tasks"]["site_eu.hot_items"]["placed"] == ["near", None, "default_pool"]
    assert not [sentence for sentence in local["wrong"] if "queue" in sentence]


def test_an_executor_that_airflow_has_not_is_told_and_holds_nothing_up(local: dict[str, Any]) -> None:
    assert local["tasks"]["site_us.hot_items"]["placed"] == ["far", None, "slow"]
    (sentence,) = local["wrong"]
    assert sentence.startswith("sites.toml, line 10: executor 'CeleryExecutor' is none of this Airflow's; ")
