"""Lines of streams that tasks do not survive: found by halving, refused as poison; nothing else is lost or doubled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from etl.pipeline.poison.lines import TRIES
from etl.pipeline.poison.trial import NotTheLines
from etl.pipeline.tasks.wire import DriverLost, Message, TaskLost
from etl.streams.tasks.in_process import InProcess
from etl.streams.tasks.plan import BatchPlan
from tests.support.correlate_histories import at
from tests.support.document_site import DocumentSite, seconds
from tests.support.stream_site import StreamSite

SQL = "select l.id as a, r.id as b from l join r on l.k = r.k"


class Mortal(InProcess):
    """Is lost with any plan that would read a deadly line."""

    def __init__(self, error: Exception, deadly: Callable[[BatchPlan], bool]) -> None:
        super().__init__(slots=2)
        self.error, self.deadly, self.runs = error, deadly, 0

    def run(self, plan: BatchPlan) -> list[Message]:
        self.runs += 1
        if self.deadly(plan):
            raise self.error
        return super().run(plan)


def reads(*lines: tuple[str, int]) -> Callable[[BatchPlan], bool]:
    """Whether a plan would parse one of these lines of streams with one file each."""

    def found(plan: BatchPlan) -> bool:
        for stream in plan.streams:
            for one in stream.slices:
                first, last = plan.lines.only.get(one.ordinal, (1, 10**9))
                aside = plan.lines.poison.get(one.ordinal, frozenset())
                for name, line in lines:
                    if name == stream.name and first <= line <= last and line not in aside:
                        return True
        return False

    return found


def make(home: Path, dsn: str, executor: Mortal) -> StreamSite:
    site = StreamSite.under(home, dsn, executor)
    site.declare("pairs", SQL, within="1 hour")
    site.land("l", "a", [{"id": i, "k": i, "t": at(i)} for i in range(1, 41)])
    site.land("r", "a", [{"id": 100 + i, "k": i, "t": at(i)} for i in range(1, 41)])
    return site


def refused(site: StreamSite, stream: str) -> list[tuple[int, list[str]]]:
    return sorted((row["line"], row["reasons"]) for row in site.quarantine(stream).to_pylist())


def test_deadly_lines_are_refused_and_all_other_tuples_meet_once(tmp_path: Path, database: str) -> None:
    executor = Mortal(TaskLost("it died"), reads(("l", 7), ("r", 30)))
    site = make(tmp_path, database, executor)
    assert site.run()["state"] == "loaded"
    assert refused(site, "l") == [(7, ["poison"])]
    assert refused(site, "r") == [(30, ["poison"])]
    expected = sorted((i, 100 + i) for i in range(1, 41) if i not in (7, 30))
    assert sorted((row["a"], row["b"]) for row in site.table("pairs").to_pylist()) == expected
    assert executor.runs < 40, "halving, not trying line by line"


def test_the_search_goes_on_when_every_death_takes_the_driver_along(tmp_path: Path, database: str) -> None:
    site = make(tmp_path, database, Mortal(DriverLost("the JVM is gone"), reads(("r", 13))))
    deaths = 0
    while True:
        try:
            site.restarted().run()
            break
        except DriverLost:
            deaths += 1
            assert deaths < 40, "the search makes no progress"
    assert refused(site, "r") == [(13, ["poison"])]
    assert site.table("pairs").num_rows == 39


def test_tasks_that_are_lost_without_any_input_blame_no_line(tmp_path: Path, database: str) -> None:
    site = make(tmp_path, database, Mortal(TaskLost("it died"), lambda plan: True))
    with pytest.raises(NotTheLines, match="also without any input"):
        site.run()
    healthy = replace(site, steps=replace(site.steps, executor=InProcess()))
    assert healthy.run()["state"] == "loaded"
    assert healthy.table("pairs").num_rows == 40


def test_a_task_that_is_lost_now_and_then_costs_tries_and_no_search(tmp_path: Path, database: str) -> None:
    lost: list[BatchPlan] = []

    def unlucky(plan: BatchPlan) -> bool:
        lost.append(plan)
        return len(lost) < TRIES

    site = make(tmp_path, database, Mortal(TaskLost("somebody pulled the plug"), unlucky))
    assert site.run()["state"] == "loaded"
    assert len(lost) == TRIES
    assert not refused(site, "l")
    numbers = [number for plan in lost for stream in plan.streams for number in stream.segments.values()]
    assert len(set(numbers)) == len(numbers), "two tries never write the same segment"


def test_files_that_kill_only_together_are_read_by_different_batches(tmp_path: Path, database: str) -> None:
    def both(plan: BatchPlan) -> bool:
        return {"l", "r"} <= {stream.name for stream in plan.streams if stream.slices}

    site = make(tmp_path, database, Mortal(TaskLost("no memory"), both))
    assert site.run()["state"] == "loaded"
    assert site.table("pairs").num_rows == 0
    assert site.run()["state"] == "loaded"
    assert sorted((row["a"], row["b"]) for row in site.table("pairs").to_pylist()) == [
        (i, 100 + i) for i in range(1, 41)
    ]
    assert refused(site, "l") == refused(site, "r") == []


def test_a_deadly_document_is_refused_and_the_others_join(tmp_path: Path, database: str) -> None:
    site = DocumentSite.under(tmp_path, database, Mortal(TaskLost("it died"), reads(("logs", 3))))
    site.declare("links", documents={"stream": "logs", "window": "1 hour"})
    site.land("a", [{"time": seconds(i), "user": "ada", "n": {"id": i}} for i in range(5)])
    site.run()
    assert [(row["line"], row["reasons"]) for row in site.quarantine("logs").to_pylist()] == [(3, ["poison"])]
    assert sorted(site.pairs("links")) == [(0, 1), (0, 3), (0, 4), (1, 3), (1, 4), (3, 4)]
