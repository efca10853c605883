"""On real Spark: the JVM, the Python workers and the driver are killed in the middle of a batch."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from etl.settings import PROJECT
from etl.stack.processes import wait_until
from tests.faults.world import World

pytestmark = [pytest.mark.spark, pytest.mark.full]

PROGRAM = """
import json, sys
from tests.faults.test_spark_deaths import drive
drive(json.loads(sys.argv[1]))
"""


def drive(order: dict[str, Any]) -> None:
    """In a process of its own: one micro-batch on Spark, with a kill at a point."""
    from dataclasses import replace

    from etl.spark.executor import SparkExecutor
    from etl.spark.session import spark_session
    from tests.faults.world import site_under, steady

    steady()
    site = site_under(Path(order["home"]), order["dsn"])

    def reached(name: str) -> None:
        if name == order["point"]:
            for process in _victims(order["victim"]):
                process.kill()

    with spark_session(site.settings) as spark:
        if order["victim"] == "workers":
            spark.range(0, 4, 1, 2).mapInArrow(_same, "id long").collect()  # so that there are some
        site = replace(site, steps=replace(site.steps, executor=SparkExecutor(spark), checkpoint=reached))
        batch = site.run()
        site.step("report", batch)
        site.close()


def _same(batches: Any) -> Any:
    yield from batches


def _victims(kind: str) -> list[psutil.Process]:
    me = psutil.Process()
    if kind == "driver":
        return [me]
    java = [process for process in me.children(recursive=True) if "java" in process.name()]
    if kind == "jvm":
        return java
    return [process for one in java for process in one.children(recursive=True) if "python" in process.name()]


@pytest.mark.parametrize(
    ("victim", "point"),
    [
        ("jvm", "after input is fixed"),
        ("jvm", "before the decision"),
        ("jvm", "before fact is published"),
        ("workers", "after input is fixed"),
        ("workers", "before the decision"),
        ("driver", "before the decision"),
        ("driver", "after the decision"),
    ],
)
def test_killed(world: World, victim: str, point: str) -> None:
    order = {"home": str(world.site.settings.home), "dsn": world.site.dsn, "victim": victim, "point": point}
    command = [sys.executable, "-c", PROGRAM, json.dumps(order)]
    with subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.DEVNULL) as process:
        code = process.wait(300)
    assert code == -signal.SIGKILL if victim == "driver" else code in (0, 1)
    assert wait_until(lambda: not _left(order["home"]), 30), "Spark outlived its driver"
    world.more()
    world.recover()
    world.check()


def _left(home: str) -> list[psutil.Process]:
    """Processes that carry the folder of this test in their command line: Spark's JVM does."""
    return [one for one in psutil.process_iter(["cmdline"]) if home in " ".join(one.info["cmdline"] or ())]
