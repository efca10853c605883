"""What a driver keeps does not grow with what people ask for."""

from __future__ import annotations

from pathlib import Path

from etl.enrich.front_stage.stage import FrontStageConfig
from etl.masters.driver_state import DriverState


def test_a_front_stage_of_another_size_takes_the_place_of_the_first(tmp_path: Path) -> None:
    state, path = DriverState(), tmp_path / "customer.front-stage"
    first = state.keeper(path, FrontStageConfig(1 << 20))
    assert state.keeper(path, FrontStageConfig(1 << 20)) is first
    assert state.keeper(path, FrontStageConfig(1 << 21)) is not first
    assert state.keeper(path, FrontStageConfig(1 << 20)) is not first
