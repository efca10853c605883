"""The supervisor of a driver is killed at every point of a batch, twice in a row: its guard ends the driver there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from etl.settings import PROJECT
from etl.stack.supervision.processes import marked, wait_until
from tests.faults.test_deaths import POINTS
from tests.faults.world import World

pytestmark = pytest.mark.full

SUPERVISOR = """
import os, signal, sys
from pathlib import Path
from etl.stack.supervision.processes import Service, start
home = Path(sys.argv[1])
command = (sys.executable, "-m", "tests.faults.drivers", "once")
start(Service("driver", command, dict(os.environ), home / "driver.log"), home)
signal.pause()
"""


def _killed(world: World, point: str) -> None:
    home = world.site.settings.home
    reached, over = home / "reached", home / "over"
    order = {"home": str(home), "dsn": world.site.dsn, "point": point, "act": "wait", "limit": None}
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "_FAULT": json.dumps(order)}
    with subprocess.Popen([sys.executable, "-c", SUPERVISOR, str(home)], cwd=PROJECT, env=environment) as supervisor:
        came = wait_until(lambda: reached.exists() or over.exists(), 300)
        supervisor.kill()
    assert came, (home / "driver.log").read_text()
    assert wait_until(lambda: marked(home) == [], 120), "the driver outlived its supervisor"
    for path in (reached, over):
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("point", POINTS)
def test_the_supervisor_is_killed_twice_in_a_row(world: World, point: str) -> None:
    _killed(world, point)
    assert Path(world.site.settings.home, "driver.log").exists()
    _killed(world, point)
    world.more()
    world.recover()
    world.check()
