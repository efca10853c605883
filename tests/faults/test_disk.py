"""A disk that is full: every write beyond a size fails, in Python, Arrow and Rust alike, wherever the batch is then."""

from __future__ import annotations

import pytest

from tests.faults.drivers import FAILED, SUCCEEDED, Nursery
from tests.faults.test_deaths import POINTS
from tests.faults.world import World

SIZES = (0, 64, 256, 512, 900, 1_400, 2_000, 3_000, 4_500, 6_000, 9_000, 16_000, 32_000, 64_000)


@pytest.mark.full
@pytest.mark.parametrize("size", SIZES)
def test_no_file_can_grow_beyond(world: World, drivers: Nursery, size: int) -> None:
    home, dsn = world.site.settings.home, world.site.dsn
    ends = (FAILED, SUCCEEDED) if size else (FAILED,)  # where no byte can be written, nobody succeeds
    assert drivers.run(home, dsn, None, limit=size) in ends
    world.more()
    assert drivers.run(home, dsn, None, limit=size) in ends, "it is still full"
    world.recover()
    world.check()


@pytest.mark.full
@pytest.mark.parametrize("point", POINTS)
def test_the_disk_is_full_from_a_point_on(world: World, drivers: Nursery, point: str) -> None:
    home, dsn = world.site.settings.home, world.site.dsn
    assert drivers.run(home, dsn, point, "fill") in (FAILED, SUCCEEDED)
    world.more()
    assert drivers.run(home, dsn, None, limit=0) == FAILED, "it is still full"
    world.recover()
    world.check()
