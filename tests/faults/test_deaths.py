"""A driver that is killed between any two writes, once or twice in a row, and a database that ends its sessions."""

from __future__ import annotations

import signal
from datetime import timedelta

import pytest

from tests.faults.drivers import Nursery
from tests.faults.world import World, expect_failure, terminate_connections
from tests.support.site import Ended

FULL = pytest.mark.full
POINTS = (
    "before input is fixed", "after input is fixed", "before dimensions are brought up to date",
    "after dimensions are brought up to date", "before the note", "before the decision", "after the decision",
    "before the verdict", "after the verdict", "before fact is published", "after fact is published",
    "before quarantine is published", "after quarantine is published", "before backlog is published",
    "after backlog is published", "before the mart is loaded", "after the mart is loaded",
)  # fmt: skip
QUICK = {"after input is fixed", "after the decision", "after fact is published", "after the mart is loaded"}
"""One of each part of a batch. `make test` ends runs at every point too, in process (tests/pipeline/test_ends.py)."""


def test_every_point_of_a_batch_is_in_the_list(world: World) -> None:
    seen: list[str] = []
    world.site = world.site.meanwhile("", lambda: None)
    object.__setattr__(world.site.steps, "checkpoint", seen.append)
    world.run()
    assert tuple(seen) == POINTS


@pytest.mark.parametrize("point", [pytest.param(one, marks=[] if one in QUICK else FULL) for one in POINTS])
def test_a_driver_killed(world: World, drivers: Nursery, point: str) -> None:
    home, dsn = world.site.settings.home, world.site.dsn
    assert drivers.run(home, dsn, point) == -signal.SIGKILL
    world.more()
    world.recover()
    world.check()


@FULL
@pytest.mark.parametrize("point", POINTS)
def test_a_driver_killed_twice_in_a_row(world: World, drivers: Nursery, point: str) -> None:
    home, dsn = world.site.settings.home, world.site.dsn
    for _ in range(2):
        assert drivers.run(home, dsn, point) in (-signal.SIGKILL, 0), "the second one may find nothing left to do there"
    world.more()
    world.recover()
    world.check()
    world.check_garbage()


@FULL
@pytest.mark.parametrize("point", POINTS)
def test_postgres_ends_all_connections(world: World, point: str) -> None:
    world.site = world.site.meanwhile(point, lambda: terminate_connections(world))
    expect_failure(world)
    world.more()
    world.recover()
    world.check()


def test_a_run_that_dies_while_files_are_put_away(world: World) -> None:
    world.run()
    world.site = world.site.later(timedelta(days=2)).ending("after files are put away")
    with pytest.raises(Ended):
        world.run()
    assert list(world.site.landing.iterdir()) == []
    world.more()
    world.recover()
    world.check()


@FULL
@pytest.mark.parametrize("hours", [-1, 1])
@pytest.mark.parametrize("point", ["after input is fixed", "after the decision"])
def test_the_clock_is_moved_while_a_run_is_dead(world: World, point: str, hours: int) -> None:
    world.site = world.site.ending(point)
    with pytest.raises(Ended):
        world.run()
    world.more()
    world.site = world.site.later(timedelta(hours=hours))
    world.recover()
    world.check()
