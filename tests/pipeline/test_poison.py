"""Lines that tasks do not survive: found by halving, refused as poison, whoever dies on the way."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pytest

from etl.pipeline.isolate import TRIES, NotTheLines
from etl.pipeline.review.quarantine import Selection
from etl.pipeline.tasks import wire
from etl.pipeline.tasks.in_process import InProcess
from etl.pipeline.tasks.plan import BatchPlan
from etl.pipeline.tasks.wire import DriverLost, Message, TaskLost, WorkerRefused
from etl.samples.examples import EXAMPLES
from tests.support.desk import release, shown
from tests.support.event_traces import trace
from tests.support.mortal import DEADLY, Mortal, deadly
from tests.support.site import Site, order


def mortal(site: Site, error: Exception | None = None) -> tuple[Site, Mortal]:
    executor = Mortal(error or TaskLost("it died"))
    return replace(site, steps=replace(site.steps, executor=executor)), executor


def events(count: int, *deadly_ones: int) -> Iterator[dict[str, Any]]:
    return (deadly(n) if n in deadly_ones else order(n) for n in range(1, count + 1))


def test_deadly_lines_are_found_and_refused_and_all_others_are_loaded(site: Site) -> None:
    here, executor = mortal(site)
    here.land("a.jsonl", *events(300, 7, 200))
    here.land("b.jsonl", b"", *[order(n) for n in range(301, 400)], deadly(400))
    assert here.run() == 1
    assert site.rows("fact").num_rows == 397
    refused = site.rows("quarantine").to_pylist()
    assert sorted((row["source_file"], row["line"], *row["reasons"]) for row in refused) == [
        ("a.jsonl", 7, "poison"), ("a.jsonl", 200, "poison"), ("b.jsonl", 101, "poison"),
    ]  # fmt: skip
    assert all(DEADLY in row["raw"] for row in refused)
    assert site.inventory().faults == []
    assert executor.runs < 80, "halving, not trying line by line"


def test_a_task_that_is_lost_now_and_then_costs_tries_and_no_search(site: Site) -> None:
    class Unlucky(InProcess):
        runs = 0

        def run(self, plan: BatchPlan) -> list[Message]:
            self.runs += 1
            if self.runs < TRIES:
                raise TaskLost("somebody pulled the plug")
            return super().run(plan)

    unlucky = Unlucky()
    site.land("a.jsonl", *events(5, 3))
    replace(site, steps=replace(site.steps, executor=unlucky)).run()
    assert (unlucky.runs, site.rows("fact").num_rows) == (TRIES, 5)


def test_a_search_goes_on_where_it_was_when_every_death_takes_the_driver_along(site: Site) -> None:
    here, _ = mortal(site, DriverLost("the JVM is gone"))
    here.land("a.jsonl", *events(16, 11))
    deaths = 0
    while True:
        try:
            assert here.run() == 1
            break
        except DriverLost:
            deaths += 1
            assert deaths < 40, "the search makes no progress"
    assert site.rows("fact").num_rows == 15
    assert [row["line"] for row in site.rows("quarantine").to_pylist()] == [11]
    assert deaths <= TRIES + 2 * 5, "each half dies at most twice"
    assert site.inventory().faults == []


def test_errors_of_ours_and_shortages_blame_no_line(site: Site) -> None:
    here, executor = mortal(site, WorkerRefused("no room"))
    here.land("a.jsonl", *events(5, 3))
    for _ in range(TRIES + 2):
        with pytest.raises(WorkerRefused):
            here.run()
    assert executor.runs == TRIES + 2, "one try each time, and no search"
    with pytest.raises(WorkerRefused, match="No space left on device"):
        wire.raise_error(wire.error_message(OSError(errno.ENOSPC, "secret path")))


def test_code_that_breaks_is_told_by_place_and_never_by_what_it_said() -> None:
    try:
        json.loads("the customer's secret")
    except ValueError as error:
        message = wire.error_message(error)
    with pytest.raises(TaskLost, match=r"JSONDecodeError at decoder\.py:\d+") as told:
        wire.raise_error(message)
    assert "secret" not in str(told.value)


def test_when_all_lines_are_deadly_it_is_not_the_lines(site: Site) -> None:
    here, _ = mortal(site)
    here.land("a.jsonl", *(deadly(n) for n in range(1, 65)))
    with pytest.raises(NotTheLines, match=r"lost \(it died\), because of more than 20 lines; nothing was decided"):
        here.run()
    assert site.totals()["lines"] == 0
    assert site.run() == 1, "code that survives them reads them like any others"
    assert site.rows("fact").num_rows == 64


def test_tasks_that_are_lost_without_any_input_blame_nobody(site: Site) -> None:
    class Dead(InProcess):
        def run(self, plan: BatchPlan) -> list[Message]:
            raise TaskLost("no memory")

    site.land("a.jsonl", order(1))
    dead = replace(site, steps=replace(site.steps, executor=Dead()))
    with pytest.raises(NotTheLines, match="also without any input"):
        dead.run()
    assert site.run() == 1, "another driver can"
    assert site.rows("fact").num_rows == 1


def test_a_deadly_line_of_csv_is_found_under_its_header(site: Site) -> None:
    sessions, _ = mortal(site.of("web_sessions"))
    EXAMPLES["web_sessions"].seed(sessions.dsn, sessions.settings.var)
    EXAMPLES["web_sessions"].generate(sessions.landing, 30, 1, datetime.now(UTC))
    path = min(sessions.landing.glob("*.csv"))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:5], b"kills;x\n", *lines[5:]]))
    sessions.run()
    poison = [row for row in sessions.rows("quarantine").to_pylist() if "poison" in row["reasons"]]
    assert [(row["line"], row["raw"]) for row in poison] == [(6, b"kills;x")]
    assert sessions.inventory().faults == []


def test_a_deadly_parquet_file_is_named(site: Site) -> None:
    class NoParquet(InProcess):
        def run(self, plan: BatchPlan) -> list[Message]:
            chosen = {one.file.label for one in plan.slices}
            if "deadly.parquet" in chosen and (plan.places.landing / "deadly.parquet").exists():
                raise TaskLost("it died")
            return super().run(plan)

    trips = site.of("trips")
    EXAMPLES["trips"].seed(trips.dsn, trips.settings.var)
    EXAMPLES["trips"].generate(trips.landing, 20, 1, datetime.now(UTC))
    min(trips.landing.glob("*.parquet")).rename(trips.landing / "deadly.parquet")
    dying = replace(trips, steps=replace(trips.steps, executor=NoParquet()))
    with pytest.raises(NotTheLines, match=r"because of the file 'deadly\.parquet'; take it out"):
        dying.run()
    (trips.landing / "deadly.parquet").unlink()
    dying.run()
    assert trips.inventory().faults == []


def test_a_deadly_line_that_is_released_is_isolated_again_and_keeps_its_history(site: Site) -> None:
    here, _ = mortal(site)
    here.land("a.jsonl", *events(4, 2))
    here.run()
    release(here, Selection(reason="poison"))
    here.run()
    (again,) = shown(here, Selection())
    assert (again["reasons"], again["released_from"]) == (["poison"], "1-1")
    assert site.inventory().faults == []
    found = trace(site, "3")
    assert [one.line for one in islice(found.landed, 2)] == [3], "the raw file is looked into around the deadly line"
