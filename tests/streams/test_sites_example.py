"""The example of three sites runs as its page says, and ships far less than bringing everything to one place."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

from etl import settings as configuration
from etl.settings import PROJECT
from etl.streams.steps import CorrelationSteps
from etl.streams.tasks.in_process import InProcess
from tests.support.correlate_histories import EPOCH
from tests.support.stream_site import quiet

EXAMPLE = PROJECT / "examples" / "sites"


def test_the_example_ships_a_fraction_of_what_one_place_for_all_would(tmp_path: Path, database: str) -> None:
    land = runpy.run_path(str(EXAMPLE / "land.py"))["land"]
    for folder in ("streams", "correlations"):
        shutil.copytree(EXAMPLE / folder, tmp_path / folder)
    paths = {name: tmp_path / name for name in ("streams", "correlations")}
    own = configuration.load(home=tmp_path, sites=EXAMPLE / "sites.toml", **paths)
    steps = CorrelationSteps(own, database, InProcess(), clock=lambda: EPOCH)
    for site in ("eu", "us", "ap"):
        (tmp_path / "var" / "sites" / site).mkdir(parents=True)
    assert steps.check() == ()
    for wave in range(2):
        land(own.var, wave, 4000, EPOCH)
        told = steps.run("micro_batch", "test", None, quiet)["sites"]["hot_items"]
    assert told["rows"] > 0
    assert told["shipped_bytes"] < told["otherwise"]["centralised"] / 3
