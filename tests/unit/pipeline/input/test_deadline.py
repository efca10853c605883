"""How much a batch may take in and read: from measured costs, before it begins."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etl.adapters.landing import Limits
from etl.adapters.ledger import BacklogFile
from etl.contract.model import Format
from etl.enrich.step import BatchBudget
from etl.pipeline.input.deadline import Control, Costs, Past, ReadCosts, control, first_control, observed, oldest

DEADLINE = timedelta(seconds=10)  # 8 s are planned for
LOOKUPS = Costs(1.0, 1e-5, 100.0, {"customer": ReadCosts(None, 1e-3, 5e-4)})


def join(seconds: float, tuples: int, *, pages: int = 0, lookups: int = 0, shed: int = 0) -> dict[str, Any]:
    return {"seconds": seconds, "tasks": 2, "tuples": tuples, "shed": shed, "pages": pages, "lookups": lookups}


def test_without_a_past_nothing_is_bounded() -> None:
    assert observed([]) is None
    assert control(None, 10**12, 0, DEADLINE, "consider", 2) == Control("consider")


def test_batches_that_read_no_file_say_nothing() -> None:
    assert observed([Past(1.0, 5_000, 0, {})]) is None


def test_unit_costs_are_those_of_the_newest_batches() -> None:
    small = Past(2.0, 1_000, 100_000, {"customer": join(0.2, 1_000, lookups=300)})
    large = Past(13.9, 101_000, 10_100_000, {"customer": join(4.0, 101_000, lookups=4_000)})
    costs = observed([small, large, large])
    assert costs is not None
    assert costs.fixed_s == pytest.approx(1.9 - 1_000 * 1e-4)
    assert costs.event_s == pytest.approx((11.9 - 1.8) / 101_000)
    assert costs.event_bytes == pytest.approx(100)
    assert costs.reads["customer"].lookup_s == pytest.approx(0.001, rel=0.2)
    assert observed([small, large]) != costs, "one large batch may have been the first of a driver"
    assert costs.reads["customer"].event_s == pytest.approx(4.0 / 101_000)
    assert costs.reads["customer"].page_s is None


def test_small_batches_do_not_make_events_look_dear() -> None:
    costs = observed([Past(1.5, 1, 120, {"customer": join(0.02, 1, lookups=1)})] * 8)
    assert costs is not None
    assert (costs.fixed_s, costs.event_s) == (pytest.approx(1.4899), 1e-4)
    assert costs.served(24.0, 2) > 200_000


def test_a_join_that_read_next_to_nothing_says_nothing_of_reading() -> None:
    costs = observed([Past(1.0, 50_000, 5_000_000, {"customer": join(0.5, 50_000, lookups=3)})])
    assert costs is not None
    assert costs.reads["customer"].budget(1.0) == BatchBudget()


def test_what_one_batch_can_serve_is_taken_in_whole_with_room_for_what_was_shed() -> None:
    found = control(LOOKUPS, 100 * 1_000, 500, DEADLINE, "consider", 2)
    assert not found.overloaded
    assert found.capacity == int(7.0 / (1e-5 + 2.5e-4))
    assert found.take_bytes == found.capacity * 100
    assert found.reload == 2 * found.capacity - 1_000
    assert found.budgets["customer"].lookups == pytest.approx((7.0 - 0.015) / 1e-3, abs=1)


def test_between_w_and_2w_the_rest_stays_landed_and_nothing_comes_back() -> None:
    w = LOOKUPS.served(8.0, 2)
    found = control(LOOKUPS, int(1.5 * w) * 100, 10_000, DEADLINE, "consider", 2)
    assert (found.overloaded, found.take_bytes, found.reload) == (False, w * 100, 0)


def test_beyond_2w_as_many_are_taken_in_as_can_be_looked_at() -> None:
    w = LOOKUPS.served(8.0, 2)
    found = control(LOOKUPS, 20 * w * 100, 0, DEADLINE, "consider", 2)
    assert found.overloaded
    assert found.take_bytes == LOOKUPS.looked_at(8.0) * 100
    assert found.take_bytes > 5 * w * 100, "to consider an event takes less than to serve it"
    assert found.first is None


def test_batches_that_may_read_little_do_not_forget_what_reading_costs() -> None:
    """Under overload a batch may read less than would tell a cost; who forgets it plans a batch that is late."""
    known = ReadCosts(None, 1e-3, 5e-4)
    short = Past(1.0, 20_000, 2_000_000, {"customer": join(0.3, 20_000, lookups=80, shed=4_000)}, {"customer": known})
    costs = observed([short] * 8)
    assert costs is not None
    assert costs.reads["customer"] == known


def test_events_of_batches_below_the_telling_size_do_not_count_as_fixed_costs() -> None:
    costs = observed([Past(1.49, 4_900, 490_000, {})] * 8)
    assert costs is not None
    assert costs.fixed_s == pytest.approx(1.0)
    assert costs.fixed_s + 4_900 * costs.event_s == pytest.approx(1.49)


def test_where_a_batch_of_nothing_takes_too_long_events_still_come_in() -> None:
    costs = observed([Past(60.0, 5, 600, {})])
    assert costs is not None
    assert control(costs, 600_000, 0, DEADLINE, "consider", 2).take_bytes >= 600_000


def test_what_comes_back_without_a_bound_on_reading_fits_into_a_batch() -> None:
    found = control(LOOKUPS, 0, 10**6, DEADLINE, "keep", 2)
    assert (found.reload, found.first) == (found.capacity, found.capacity)


def test_keep_serves_the_first_and_reads_as_much_as_they_need() -> None:
    w = LOOKUPS.served(8.0, 2)
    found = control(LOOKUPS, 20 * w * 100, 0, DEADLINE, "keep", 2)
    assert (found.first, found.take_bytes, found.budgets) == (w, 2 * w * 100, {})


def test_none_takes_as_long_as_it_takes() -> None:
    assert control(LOOKUPS, 10**12, 5, DEADLINE, "none", 2) == Control("none")


@given(landed=st.integers(0, 10**9), shed=st.integers(0, 10**6), tasks=st.integers(1, 16))
def test_what_is_planned_fits_into_the_deadline(landed: int, shed: int, tasks: int) -> None:
    found = control(LOOKUPS, landed * 100, shed, DEADLINE, "consider", tasks)
    events = min(landed, (found.take_bytes or 0) // 100) + min(shed, found.reload or 0)
    lookups = found.budgets["customer"].lookups or 0
    assert 1.0 + events * 1e-5 + lookups * 1e-3 <= 8.0 + 2e-3


def test_a_control_is_the_same_after_it_was_written_down() -> None:
    found = control(LOOKUPS, 10**9, 3, DEADLINE, "consider", 2)
    assert Control.from_json(found.as_json()) == found


@pytest.mark.parametrize(("capacity", "rows"), [(None, 20_000), (10**6, 20_000), (2_600, 2_600), (1, 256)])
def test_files_of_the_backlog_hold_what_one_batch_serves(capacity: int | None, rows: int) -> None:
    assert Control(capacity=capacity).waiting_rows == rows


def waiting(*counts: int) -> list[BacklogFile]:
    since = datetime(2026, 11, 1, tzinfo=UTC)
    return [BacklogFile(f"file-{at}", at, count, "time", since) for at, count in enumerate(counts)]


@pytest.mark.parametrize(("most", "taken"), [(None, 3), (0, 0), (1, 1), (30, 2), (29, 1), (10**6, 3)])
def test_the_oldest_files_come_back_until_there_is_no_room(most: int | None, taken: int) -> None:
    files = waiting(10, 20, 30)
    assert list(oldest(files, most)) == files[:taken]


def first(seconds: int, format: Format = "jsonl") -> int:
    found = first_control(10 * 2**30, 0, timedelta(seconds=seconds), "consider", format)
    assert found.take_bytes is not None
    return found.take_bytes


@pytest.mark.parametrize(("format", "event_bytes"), [("jsonl", 200), ("csv", 100), ("parquet", 30)])
def test_a_first_batch_cuts_nothing_that_fits_into_the_usual_deadline(format: Format, event_bytes: int) -> None:
    assert first(30, format) >= min(Limits().batch_bytes, 1_000_000 * event_bytes)


def test_a_first_batch_takes_less_for_a_short_deadline_and_always_something() -> None:
    assert 0 < first(1) < first(5) < first(30) < first(60)


def test_a_first_batch_sheds_nothing_and_bounds_no_reading() -> None:
    found = first_control(10 * 2**30, 7, timedelta(seconds=30), "keep", "jsonl")
    assert (found.overloaded, found.reload, found.first, found.budgets) == (False, None, None, {})
    assert found.waiting == 10 * 2**30 // 200 + 7


def test_none_takes_all_of_a_first_batch() -> None:
    assert first_control(10**12, 5, timedelta(seconds=30), "none", "jsonl") == Control("none")
