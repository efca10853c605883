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
@pytest.mark.parametrize("how", ["emptied", "cut in half"])
@pytest.mark.parametrize("table", ["fact", "quarantine", "backlog"])
def test_the_power_fails_while_a_log_entry_is_written(world: World, table: str, how: str) -> None:
    """Its name is on disk, its bytes are not, or not all: between delta-rs's rename and our sync."""
    world.site = world.site.ending(f"after {table} is published")
    expect_failure(world, Ended)
    world.site.close()
    log = world.site.settings.warehouse / "orders" / table / "_delta_log"
    entry = max(log.glob("[0-9]*.json"))
    content = entry.read_bytes()
    entry.write_bytes(content[: len(content) // 2] if how == "cut in half" else b"")
    world.more()
    world.recover()
    for path in log.glob(".*.torn.tmp"):
        path.unlink()  # as maintenance does after a day
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
