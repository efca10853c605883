"""Lines that tasks do not survive: found by halving, refused as poison, whoever dies on the way."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from etl.pipeline.inspection import inventory
from etl.pipeline.poison import lines
from etl.pipeline.poison.lines import TRIES
from etl.pipeline.poison.trial import NotTheLines
from etl.pipeline.review.quarantine import Selection
from etl.pipeline.tasks import wire
from etl.pipeline.tasks.in_process import InProcess
from etl.pipeline.tasks.plan import BatchPlan
from etl.pipeline.tasks.wire import DriverLost, Message, TaskLost, WorkerRefused
from etl.pipeline.upkeep.maintenance import Keep
from etl.samples.examples import EXAMPLES
from tests.support.desk import release, shown
from tests.support.event_traces import trace
from tests.support.mortal import DEADLY, Mortal, deadly
from tests.support.site import COPY_CUSTOMER, Site, order, quiet


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


def test_a_file_of_nothing_but_deadly_lines_is_refused_batch_by_batch_and_holds_up_no_other(site: Site) -> None:
    here, executor = mortal(site)
    here.land("a.jsonl", *(deadly(n) for n in range(1, 65)))
    here.land("b.jsonl", *events(5), *(order(n) for n in range(100, 105)))
    refused, fewest = 0, executor.runs
    for _ in range(4):
        assert here.run() is not None
        assert executor.runs - fewest < 120, "a batch is bounded"
        assert len(poison_of(site)) <= refused + 20
        refused, fewest = len(poison_of(site)), executor.runs
        assert site.rows("fact").num_rows == 10, "with the first batch"
        assert site.inventory().faults == []
    assert refused == 64
    assert [one.file for one in trace(site, "104").landed] == ["b.jsonl"]
    assert here.run() is None
    assert len(release(site, Selection(reason="poison")).done) == 64
    site.run()
    assert site.rows("fact").num_rows == 10 + 64 - 5, "code that survives them reads them like any others"
    assert site.inventory().faults == []


def test_the_search_in_many_files_is_bounded_and_goes_on_with_the_next_batch(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_MOST_OF_SOURCE", 2)
    monkeypatch.setattr(lines, "_MOST_OF_BATCH", 4)
    here, _ = mortal(site)
    for file in range(4):
        here.land(f"{file}.jsonl", *(order(10 * file + n, note="kills" * (n % 3 == 0)) for n in range(1, 10)))
    batches = 0
    while batches < 12 and here.run() is not None:
        batches += 1
        assert len(poison_of(site)) <= 4 * batches
        assert site.inventory().faults == []
    assert len(poison_of(site)) == 12
    for event in (1, 4, 8, 31, 38):  # lines are numbered in the slice that a batch has read
        assert [one.role for one in trace(site, str(event)).landed] == ["event"]
    assert site.rows("fact").num_rows == 24
    assert batches < 12


def test_a_bounded_search_goes_on_when_every_death_takes_the_driver_along(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_MOST_OF_SOURCE", 2)
    here, _ = mortal(site, DriverLost("the JVM is gone"))
    here.land("a.jsonl", *events(8, 2, 3, 5, 7))
    deaths = batches = 0
    while batches < 3:
        try:
            if here.run() is None:
                break
            batches += 1
        except DriverLost:
            deaths += 1
            assert deaths < 80, "the search makes no progress"
    assert sorted(json.loads(row["raw"])["order_id"] for row in poison_of(site)) == [2, 3, 5, 7]
    assert sorted(site.rows("fact")["order_id"].to_pylist()) == [1, 4, 6, 8]
    assert site.inventory().faults == []


def test_many_deadly_events_of_the_backlog_are_refused_batch_by_batch(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_MOST_OF_SOURCE", 2)
    site.land("a.jsonl", *(order(n, customer_id=90, note="kills" * (n > 3)) for n in range(1, 9)))
    site.run()
    site.execute(COPY_CUSTOMER, 90)
    here, _ = mortal(site)
    here.land("b.jsonl", order(100))
    for _ in range(6):
        here.run()
        assert site.inventory().faults == []
    assert here.run() is None
    assert sorted(site.rows("fact")["order_id"].to_pylist()) == [1, 2, 3, 100]
    assert len(poison_of(site)) == 5
    assert site.totals()["backlog_open"] == 0


def test_a_deadly_event_of_the_backlog_is_refused_and_the_others_go_on(site: Site) -> None:
    site.land("a.jsonl", *(order(n, customer_id=90 + n, note="kills" if n == 3 else "") for n in range(1, 6)))
    site.run()
    assert site.totals()["backlog_open"] == 5
    for customer in (91, 94):
        site.execute(COPY_CUSTOMER, customer)
    here, _ = mortal(site)
    here.land("b.jsonl", order(6))
    assert here.run() == 2
    assert sorted(site.rows("fact")["order_id"].to_pylist()) == [1, 4, 6]
    (poison,) = site.rows("quarantine").to_pylist()
    assert (poison["line"], poison["reasons"], poison["from_backlog"]) == (3, ["poison"], True)
    assert site.totals()["backlog_open"] == 2
    assert site.inventory().faults == []
    site.land("c.jsonl", order(3))
    site.run()
    assert 3 in site.rows("fact")["order_id"].to_pylist(), "its key is free again"
    assert site.inventory().faults == []


def test_landed_lines_and_events_of_the_backlog_may_be_deadly_together(site: Site) -> None:
    site.land("a.jsonl", *(order(n, customer_id=90 + n, note="kills" if n == 2 else "") for n in range(1, 4)))
    site.run()
    here, _ = mortal(site.later(timedelta(days=30)))
    here.land("b.jsonl", order(6), deadly(7))
    assert here.run() == 2
    reasons = {(row["source_file"], row["line"]): row["reasons"] for row in site.rows("quarantine").to_pylist()}
    assert reasons.pop(("a.jsonl", 2)) == reasons.pop(("b.jsonl", 2)) == ["poison"]
    assert [names for names in reasons.values() if "poison" in names] == []
    assert site.rows("fact")["order_id"].to_pylist() == [6]
    assert site.inventory().faults == []


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


def trips_with(site: Site, executor: InProcess, *deadly_rows: int) -> tuple[Site, int]:
    """Two files of trips, some rows of the second one deadly; and how many rows they have together."""
    trips = site.of("trips")
    EXAMPLES["trips"].seed(trips.dsn, trips.settings.var)
    EXAMPLES["trips"].generate(trips.landing, 40, 1, datetime.now(UTC))
    paths = sorted(trips.landing.glob("*.parquet"))
    rows = pa.concat_tables([pq.read_table(path) for path in paths])
    for path in paths:
        path.unlink()
    pq.write_table(rows.slice(0, 10), trips.landing / "other.parquet")
    some = rows.slice(10)
    marks = pa.array([DEADLY.decode() if n in deadly_rows else None for n in range(1, some.num_rows + 1)])
    pq.write_table(some.append_column("mark", marks), trips.landing / "deadly.parquet")
    return replace(trips, steps=replace(trips.steps, executor=executor)), rows.num_rows


def poison_of(site: Site) -> list[dict[str, Any]]:
    return [row for row in site.rows("quarantine").to_pylist() if "poison" in row["reasons"]]


def test_deadly_rows_of_parquet_are_refused_and_all_others_are_read(site: Site) -> None:
    executor = Mortal(TaskLost("it died"))
    dying, rows = trips_with(site, executor, 7, 21)
    dying.run()
    poison = poison_of(dying)
    assert sorted((row["source_file"], row["line"]) for row in poison) == [
        ("deadly.parquet", 7),
        ("deadly.parquet", 21),
    ]
    assert all(json.loads(row["raw"])["mark"] == "kills" for row in poison)
    assert dying.totals()["lines"] == rows
    assert dying.inventory().faults == []
    assert executor.runs < 120, "halving, not trying row by row"
    facts, mended = dying.rows("fact").num_rows, replace(dying, steps=replace(dying.steps, executor=InProcess()))
    assert len(release(mended, Selection(reason="poison")).done) == 2
    batch = mended.run() or 0
    assert mended.record(batch).counts.reasons == {}
    assert mended.rows("fact").num_rows == facts + 2, "code that survives them reads them like any others"
    assert mended.inventory().faults == []


def test_a_parquet_file_with_many_deadly_rows_is_refused_as_one_row(site: Site) -> None:
    dying, _ = trips_with(site, Mortal(TaskLost("it died")), *range(1, 25))
    dying.run()
    assert [(row["source_file"], row["line"]) for row in poison_of(dying)] == [("deadly.parquet", 0)]
    assert dying.totals()["lines"] == 11, "the file counts as one line, the other one has ten"
    assert dying.inventory().faults == []


class NoParquet(InProcess):
    """Is lost with any plan that decodes the deadly file; at most so often during the search."""

    def __init__(self, most: int = 1_000) -> None:
        super().__init__()
        self.left, self.runs = most, 0

    def run(self, plan: BatchPlan) -> list[Message]:
        self.runs += 1
        decoded = [one for one in plan.slices if one.file.label == "deadly.parquet" and plan.lines.decodes(one.ordinal)]
        if decoded and self.left:
            self.left -= 1
            raise TaskLost("it died")
        return super().run(plan)


def test_a_parquet_file_that_cannot_be_decoded_is_refused_as_one_row(site: Site) -> None:
    dying, _ = trips_with(site, NoParquet())
    size = (dying.landing / "deadly.parquet").stat().st_size
    dying.run()
    (poison,) = poison_of(dying)
    kept = json.loads(poison["raw"])
    assert (kept["file"], kept["bytes"], len(kept["blake2b"])) == ("deadly.parquet", size, 32)
    assert (poison["source_file"], poison["line"]) == ("deadly.parquet", 0)
    assert dying.totals()["lines"] == 11, "the file counts as one line, the other one has ten"
    assert dying.inventory().faults == []
    assert release(dying, Selection(reason="poison")).impossible


def test_a_parquet_file_that_was_lost_once_too_often_by_chance_is_read(site: Site) -> None:
    whole, decoded_only = TRIES + 2, 1  # the files together, then the file alone, then its rows left out
    dying, rows = trips_with(site, NoParquet(whole + decoded_only))
    dying.run()
    assert poison_of(dying) == []
    assert dying.totals()["lines"] == rows


def test_a_file_that_was_refused_as_one_row_is_never_decoded_to_be_counted(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying, rows = trips_with(site, NoParquet())
    written = datetime.now(UTC) - timedelta(hours=1)
    os.utime(dying.landing / "deadly.parquet", (written.timestamp(), written.timestamp()))
    batch = dying.decide()
    assert dying.inventory().faults == [], "decided, not loaded"
    dying.step("audit", batch)
    dying.step("publish", batch)
    dying.later(timedelta(hours=1)).run()
    (archived,) = dying.settings.archive.rglob("deadly.parquet")
    content, some = archived.read_bytes(), pq.read_table(archived)

    def counted(path: Path) -> int:
        assert path.read_bytes() != content, "tasks do not survive this file"
        return 10

    with monkeypatch.context() as patch:
        patch.setattr(inventory, "_parquet_rows", counted)
        assert dying.inventory().faults == []
    (dying.landing / "deadly.parquet").write_bytes(content)
    mended = replace(dying, steps=replace(dying.steps, executor=InProcess()))
    while mended.totals()["lines"] < 11 + rows - 10:
        assert mended.run() is not None
    assert mended.inventory().faults == [], "landed again, it is a file like any other"
    key = [str(value) for value in some.select(["service_day", "meter", "trip_number"]).to_pylist()[0].values()]
    assert {one.file for one in trace(mended, *key).landed} == {"deadly.parquet"}
    much_later = mended.later(timedelta(days=400))
    much_later.steps.maintain(mended.pipeline, Keep(timedelta(days=30), False), None, quiet)
    assert not list(mended.settings.archive.rglob("deadly.parquet*"))
    assert mended.inventory().faults == []


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
