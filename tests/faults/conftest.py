"""A world for every fault, and a nursery of drivers to kill."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.drivers import Nursery, nursery
from tests.faults.world import World, steady


@pytest.fixture
def bare(seeded_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A warehouse that has never run."""
    steady(monkeypatch.setattr)
    made = World.under(tmp_path, seeded_database)
    yield made
    made.site.close()


@pytest.fixture
def world(bare: World) -> World:
    """A warehouse with one loaded batch, changed masters, and a second file that nobody has read."""
    bare.begin()
    return bare


@pytest.fixture(scope="session")
def drivers() -> Iterator[Nursery]:
    with nursery() as made:
        yield made
