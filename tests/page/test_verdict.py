"""Is the warehouse fresh, complete and correct? The answers on the page, and which pipeline is to blame."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from etl.page.queries.batches import BatchRow
from etl.page.queries.overview import OpenBatch, PipelineNow
from etl.page.verdict import verdict
from etl.pipeline.inspection.diagnosis import Diagnosis
from tests.page.conftest import Desk
from tests.support.site import order

AT = datetime(2026, 11, 18, tzinfo=UTC)
NEWEST = BatchRow(
    7, "run", "loaded", AT, AT, AT, 100, 95, 2, 1, 2, 0, 0, 100, 90, None, None, 2.5, fresh_p50_s=2.0, fresh_p95_s=4.0
)
WELL = PipelineNow(
    "orders",
    timedelta(seconds=30),
    totals={"lines": 100, "fact": 95, "quarantine": 2, "quarantine_open": 2, "duplicates": 1, "backlog_open": 2},
    last=NEWEST,
    audit={"success": True, "expectations": []},
)
STUCK = Diagnosis("orders", "stuck", "2 files lie unread for 5 minutes", "is the stack up?")


def words(*pipelines: PipelineNow) -> list[str]:
    return [one.word for one in verdict(pipelines)]


def test_a_pipeline_that_is_well_answers_yes_three_times_and_tells_what_waits() -> None:
    fresh, complete, correct = verdict([WELL])
    assert {one.word for one in (fresh, complete, correct)} == {"yes"}
    assert complete.note == "each of 100 events is in exactly one place; 2 wait in the backlog"
    assert correct.note == "the last audits passed; 2 refused lines wait for a decision"


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"stuck": STUCK}, ["no", "yes", "yes"]),
        ({"last": replace(NEWEST, fresh_p95_s=31.0)}, ["not quite", "yes", "yes"]),
        ({"control": {"overloaded": True}}, ["not quite", "yes", "yes"]),
        ({"totals": {**WELL.totals, "fact": 94}}, ["yes", "no", "yes"]),
        ({"open": OpenBatch(8, "run", "held", AT, ""), "stuck": STUCK}, ["yes", "yes", "no"]),
        ({"audit": {"success": False, "expectations": []}}, ["yes", "yes", "not quite"]),
    ],
)
def test_every_fault_is_the_answer_to_one_question(changed: dict[str, object], expected: list[str]) -> None:
    other = replace(WELL, name="trips")
    assert words(other, replace(WELL, **changed)) == expected  # type: ignore[arg-type]
    (answer,) = (one for one in verdict([other, replace(WELL, **changed)]) if one.word != "yes")  # type: ignore[arg-type]
    assert [name for name, _ in answer.problems] == ["orders"]
    assert answer.note == "in 1 of 2 pipelines"


def test_a_pipeline_that_never_ran_is_late_only_once_something_waits_for_it() -> None:
    new = PipelineNow("trips", timedelta(seconds=30))
    assert words(WELL, new) == ["yes", "yes", "yes"]
    assert words(new) == ["not yet", "not yet", "not yet"]
    assert words(WELL, replace(new, stuck=STUCK)) == ["no", "yes", "yes"]


def test_files_that_nobody_reads_are_named_on_the_page_with_what_to_do(desk: Desk) -> None:
    path = desk.site.land("late.jsonl", order(1))
    os.utime(path, (0.0, datetime.now(UTC).timestamp() - 3600))
    now, one = desk.admin.get("/").text, desk.admin.get("/p/orders").text
    path.unlink()
    assert re.findall(r'data-answer="(\w+)">([^<]+)<', now) == [
        ("fresh", "no"),
        ("complete", "yes"),
        ("correct", "yes"),
    ]
    for text in (now, one):
        assert "file lies unread for 1 hour" in text
    assert "<code>frontstage run orders</code>" in one
    assert "file lies unread" not in desk.admin.get("/").text
