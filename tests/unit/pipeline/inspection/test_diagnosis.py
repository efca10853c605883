"""Why a pipeline does not move, in words: every way to be stuck has its sentence and its remedy."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from etl.adapters.ledger import BacklogFile, BatchRecord
from etl.contract.load import load
from etl.pipeline.inspection.diagnosis import Facts, diagnose
from etl.settings import PROJECT

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
FACTS = Facts(load(PROJECT / "warehouse" / "pipelines" / "orders.toml", PROJECT), NOW)
HOURS = timedelta(hours=3)


def batch(state: Any, age: timedelta, audit: dict[str, Any] | None = None) -> BatchRecord:
    return BatchRecord("orders", 12, "run", state, NOW - age, None, None, None, {}, {}, {}, audit, None)


HELD = batch("held", HOURS, {"expectations": [{"name": "expect_x", "success": False}]})
WAITING = BacklogFile("f", 3, 1500, "master", NOW - timedelta(days=2))


@pytest.mark.parametrize(
    ("changes", "state", "what", "remedy"),
    [
        ({}, "well", "nothing waits to be read or loaded", ""),
        ({"is_written": True}, "well", "a batch is under way", ""),
        ({"has_run": False}, "well", "has not run yet", ""),
        ({"unloaded": HELD}, "stuck", "batch 12 is held: expect_x; all later batches wait", "--release 12"),
        ({"unloaded": batch("decided", HOURS)}, "stuck", "batch 12 is decided for 3 hours", "frontstage run orders"),
        ({"unloaded": batch("decided", timedelta(seconds=9))}, "well", "nothing waits", ""),
        ({"unloaded": batch("reading", HOURS), "is_written": True}, "well", "under way", ""),
        ({"unread_files": 1, "unread_since": NOW - HOURS}, "stuck", "1 file lies unread for 3 hours", "unpaused?"),
        ({"unread_files": 2, "unread_since": NOW}, "well", "nothing waits", ""),
        ({"backlog": (WAITING,)}, "warning", "1,500 events wait for a row of a master, the oldest since 2 days",
         "frontstage master refresh"),
        ({"backlog": (replace(WAITING, cause="time"),)}, "warning", "were deferred for want of time", "deadline"),
        ({"backlog": (replace(WAITING, since=NOW),)}, "well", "the oldest since 0 seconds", "explain-event"),
    ],
)  # fmt: skip
def test_every_way_to_be_stuck_has_its_sentence(changes: dict[str, Any], state: str, what: str, remedy: str) -> None:
    (found,) = diagnose(replace(FACTS, **changes))
    assert found.state == state
    assert what in found.what
    assert remedy in found.remedy


def test_the_gravest_comes_first_and_input_behind_a_held_batch_is_no_second_complaint() -> None:
    found = diagnose(replace(FACTS, unloaded=HELD, backlog=(WAITING,), unread_files=3, unread_since=NOW - HOURS))
    assert [one.state for one in found] == ["stuck", "warning"]
