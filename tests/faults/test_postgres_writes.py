"""The line to Postgres is cut at every single write of a batch: before it, during it, and after, its answer lost."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.proxy import Moment, proxied
from tests.faults.world import World, expect_failure

WRITES = 30
"""At least as many as one batch makes with its report."""


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path fits into the name of a socket."""
    with tempfile.TemporaryDirectory(prefix="fs-", dir="/tmp") as folder:
        yield Path(folder)


def through(world: World, dsn: str) -> None:
    world.site = replace(world.site.restarted(), dsn=dsn, steps=replace(world.site.steps, dsn=dsn))


def test_every_write_of_a_batch_is_cut(world: World, short: Path) -> None:
    direct = world.site.dsn
    with proxied(direct, short) as (dsn, proxy):
        through(world, dsn)
        world.run()
        assert WRITES - 8 <= len(proxy.writes) <= WRITES, proxy.writes
    through(world, direct)


@pytest.mark.full
@pytest.mark.parametrize("moment", ["before", "during", "after"])
@pytest.mark.parametrize("write", range(WRITES))
def test_the_line_to_postgres_is_cut(world: World, short: Path, write: int, moment: Moment) -> None:
    direct = world.site.dsn
    with proxied(direct, short, write, moment) as (dsn, proxy):
        through(world, dsn)
        expect_failure(world)
        assert proxy.was_cut == (write < len(proxy.writes))
    through(world, direct)
    world.more()
    world.recover()
    world.check()
