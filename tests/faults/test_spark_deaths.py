"""On real Spark: the JVM, the Python workers and the process that asked for a step are killed at every point."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from etl.settings import PROJECT
from etl.stack.supervision.processes import wait_until
from tests.faults.spark_driver import WHILE_TASKS_RUN, SparkDriver, spark_driver
from tests.faults.test_deaths import POINTS
from tests.faults.world import World

pytestmark = [pytest.mark.spark, pytest.mark.full, pytest.mark.timeout(1_800)]

PROGRAM = """
import json, sys
from tests.faults.test_spark_deaths import drive
drive(json.loads(sys.argv[1]))
"""
TASK = """
import sys
from pathlib import Path
from etl.settings import load
from etl.spark.runner.client import run_step
def no_dsn():
    raise AssertionError("the driver must answer")
run_step(load(home=Path(sys.argv[1])), no_dsn, "micro_batch", "orders", "task")
"""
_BOUND_S = 900  # on a machine that others use, too


def drive(order: dict[str, Any]) -> None:
    """In a process of its own: one micro-batch on a Spark of its own, whose JVM, or driver, is killed at a point."""
    from dataclasses import replace

    from etl.spark.executor import SparkExecutor
    from etl.spark.session import spark_session
    from tests.faults.world import site_under, steady

    steady()
    site = site_under(Path(order["home"]), order["dsn"])

    def reached(name: str) -> None:
        if name == order["point"]:
            for process in _victims(order["victim"]):
                with suppress(psutil.NoSuchProcess):
                    process.kill()

    with spark_session(site.settings) as spark:
        site = replace(site, steps=replace(site.steps, executor=SparkExecutor(spark), checkpoint=reached))
        batch = site.run()
        if batch is not None:
            site.step("report", batch)
        site.close()


def _victims(kind: str) -> list[psutil.Process]:
    me = psutil.Process()
    return [me] if kind == "driver" else [one for one in me.children(recursive=True) if "java" in one.name()]


def _die(world: World, victim: str, point: str) -> int:
    order = {"home": str(world.site.settings.home), "dsn": world.site.dsn, "victim": victim, "point": point}
    command = [sys.executable, "-c", PROGRAM, json.dumps(order)]
    done = subprocess.run(command, cwd=PROJECT, stderr=subprocess.DEVNULL, timeout=_BOUND_S)
    assert wait_until(lambda: not _left(order["home"]), 120), "Spark outlived its driver"
    return done.returncode


def _left(home: str) -> list[psutil.Process]:
    """Processes that carry the folder of this test in their command line: Spark's JVM does."""
    return [one for one in psutil.process_iter(["cmdline"]) if home in " ".join(one.info["cmdline"] or ())]


@pytest.mark.parametrize("point", POINTS)
def test_the_jvm_is_killed(world: World, point: str) -> None:
    assert _die(world, "jvm", point) in (0, 1)
    world.more()
    world.recover()
    world.check()


@pytest.mark.parametrize("point", ["after input is fixed", "before the decision"])
def test_the_jvm_is_killed_twice_in_a_row(world: World, point: str) -> None:
    assert {_die(world, "jvm", point), _die(world, "jvm", point)} <= {0, 1}
    world.more()
    world.recover()
    world.check()


@pytest.mark.parametrize("point", ["before the decision", "after the decision"])
def test_a_driver_with_a_jvm_is_killed(world: World, point: str) -> None:
    assert _die(world, "driver", point) == -signal.SIGKILL
    world.more()
    world.recover()
    world.check()


@pytest.fixture(scope="module")
def spark_program() -> Iterator[SparkDriver]:
    with spark_driver() as made:
        yield made


@pytest.mark.parametrize("point", [*POINTS, WHILE_TASKS_RUN])
def test_the_python_workers_are_killed(world: World, spark_program: SparkDriver, point: str) -> None:
    for _ in range(2):
        spark_program.run(world.site.settings.home, world.site.dsn, point)
    world.more()
    world.recover()
    world.check()


@pytest.mark.parametrize("point", POINTS)
def test_the_task_that_asked_for_a_batch_is_killed(world: World, spark_program: SparkDriver, point: str) -> None:
    home = world.site.settings.home
    spark_program.serve(home, world.site.dsn, point)
    with _task(home) as task:
        assert wait_until((home / "reached").exists, _BOUND_S), "the batch did not come so far"
        task.kill()
    (home / "go").touch()
    assert wait_until(lambda: _task(home).wait(_BOUND_S) == 0, _BOUND_S), "no try after it succeeded"
    spark_program.end()
    world.more()
    world.recover()
    world.check()


def _task(home: Path) -> subprocess.Popen[bytes]:
    """What Airflow starts for a try of a task, as far as the driver sees it."""
    return subprocess.Popen([sys.executable, "-c", TASK, str(home)], cwd=PROJECT, stderr=subprocess.DEVNULL)
