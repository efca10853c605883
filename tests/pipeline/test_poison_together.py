"""Input that kills only as a whole: found, refused or left for a later batch; all other input goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from etl.pipeline.poison.trial import NotTheLines
from etl.pipeline.review.quarantine import Selection
from etl.pipeline.tasks.in_process import InProcess
from etl.pipeline.tasks.plan import BatchPlan
from etl.pipeline.tasks.wire import DriverLost, Message, TaskLost
from etl.samples.examples import EXAMPLES
from tests.support.desk import release
from tests.support.mortal import Overburdened, parsed_lines
from tests.support.site import COPY_CUSTOMER, Site, order

LOST = TaskLost("it died")


def with_executor(site: Site, executor: InProcess) -> Site:
    return replace(site, steps=replace(site.steps, executor=executor))


def orders(first: int, count: int, **values: Any) -> Iterator[dict[str, Any]]:
    return (order(number, **values) for number in range(first, first + count))


def keys(site: Site) -> list[int]:
    return sorted(site.rows("fact")["order_id"].to_pylist())


def run(site: Site) -> tuple[int | None, str]:
    """One run: its batch, and all that it said."""
    said: list[str] = []
    result = site.steps.whole(site.pipeline, "test", said.append)
    return result["batch"], "\n".join(said)


def trips(site: Site) -> tuple[Site, int]:
    """A file of ten trips and one of all others; and how many rows the second has."""
    here = site.of("trips")
    EXAMPLES["trips"].seed(here.dsn, here.settings.var)
    EXAMPLES["trips"].generate(here.landing, 40, 1, datetime.now(UTC))
    paths = sorted(here.landing.glob("*.parquet"))
    rows = pa.concat_tables([pq.read_table(path) for path in paths])
    for path in paths:
        path.unlink()
    pq.write_table(rows.slice(0, 10), here.landing / "other.parquet")
    pq.write_table(rows.slice(10), here.landing / "heavy.parquet")
    return here, rows.num_rows - 10


def poison_of(site: Site) -> list[dict[str, Any]]:
    return [row for row in site.rows("quarantine").to_pylist() if "poison" in row["reasons"]]


def test_a_parquet_file_that_kills_only_as_a_whole_is_refused_by_name_and_the_others_go_on(site: Site) -> None:
    here, rows = trips(site)
    dying = with_executor(here, Overburdened(LOST, rows - 1, "heavy.parquet"))
    batch, said = run(dying)
    assert batch == 1
    assert "'heavy.parquet', the whole file: tasks do not survive it" in said
    (poison,) = poison_of(dying)
    assert (poison["source_file"], poison["line"]) == ("heavy.parquet", 0)
    assert json.loads(poison["raw"])["file"] == "heavy.parquet"
    assert dying.totals()["lines"] == 11, "the file counts as one line, the other one has ten"
    assert dying.inventory().faults == []
    assert release(dying, Selection(reason="poison")).impossible
    run(dying)
    assert dying.totals()["lines"] == 11, "it is not read again"


def test_the_search_for_such_a_file_goes_on_when_every_death_takes_the_driver_along(site: Site) -> None:
    here, rows = trips(site)
    dying, deaths = with_executor(here, Overburdened(DriverLost("the JVM is gone"), rows - 1, "heavy.parquet")), 0
    while True:
        try:
            assert dying.run() == 1
            break
        except DriverLost:
            deaths += 1
            assert deaths < 40, "the search makes no progress"
    assert [row["source_file"] for row in poison_of(dying)] == ["heavy.parquet"]
    assert dying.inventory().faults == []


def test_a_file_of_lines_that_kills_only_as_a_whole_is_read_in_parts_and_nothing_is_refused(site: Site) -> None:
    here = with_executor(site, Overburdened(LOST, 15, "heavy.jsonl"))
    here.land("heavy.jsonl", *orders(1, 40))
    here.land("other.jsonl", order(100))
    batch, said = run(here)
    assert batch == 1
    assert "'heavy.jsonl' is left for a later batch from line 21 on: tasks survive parts of it, and not all" in said
    assert 100 in keys(here)
    assert here.inventory().faults == []
    for _ in range(6):
        run(here)
        assert here.inventory().faults == []
    assert run(here)[0] is None
    assert keys(here) == [*range(1, 41), 100]
    assert here.rows("quarantine").num_rows == 0


def test_files_that_kill_only_together_are_read_by_different_batches(site: Site) -> None:
    here = with_executor(site, Overburdened(LOST, 15, "a.jsonl", "c.jsonl"))
    here.land("a.jsonl", *orders(1, 10))
    here.land("b.jsonl", *orders(11, 10))
    here.land("c.jsonl", *orders(21, 10))
    here.land("d.jsonl", *orders(31, 10))
    batch, said = run(here)
    assert batch == 1
    assert "'c.jsonl' is left for a later batch, and with it 1 behind it: tasks do not survive it together" in said
    assert keys(here) == [*range(1, 21)]
    assert here.inventory().faults == []
    assert run(here)[0] == 2
    assert keys(here) == [*range(1, 41)]
    assert here.rows("quarantine").num_rows == 0
    assert here.inventory().faults == []


def test_slices_of_one_file_stay_in_order_when_a_later_one_kills(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(json.dumps(order(10)))
    monkeypatch.setattr("etl.pipeline.steps.Limits", lambda batch_bytes: _small(batch_bytes, 10 * size))
    here = with_executor(site, Overburdened(LOST, 25, "a.jsonl"))
    here.land("a.jsonl", *orders(10, 60))
    for _ in range(6):
        run(here)
        assert here.inventory().faults == []
    assert keys(here) == [*range(10, 70)]
    assert here.rows("quarantine").num_rows == 0


def _small(batch_bytes: int, slice_bytes: int) -> Any:
    from etl.adapters.landing import Limits

    return Limits(batch_bytes=batch_bytes, slice_bytes=slice_bytes)


def test_events_of_the_backlog_that_kill_only_together_with_others_are_tried_by_the_next_batch(site: Site) -> None:
    site.land("a.jsonl", *(order(n, customer_id=90 + n) for n in range(1, 6)))
    site.run()
    assert site.totals()["backlog_open"] == 5
    for customer in range(91, 96):
        site.execute(COPY_CUSTOMER, customer)
    here = with_executor(site, Overburdened(LOST, 8, "a.jsonl", "b.jsonl"))
    here.land("b.jsonl", *orders(11, 5))
    assert here.run() == 2
    assert keys(here) == [*range(11, 16)]
    assert here.inventory().faults == []
    assert here.run() == 3, "without any change of a master"
    assert keys(here) == [*range(1, 6), *range(11, 16)]
    assert here.inventory().faults == []


def test_events_of_the_backlog_that_kill_only_as_a_whole_are_tried_in_parts(site: Site) -> None:
    site.land("a.jsonl", *(order(n, customer_id=90 + n) for n in range(1, 9)))
    site.run()
    for customer in range(91, 99):
        site.execute(COPY_CUSTOMER, customer)
    here = with_executor(site, Overburdened(LOST, 5, "a.jsonl"))
    here.land("b.jsonl", order(11))
    for _ in range(6):
        here.run()
        assert 11 in keys(here), "with the first of these batches"
        assert here.inventory().faults == []
    assert here.run() is None
    assert keys(here) == [*range(1, 9), 11]
    assert here.totals()["backlog_open"] == 0
    assert here.inventory().faults == []


def test_a_process_that_dies_before_the_batch_is_cut_cuts_it_the_next_time(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = with_executor(site, Overburdened(LOST, 15, "a.jsonl", "b.jsonl"))
    here.land("a.jsonl", *orders(1, 10))
    here.land("b.jsonl", *orders(11, 10))

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("etl.pipeline.isolate.cut_off", die)
        with pytest.raises(KeyboardInterrupt):
            here.run()
    assert here.run() == 1
    assert here.run() == 2
    assert keys(here) == [*range(1, 21)]
    assert here.inventory().faults == []


def test_batches_that_die_whatever_is_left_out_blame_no_input(site: Site) -> None:
    class Moody(InProcess):
        """Survives any part of its input, and never all of it."""

        def run(self, plan: BatchPlan) -> list[Message]:
            if sum(parsed_lines(plan).values()) and not plan.lines.only:
                raise LOST
            return super().run(plan)

    site.land("a.jsonl", *orders(1, 3))
    with pytest.raises(NotTheLines, match="no part of the input is the cause"):
        with_executor(site, Moody()).run()
    assert site.later(timedelta(minutes=1)).run() == 1, "another driver can"
    assert keys(site) == [1, 2, 3]
