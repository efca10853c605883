"""A file that cannot be read waits, is named, holds up no other, and is loaded by itself once it can be read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from etl.adapters import ledger
from etl.pipeline.input import deadline
from etl.pipeline.input.arrival import Arrival
from etl.pipeline.inspection.diagnosis import Diagnosis, diagnose, gather
from etl.pipeline.prepare import Preparer
from etl.pipeline.tasks.in_process import InProcess
from etl.pipeline.tasks.plan import BatchPlan
from etl.pipeline.tasks.wire import Message, TaskLost
from tests.support.mortal import Mortal, deadly
from tests.support.site import Site, order
from tests.support.unreadable import SWAPS, refusing, remove


class Meddling(InProcess):
    """Lets somebody touch the files after input is fixed, before a try at it; tries are counted from 1."""

    def __init__(self, meddle: Callable[[int], None]) -> None:
        super().__init__(slots=2)
        self.meddle, self.runs = meddle, 0

    def run(self, plan: BatchPlan) -> list[Message]:
        self.runs += 1
        self.meddle(self.runs)
        return super().run(plan)


def with_executor(site: Site, executor: Any) -> Site:
    return replace(site, steps=replace(site.steps, executor=executor))


def run(site: Site) -> tuple[int | None, str]:
    """One run: its batch, and all that it said."""
    said: list[str] = []
    result = site.steps.whole(site.pipeline, "test", said.append)
    return result["batch"], "\n".join(said)


def keys(site: Site) -> list[int]:
    return sorted(site.rows("fact")["order_id"].to_pylist())


def due(site: Site) -> bool:
    """Whether the watcher would start a run."""
    arrival = Arrival(site.pipeline, site.landing, "jsonl", lambda: site.dsn, timedelta(days=7))
    return arrival.look(arrival.listing(), datetime.now(UTC)).due


def diagnosed(site: Site, ahead: timedelta = timedelta(0)) -> tuple[Diagnosis, ...]:
    declared = Preparer(site.settings, site.dsn).declared(site.pipeline)
    with ledger.reading(site.dsn, site.pipeline) as book:
        return diagnose(gather(declared, site.landing, book, datetime.now(UTC) + ahead))


def quiet(path: Path) -> None:
    """As if nobody had written to it for a while: nothing of it needs to be looked at before it is read."""
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 30))


@pytest.mark.parametrize("is_quiet", [True, False])
def test_a_file_that_may_not_be_opened_waits_and_the_good_one_beside_it_is_loaded(site: Site, is_quiet: bool) -> None:
    shut = site.land("shut.jsonl", order(1), order(2))
    good = site.land("good.jsonl", order(3))
    if is_quiet:
        quiet(shut), quiet(good)
    with refusing(shut):
        batch, said = run(site)
        assert batch == 1
        assert "1 file cannot be read and waits: 'shut.jsonl' (Permission denied)" in said
        assert keys(site) == [3]
        assert run(site)[0] is None, "it is not tried as a batch again and again"
    assert run(site)[0] == 2
    assert keys(site) == [1, 2, 3]
    assert site.inventory().faults == []


def test_a_file_that_may_not_be_opened_does_not_let_the_watcher_fail_or_start_runs(site: Site) -> None:
    site.land("first.jsonl", order(9))
    run(site)
    shut = site.land("shut.jsonl", order(1))
    with refusing(shut):
        assert not due(site)
        good = site.land("good.jsonl", order(2))
        quiet(good)
        assert due(site)
        run(site)
        assert not due(site)
    assert due(site), "it can be read now"
    run(site)
    assert keys(site) == [1, 2, 9]


def test_a_file_that_may_not_be_opened_is_named_in_the_report_and_by_the_doctor_and_the_audit(site: Site) -> None:
    shut = site.land("<b>.jsonl", order(1))
    site.land("good.jsonl", order(2))
    with refusing(shut):
        batch, _ = run(site)
        page = Path(site.step("report", batch)["report"])
        report = json.loads(page.with_name("report.json").read_text())
        assert report["unreadable"] == {"<b>.jsonl": "Permission denied"}
        assert "Files that cannot be read" in page.read_text()
        assert "<b>.jsonl" not in page.read_text()

        (now,), (later,) = diagnosed(site), diagnosed(site, timedelta(hours=3))
        assert (now.state, later.state) == ("warning", "stuck")
        assert now.what == "1 file cannot be read and waits: '<b>.jsonl' (Permission denied)"
        assert "chmod" in now.remedy

        counted = site.inventory()
        assert counted.faults == ["cannot be read, so not counted: '<b>.jsonl' (Permission denied)"]
        assert not counted.as_json()["balanced"]
    run(site)
    assert site.inventory().faults == []
    assert [one.state for one in diagnosed(site)] == ["well"]


def test_a_loaded_file_that_can_no_longer_be_read_is_named_by_the_audit(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = site.land("a.jsonl", order(1))
    run(site)
    opens = Path.open

    def refuse(self: Path, *given: Any, **named: Any) -> Any:
        if self == path:
            raise PermissionError(13, "Permission denied", str(self))
        return opens(self, *given, **named)

    monkeypatch.setattr(Path, "open", refuse)
    assert "cannot be read, so not counted: 'a.jsonl' (Permission denied)" in site.inventory().faults


def test_a_file_that_may_not_be_opened_is_no_load_to_shed_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    shut = site.land("shut.jsonl", *[order(number) for number in range(1, 2_000)])
    good = site.land("good.jsonl", order(5_000))
    limit, landed = deadline.first_control, []

    def watched(landed_bytes: int, *given: Any) -> Any:
        landed.append(landed_bytes)
        return limit(landed_bytes, *given)

    monkeypatch.setattr(deadline, "first_control", watched)
    with refusing(shut):
        assert site.run() == 1
    assert landed == [good.stat().st_size]
    control = site.record(1).control
    assert control is not None
    assert control["unreadable"] == {"shut.jsonl": "Permission denied"}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("swap", SWAPS)
def test_a_file_that_is_swapped_after_input_is_fixed_is_left_out_and_the_good_one_is_loaded(
    site: Site, swap: str
) -> None:
    path = site.land("swapped.jsonl", order(1), order(2))
    site.land("good.jsonl", order(3))

    def swap_it(run: int) -> None:
        if run == 1:
            SWAPS[swap](path)

    batch, said = run(with_executor(site, Meddling(swap_it)))
    assert batch == 1
    assert "1 files changed while they were read and are left for the next batch: 'swapped.jsonl' (" in said
    assert keys(site) == [3]
    assert run(site)[0] is None, "what is there now is no file"
    remove(path)
    site.land("swapped.jsonl", order(4))
    assert run(site)[0] == 2
    assert keys(site) == [3, 4]
    if swap != "gone":
        assert site.inventory().faults == []


@pytest.mark.timeout(120)
@pytest.mark.parametrize("swap", SWAPS)
def test_a_batch_of_nothing_but_a_swapped_file_ends_and_the_next_can_begin(site: Site, swap: str) -> None:
    path = site.land("swapped.jsonl", order(1))
    executor = Meddling(lambda run: SWAPS[swap](path) if run == 1 else None)
    assert run(with_executor(site, executor))[0] is None
    with ledger.reading(site.dsn, site.pipeline) as book:
        assert book.oldest_unloaded() is None
    remove(path)
    site.land("swapped.jsonl", order(2))
    assert run(site)[0] == 1
    assert keys(site) == [2]


def test_a_file_that_tasks_may_not_open_is_tried_once_in_a_run_and_holds_up_no_other(site: Site) -> None:
    shut, good = site.land("shut.jsonl", order(1)), site.landing / "good.jsonl"
    quiet(shut)

    class OfAnotherUser(InProcess):
        """Tasks that run as somebody who may not read one of the files."""

        runs = 0

        def run(self, plan: BatchPlan) -> list[Message]:
            self.runs += 1
            if self.runs == 1:
                site.land(good.name, order(2))
            with refusing(shut):
                return super().run(plan)

    small = with_executor(site.changed(batch_bytes=10), executor := OfAnotherUser())
    batch, said = run(small)
    assert (batch, keys(site)) == (1, [2])
    assert "'shut.jsonl' (Permission denied)" in said
    before = executor.runs
    assert run(small)[0] is None
    assert executor.runs == before + 1, "tried once"
    assert run(site)[0] == 2
    assert keys(site) == [1, 2]
    assert site.inventory().faults == []


def test_a_file_that_is_swapped_while_poison_is_searched_for_is_no_suspect(site: Site) -> None:
    path = site.land("swapped.jsonl", *[order(number) for number in range(100, 110)])
    site.land("deadly.jsonl", *[order(number) for number in range(1, 5)], deadly(5))

    class Swapping(Mortal):
        def run(self, plan: BatchPlan) -> list[Message]:
            if self.runs == 3:  # the search begins with a try without any line
                SWAPS["link"](path)
            return super().run(plan)

    batch, said = run(with_executor(site, Swapping(TaskLost("it died"))))
    assert batch == 1
    assert "'deadly.jsonl', line 5: tasks do not survive it" in said
    assert keys(site) == [1, 2, 3, 4]
    remove(path)
    site.land("swapped.jsonl", order(100))
    run(site)
    assert keys(site) == [1, 2, 3, 4, 100]
    assert site.inventory().faults == []
