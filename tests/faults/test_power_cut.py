"""The power fails after every single sync of a batch, and all that was not synced is gone."""

from __future__ import annotations

import pytest

from tests.faults.power import Disk
from tests.faults.world import World, expect_failure
from tests.support.site import Ended, order

SYNCS = 54
"""At least as many as a batch has; what is beyond its last one is a cut after it."""


def _cut(world: World, monkeypatch: pytest.MonkeyPatch, after: int | None) -> Disk:
    disk = Disk(world.site.settings.var, after)
    disk.remember_all()

    def end() -> None:
        raise Ended("power cut")

    with disk.recording(monkeypatch, end):
        expect_failure(world, Ended)
        world.site.close()
    disk.cut()
    return disk


def test_all_that_a_loaded_batch_needs_was_synced(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = _cut(world, monkeypatch, None)
    assert SYNCS - 10 <= len(disk.syncs) <= SYNCS, disk.syncs
    world.more()
    world.recover()
    world.check()


@pytest.mark.full
@pytest.mark.parametrize("after", range(SYNCS))
def test_the_power_fails_after_sync(world: World, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    _cut(world, monkeypatch, after)
    world.more()
    world.recover()
    world.check()


@pytest.mark.full
@pytest.mark.parametrize("after", [0, 5, 10, 15, 20, 25, 30, 40, None])
def test_the_power_fails_in_the_very_first_batch(
    bare: World, monkeypatch: pytest.MonkeyPatch, after: int | None
) -> None:
    bare.land("first.jsonl", order(1), order(2, customer_id=77), order(3, quantity=0))
    _cut(bare, monkeypatch, after)
    bare.more()
    bare.recover()
    bare.check()
