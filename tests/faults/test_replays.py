"""A batch that brings back what waited, and reads no file, is killed at every point."""

from __future__ import annotations

import signal

import pytest

from tests.faults.drivers import Nursery
from tests.faults.test_deaths import POINTS
from tests.faults.world import World

REPLAYED = tuple(point for point in POINTS if not point.endswith(("quarantine is published", "backlog is published")))
"""Nothing is refused in such a batch, and nothing waits again."""


@pytest.fixture
def replaying(world: World) -> World:
    """Nothing lies in the landing folder that is new, and the master row has come that an event waits for."""
    world.run()
    world.settle()
    assert world.waiting == {19}
    world.site.execute("insert into master.customers values (88, 'Later', 'a', 'n', 'EAST', 'm', 'p', 1)")
    return world


def test_every_point_of_a_replay_is_in_the_list(replaying: World) -> None:
    seen: list[str] = []
    object.__setattr__(replaying.site.steps, "checkpoint", seen.append)
    replaying.run()
    assert tuple(seen) == REPLAYED


@pytest.mark.full
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("point", REPLAYED)
def test_a_replay_is_killed(replaying: World, drivers: Nursery, point: str, times: int) -> None:
    home, dsn = replaying.site.settings.home, replaying.site.dsn
    ends = [drivers.run(home, dsn, point) for _ in range(times)]
    assert ends[0] == -signal.SIGKILL
    assert set(ends) <= {-signal.SIGKILL, 0}, "the second one may find nothing left to do there"
    replaying.more()
    replaying.recover()
    replaying.check()
