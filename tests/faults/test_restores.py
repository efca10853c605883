"""Ledger or Delta from before the last one, two or five batches; and files that are damaged."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from etl.adapters import postgres
from tests.faults.world import World, expect_failure
from tests.support.site import Ended, order

TABLES = ("fact", "quarantine", "backlog")


def batches(world: World, count: int) -> None:
    for number in range(count):
        world.land(
            f"extra-{number}.jsonl",
            order(100 + number), order(11, customer_id=2, quantity=11), order(200 + number, customer_id=500 + number),
            order(300, quantity=0), b"?",
        )  # fmt: skip
        world.run()


@pytest.fixture
def databases(postgres_server: str) -> Iterator[Callable[[World], Callable[[], None]]]:
    """Copies a world's database; what it gives puts the world on that copy, as restoring a backup does."""
    made: list[str] = []

    def on(command: str) -> None:
        with postgres.connect(postgres_server, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(command)

    def copy(world: World) -> Callable[[], None]:
        world.site.close()
        source = world.site.dsn.split("/")[3].split("?")[0]
        name = f"{source}_older"
        on(f"create database {name} template {source}")
        made.append(name)
        dsn = world.site.dsn.replace(f"/{source}?", f"/{name}?")

        def restore() -> None:
            # Masters are somebody else's: they are as new as they were.
            for table in ("master.customers", "master.products"):
                rows = world.site.execute(f"select to_jsonb(t)::text from {table} t")
                world.site = replace(world.site, dsn=dsn, steps=replace(world.site.steps, dsn=dsn))
                for (row,) in rows:
                    world.site.execute(
                        f"insert into {table} select (jsonb_populate_record(null::{table}, %s::jsonb)).* "
                        "on conflict do nothing", row,
                    )  # fmt: skip

        return restore

    yield copy
    for name in made:
        on(f"drop database {name} with (force)")


@pytest.mark.full
@pytest.mark.parametrize("lost", [1, 2, 5])
def test_a_ledger_rolled_back(world: World, databases: Callable[[World], Callable[[], None]], lost: int) -> None:
    world.run()
    restore = databases(world)
    batches(world, lost)
    restore()
    world.more()
    world.recover()
    world.check()


@pytest.mark.full
@pytest.mark.parametrize("lost", [1, 2, 5])
@pytest.mark.parametrize("tables", [("fact",), ("quarantine",), ("backlog",), TABLES])
def test_delta_rolled_back(world: World, tables: tuple[str, ...], lost: int) -> None:
    world.run()
    logs = {table: world.site.settings.warehouse / "orders" / table / "_delta_log" for table in tables}
    kept = {table: {path.name for path in log.iterdir()} for table, log in logs.items()}
    batches(world, lost)
    world.site.close()
    for table, log in logs.items():
        for path in log.iterdir():
            if path.name not in kept[table]:
                path.unlink()
    world.more()
    world.recover()
    world.check()


def _damage(path: Path, how: str) -> None:
    """Put something else in the place of a file; who has it mapped keeps what was there."""
    content, middle = path.read_bytes(), path.stat().st_size // 2
    path.unlink()
    if how == "cut in half":
        path.write_bytes(content[:middle])
    elif how == "emptied":
        path.write_bytes(b"")
    elif how == "flipped":
        flipped = bytes(255 - byte for byte in content[middle : middle + 64])
        path.write_bytes(content[:middle] + flipped + content[middle + 64 :])


KEPT = ("front-stage/*/*.front-stage", "master/*/runs/*.arrows", "master/*/runs/*.index", "master/*/versions/*.json")


@pytest.mark.full
@pytest.mark.parametrize("how", ["cut in half", "emptied", "removed", "flipped"])
@pytest.mark.parametrize("pattern", KEPT)
def test_a_damaged_file_of_the_masters(world: World, pattern: str, how: str) -> None:
    world.site.close()
    found = [path for path in world.site.settings.var.glob(pattern) if path.is_file()]
    assert found, [str(path) for path in world.site.settings.var.glob("master/*/*/*")]
    for path in found:
        _damage(path, how)
    world.forget()
    expect_failure(world)
    world.more()
    world.recover()
    world.check()


@pytest.mark.full
def test_a_pin_on_a_version_that_is_gone_is_given_up(world: World) -> None:
    world.site = world.site.ending("before the decision")
    with pytest.raises(Ended):
        world.run()
    stores = list(world.site.settings.master_pages.iterdir())
    for store in stores:
        for path in (store / "versions").glob("*.json"):
            path.unlink()
    world.forget()
    said: list[str] = []
    steps = replace(world.site.steps, checkpoint=lambda _: None)
    steps.run("ingest", "orders", "test", None, None, said.append)
    given_up = [line for line in said if line.endswith("what orders batch 2 had pinned is given up")]
    assert len(given_up) == len(stores), said
    assert all("has no version" in line for line in given_up)
    world.more()
    world.recover()
    world.check()


@pytest.mark.full
@pytest.mark.parametrize("how", ["cut in half", "emptied", "flipped"])
@pytest.mark.parametrize("table", TABLES)
def test_a_damaged_parquet_file_that_was_not_decided_yet(world: World, table: str, how: str) -> None:
    world.site = world.site.ending("before the decision")
    with pytest.raises(Ended):
        world.run()
    for path in (world.site.settings.warehouse / "orders" / table).glob("part-000000002-*.parquet"):
        _damage(path, how)
    world.more()
    world.recover()
    world.check()


@pytest.mark.full
def test_notes_of_an_old_try_are_replaced(world: World) -> None:
    world.site = world.site.ending("before the decision")
    with pytest.raises(Ended):
        world.run()
    shutil.rmtree(world.site.places.notes)
    world.more()
    world.recover()
    world.check()
