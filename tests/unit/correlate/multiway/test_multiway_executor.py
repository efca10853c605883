"""Batches over folders: killed, away, late, changed, and still every result exactly once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from etl.correlate.multiway.execution.book import FolderBook
from etl.correlate.multiway.execution.executor import Executor
from etl.correlate.multiway.execution.folder import SiteFolder
from etl.correlate.multiway.execution.observe import head_bytes, measured_model, observe
from etl.correlate.multiway.planning.partition import HashPartitioner
from etl.correlate.multiway.planning.planner import PlanOptions, make_plan
from etl.correlate.multiway.planning.tree import MJoin, Node, PMJoin, Source, mjoin
from etl.correlate.multiway.query import Filter, JoinQuery, Site, TupleWindow
from etl.correlate.multiway.statistics import StreamStatistics
from tests.support.multiway_oracle import nested_loop
from tests.support.multiway_worlds import SCHEMA, SECOND, World, query, quick, rows, seconds, stream

PROJECT = Path(__file__).resolve().parents[4]
ON = [("a.x", "b.x"), ("b.x", "c.x")]


def three(root: Path, target: str | None = "eu") -> JoinQuery:
    streams = [stream("a", "eu", seconds(4)), stream("b", "us", seconds(4)), stream("c", "ap", TupleWindow(5))]
    return query(streams, ON, target, 2, str(root))


def plans(asked: JoinQuery) -> list[Node]:
    a, b, c = (Source(1 << i, one.site) for i, one in enumerate(asked.streams))
    chain, other = mjoin("us", (mjoin("eu", (c, a)), b)), mjoin("ap", (a, b, c))
    return [chain, other, PMJoin(0, HashPartitioner(2), (a, b, c), (chain, other))]


def batch(number: int, size: int = 12) -> dict[int, pa.Table]:
    rng = np.random.default_rng(number)
    made = {}
    for i in range(3):
        at = (3 * number + rng.integers(-1, 4, size)) * SECOND
        columns = [100 * number + np.arange(size), at, rng.integers(0, 3, size), rng.integers(0, 3, size)]
        made[i] = pa.table([*columns, pa.array(["t"] * size)], schema=SCHEMA)
    return made


class Killed(BaseException):
    """As if the process had ended here."""


class Dying(SiteFolder):
    """Ends in the middle of the n-th write."""

    left = 0

    def _fill(self, file: Any, content: bytes) -> None:
        Dying.left -= 1
        if Dying.left == 0:
            file.write(content[: len(content) // 2])
            raise Killed
        super()._fill(file, content)


def dying(site: Site) -> SiteFolder:
    return Dying(site, durable=False)


def test_killed_in_the_middle_of_any_write_every_result_is_made_exactly_once(tmp_path: Path) -> None:
    asked = three(tmp_path)
    partitioned, other = plans(asked)[2], plans(asked)[0]
    world = World(asked, tmp_path, dying)
    for number in range(4):
        world.feed(batch(number), {0: partitioned, 2: other}.get(number))
    kills = 0
    for fuse in (*range(1, 60), 10_000):
        Dying.left = fuse
        try:
            world.run()
            break
        except Killed:
            kills += 1
            world.restart()
    assert kills > 8
    assert world.results() == nested_loop(asked, world.history)


def test_killed_by_a_signal_while_it_joins_the_next_run_goes_on(tmp_path: Path) -> None:
    asked = three(tmp_path)
    world = World(asked, tmp_path)
    world.feed(batch(0), plans(asked)[2])
    world.feed(batch(1))
    script = (
        "import sys; sys.path.insert(0, '.')\n"
        "from pathlib import Path\n"
        "from tests.unit.correlate.multiway import test_multiway_executor as own\n"
        "own.run_and_die(Path(sys.argv[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    world.restart()
    assert world.run().waiting == []
    assert world.results() == nested_loop(asked, world.history)


class _KillingKernel:
    """Kills its process at the third join."""

    joins = 0

    def index(self, stored: object) -> Any:
        self.joins += 1
        if self.joins == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        from etl.correlate.multiway.execution.kernel import SortedKernel

        return SortedKernel().index(stored)  # type: ignore[arg-type]


def run_and_die(root: Path) -> None:
    world = World(three(root), root)
    home = quick(Site("home", f"{root}/home"))
    Executor(world.query, FolderBook(world.query.name, home), world.folders, world.segments, _KillingKernel()).run()


@pytest.mark.parametrize("site", ["eu", "us", "ap"])
@pytest.mark.parametrize("plan", [0, 1, 2])
def test_what_needs_a_site_that_is_away_waits_and_nothing_is_lost(tmp_path: Path, site: str, plan: int) -> None:
    asked = three(tmp_path)
    world = World(asked, tmp_path)
    for number in range(3):
        world.feed(batch(number), plans(asked)[plan] if number == 0 else None)
    (tmp_path / site).rename(tmp_path / "elsewhere")
    (tmp_path / site).mkdir()  # an empty mount point
    world.restart()  # a process that starts while the site is away does not take the mount point for it
    report = world.run()
    assert report.finished == []
    assert report.waits_for == [site]
    assert list((tmp_path / site).iterdir()) == []
    (tmp_path / site).rmdir()
    (tmp_path / "elsewhere").rename(tmp_path / site)
    report = world.run()
    assert (report.finished, report.waiting) == ([0, 1, 2], [])
    assert world.results() == nested_loop(asked, world.history)


def test_a_site_that_goes_and_comes_between_batches_holds_up_only_its_part(tmp_path: Path) -> None:
    asked = three(tmp_path)
    world = World(asked, tmp_path)
    world.feed(batch(0), plans(asked)[0])
    world.run()
    (tmp_path / "us").rename(tmp_path / "elsewhere")
    world.history.append(batch(1))
    world.executor.begin(batch(1))
    for i in (0, 2):
        world.segments.write(i, 1, batch(1)[i])
    report = world.run()
    done = [one for one in report.shipped if one.batch == 1]
    assert ("ap", "eu") in [(one.origin, one.destination) for one in done]
    (tmp_path / "elsewhere").rename(tmp_path / "us")
    world.segments.write(1, 1, batch(1)[1])
    assert world.run().finished == [1]
    assert world.results() == nested_loop(asked, world.history)


def test_partitions_may_ship_the_same_join_in_opposite_directions(tmp_path: Path) -> None:
    asked = three(tmp_path)
    a, b, c = (Source(1 << i, one.site) for i, one in enumerate(asked.streams))
    there, back = mjoin("us", (mjoin("eu", (a, c)), b)), mjoin("eu", (mjoin("us", (a, c)), b))
    world = World(asked, tmp_path)
    world.feed(batch(0), PMJoin(0, HashPartitioner(2), (a, b, c), (there, back)))
    world.feed(batch(1))
    assert world.run().finished == [0, 1]
    assert world.results() == nested_loop(asked, world.history)


def test_tasks_of_single_sites_finish_a_batch_together(tmp_path: Path) -> None:
    asked = three(tmp_path)
    world = World(asked, tmp_path)
    world.feed(batch(0), plans(asked)[2])
    world.feed(batch(1))
    finished: list[int] = []
    for _ in range(6):
        for site in ("eu", "us", "ap"):
            world.restart()
            finished += world.executor.run(at=site).finished
    assert finished == [0, 1]
    assert world.results() == nested_loop(asked, world.history)


def test_a_repeated_run_does_nothing(tmp_path: Path) -> None:
    asked = three(tmp_path)
    world = World(asked, tmp_path)
    world.feed(batch(0), plans(asked)[0])
    assert world.run().finished == [0]
    again = world.run()
    assert (again.finished, again.shipped, again.waiting) == ([], [], [])


def test_what_was_shipped_is_counted_in_tuples_and_bytes(tmp_path: Path) -> None:
    asked = three(tmp_path, None)
    world = World(asked, tmp_path)
    a, b, c = (Source(1 << i, one.site) for i, one in enumerate(asked.streams))
    world.feed(batch(0), MJoin("eu", (b, c, a)))
    shipped = {(one.kind, one.streams): one for one in world.run().shipped}
    assert shipped["tuples", 2].tuples == shipped["tuples", 4].tuples == 12
    assert shipped["tuples", 2].bytes == len(world.folders["eu"].read(
        "test/e0000/tuples-1/from-us/000000000000.arrow"
    ))  # fmt: skip


def test_filters_run_before_anything_is_shipped(tmp_path: Path) -> None:
    streams = [stream("a", "eu", seconds(9)), stream("b", "us", seconds(9), Filter("y", "=", 7))]
    asked = query(streams, ON[:1], None, 0, str(tmp_path))
    world = World(asked, tmp_path)
    segment = rows((1, 0, 1, 7, "t"), (2, 1, 1, 8, "t"), (3, 2, 1, 8, "t"))
    world.feed({0: segment, 1: segment}, mjoin("eu", (Source(2, "us"), Source(1, "eu"))))
    (shipped,) = world.run().shipped
    assert shipped.tuples == 1
    assert world.results() == nested_loop(asked, world.history)


def test_tuples_that_come_too_late_are_set_aside(tmp_path: Path) -> None:
    asked = query([stream("a", "eu", seconds(9)), stream("b", "us", seconds(9))], ON[:1], None, 1, str(tmp_path))
    world = World(asked, tmp_path)
    one = rows((1, 10, 1, 0, "t"))
    world.feed({0: one, 1: one}, mjoin("eu", (Source(2, "us"), Source(1, "eu"))))
    world.feed({0: rows((2, 8.9, 1, 0, "t"), (3, 9, 1, 0, "t")), 1: rows()})
    world.run()
    assert (tmp_path / "eu/test/late/a/000000000001.arrow").exists()
    assert world.results() == nested_loop(asked, world.history) == {(1, 1): 1, (3, 1): 1}


def test_files_leave_when_their_windows_are_over(tmp_path: Path) -> None:
    asked = query([stream("a", "eu", seconds(2)), stream("b", "us", seconds(2))], ON[:1], None, 0, str(tmp_path))
    world = World(asked, tmp_path)
    plan = mjoin("eu", (Source(2, "us"), Source(1, "eu")))
    for number in range(20):
        world.feed({i: batch(number)[i] for i in range(2)}, plan if number == 0 else None)
        world.run()
    kept = list((tmp_path / "eu/test/e0000").rglob("*.arrow"))
    assert 0 < len(kept) < 12
    assert world.results() == nested_loop(asked, world.history)


def test_a_new_plan_fills_its_windows_and_the_old_one_leaves(tmp_path: Path) -> None:
    asked = three(tmp_path)
    world = World(asked, tmp_path)
    for number in range(6):
        world.feed(batch(number), plans(asked)[number // 2] if number % 2 == 0 else None)
        report = world.run()
        assert bool(report.replayed) == (number in (2, 4))
    assert list((tmp_path / "eu/test/e0000").rglob("*.arrow")) == []
    assert world.results() == nested_loop(asked, world.history)


def test_a_measured_model_plans_what_then_runs(tmp_path: Path) -> None:
    asked = query(
        [stream("a", "eu", seconds(4)), stream("b", "us", seconds(4)), stream("c", "ap", seconds(4))],
        ON, "eu", 2, str(tmp_path),
    )  # fmt: skip
    statistics = [StreamStatistics(half_life_s=60.0) for _ in range(3)]
    for number in range(3):
        observe(asked, statistics, batch(number), 3.0)
    model = measured_model(asked, statistics)
    assert [one.rate_per_s for one in model.streams] == pytest.approx([4.0] * 3)
    assert model.size_bytes(0b001) == 8 + 8 + 8  # start, key, id
    assert model.size_bytes(0b011) == 8 + 8 + 8 + 16  # start, end, key, two ids
    assert 200 < head_bytes(asked, 0b011) < 2000
    world = World(asked, tmp_path)
    for number in range(3):
        plan = make_plan(model, PlanOptions(partitions=3)) if number == 0 else None
        world.feed(batch(number), plan)
    world.run()
    assert world.results() == nested_loop(asked, world.history)
