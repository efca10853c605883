"""Sites on file systems that fsspec opens: all that holds for folders, also when a driver is missing or fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import fsspec  # type: ignore[import-untyped]
import pytest
from fsspec.implementations.memory import MemoryFileSystem  # type: ignore[import-untyped]

from etl.pipeline.upkeep.maintenance import Keep
from tests.support.sites_world import SitesWorld, run, some, truth
from tests.support.stream_site import quiet


class NetworkGone(Exception):
    """What a driver raises that has errors of its own."""


class Remote(MemoryFileSystem):  # type: ignore[misc]
    """Files of another machine, whose network may be gone."""

    protocol = "remote"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    gone = False

    @classmethod
    def _strip_protocol(cls, path: str) -> Any:
        return super()._strip_protocol(path.replace("remote://", "memory://"))

    def _ask(self) -> None:
        if Remote.gone:
            raise NetworkGone

    def info(self, path: str, **options: Any) -> Any:
        self._ask()
        return super().info(path, **options)

    def exists(self, path: str, **options: Any) -> bool:
        self._ask()
        return bool(super().exists(path, **options))

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        self._ask()
        return super().ls(path, detail, **options)

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        self._ask()
        return super()._open(path, mode, **options)


@pytest.fixture
def remote() -> Iterator[type[Remote]]:
    fsspec.register_implementation("remote", Remote, clobber=True)
    yield Remote
    Remote.gone = False
    Remote.store.clear()
    Remote.pseudo_dirs[:] = [""]


@pytest.fixture
def world(tmp_path: Path, database: str) -> SitesWorld:
    return SitesWorld.under(tmp_path, database)


def move(world: SitesWorld, site: str, root: str) -> None:
    """Declare another root."""
    file = world.home / "warehouse" / "sites.toml"
    file.write_text(file.read_text().replace(f'"sites/{site}"', f'"{root}"'))


def test_results_are_those_of_the_nested_loop_when_sites_are_remote(world: SitesWorld, remote: type[Remote]) -> None:
    for site in ("eu", "us"):
        remote().makedirs(f"/{site}")
        move(world, site, f"remote://{site}")
    world.declare(options='target = "eu"\npartitions = 3')
    for number in range(2):
        told = run(world, number)
    assert told["sites"]["met"]["shipped_bytes"] > 0
    assert world.results() == truth([some(0), some(1)]) != {}


def test_a_site_whose_driver_fails_is_away_until_it_answers_again(world: SitesWorld, remote: type[Remote]) -> None:
    remote().makedirs("/us")
    move(world, "us", "remote://us")
    world.declare(options='target = "eu"')
    run(world, 0)
    remote.gone = True
    (error,) = world.ground.steps.check()
    assert "of site 'us' is not reachable (NetworkGone)" in str(error)
    said = list[str]()
    world.land("1", some(1))
    told = world.ground.steps.run("micro_batch", "test", None, said.append)
    assert "stream b waits in its landing folder: site 'us' is away" in said
    assert told["sites_wait"] is True
    assert world.ground.steps.explain("met")["away"] == ["us"]
    world.ground.steps.maintain(Keep(), quiet)
    remote.gone = False
    assert world.ground.run()["streams"]["b"]["accepted"] == 8
    first, second = some(1), {"b": some(1)["b"]}
    del first["b"]
    assert world.results() == truth([some(0), first, second])


def test_a_root_that_nothing_here_can_open_is_told_where_it_stands_and_others_go_on(world: SitesWorld) -> None:
    move(world, "us", "nope://x")
    (error,) = world.ground.steps.check()
    assert str(error).startswith("sites.toml, line 5: the root 'nope://x' of site 'us' is not reachable (")
    assert "Protocol not known: nope" in str(error)
    told = run(world, 0)
    assert [told["streams"][stream]["accepted"] for stream in "abc"] == [8, 0, 8]
    world.ground.steps.maintain(Keep(), quiet)
