"""The chained index: what is skipped, what is not checked, what expires, what a snapshot holds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from etl.correlate.errors import StateDamaged, WindowRefused
from etl.correlate.index.chain import ChainConfig, ChainedIndex, Effort
from etl.correlate.index.runs import Layout, Run
from etl.correlate.model import (
    FIRST,
    LAST,
    Tuples,
    Window,
    order_preserving,
    places,
    references,
    rows_of,
    segments_of,
    shifted,
)
from etl.correlate.watermark import Watermark, joined_watermark

LAYOUTS: tuple[Layout, ...] = ("hash", "sorted", "block")


def tuples(times: list[int], segment: int = 1) -> Tuples:
    numbers = np.arange(len(times))
    return Tuples(
        references(segment, numbers), np.array(times, np.int64), places(0, len(times)), (numbers % 3).astype(np.uint64),
        value=numbers % 3, low=numbers % 3, high=numbers % 3,
    )  # fmt: skip


def insert(chain: ChainedIndex, batch: Tuples) -> None:
    assert list(chain.insert(batch, None, Effort())) == []


def test_a_sub_index_holds_one_period_whenever_its_tuples_come() -> None:
    chain = ChainedIndex(ChainConfig("left", Window.within(100), "hash"))
    for batch in ([0, 5, 12], [25, 3], [11, 14, 31]):
        insert(chain, tuples(batch))
    assert {period: sum(len(run) for run in runs) for period, runs in chain.snapshot().items()} == {
        0: 3,
        1: 3,
        2: 1,
        3: 1,
    }
    assert all(run.latest - run.earliest < 10 for run in chain.runs())


def test_whole_sub_indexes_expire_when_no_later_probe_can_meet_them() -> None:
    chain = ChainedIndex(ChainConfig("left", Window(0, 30), "hash", period_us=10))
    insert(chain, tuples([1, 9, 11, 19, 25]))
    assert chain.expire(np.int64(39)) == 0, "a probe at 39 still meets 9"
    assert chain.expire(np.int64(40)) == 2
    assert chain.expire(np.int64(49)) == 0
    assert chain.expire(np.int64(10_000)) == 3
    assert len(chain) == 0


def test_the_other_side_of_an_interval_expires_at_once() -> None:
    chain = ChainedIndex(ChainConfig("right", Window(0, 30), "hash", period_us=10))
    insert(chain, tuples([1, 9]))
    assert chain.expire(np.int64(9)) == 0
    assert chain.expire(np.int64(10)) == 2, "a left tuple at 10 or later meets only what comes after it"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sub_indexes_outside_are_skipped_and_those_inside_are_not_checked(layout: Layout) -> None:
    chain = ChainedIndex(ChainConfig("left", Window(0, 25), layout, period_us=10))
    insert(chain, tuples([5, 6, 7]))
    insert(chain, tuples([15, 16, 17]))
    insert(chain, tuples([25, 26, 27]))
    effort = Effort()
    probes = chain.probes(tuples([32, 32, 32]))  # reaches back to 7
    found = sum(len(block.probes) for block in chain.probe(probes, effort))
    assert found == (7 if layout != "block" else 21)
    assert (effort.probes, effort.unchecked, effort.skipped) == (9, 6, 0)
    again = Effort()
    list(chain.probe(chain.probes(tuples([41, 41, 41])), again))
    assert (again.probes, again.skipped) == (6, 3)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_few_runs_are_kept_however_many_batches_come(layout: Layout) -> None:
    chain = ChainedIndex(ChainConfig("left", Window.full_history(), layout))
    for number in range(100):
        insert(chain, tuples([number], number))
    assert len(list(chain.runs())) <= 8
    assert sorted(int(segments_of(ref)) for run in chain.runs() for ref in run.refs[:, 0]) == list(range(100))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_snapshot_restores_the_same_answers(layout: Layout) -> None:
    chain = ChainedIndex(ChainConfig("left", Window.within(100), layout))
    for number in range(5):
        insert(chain, tuples(list(range(number * 10, number * 10 + 7)), number))
    stored = {
        period: tuple(Run.from_batches("r", *run.to_batches()) for run in runs)
        for period, runs in chain.snapshot().items()
    }
    restored = ChainedIndex.restore(chain.config, stored)
    assert (len(restored), restored.nbytes) == (len(chain), chain.nbytes)
    probes = tuples([20, 30, 40])
    answers = [
        sorted((int(rows_of(ref)), int(probe)) for block in one.probe(one.probes(probes), Effort())
               for ref, probe in zip(block.refs[:, 0], block.places, strict=True))
        for one in (chain, restored)
    ]  # fmt: skip
    assert answers[0] == answers[1] != []


def test_a_damaged_run_is_an_error() -> None:
    run, _ = Run.build("hash", tuples([1, 2, 3]))
    rows, directory = run.to_batches()
    with pytest.raises(StateDamaged, match="state run 4-1 is damaged"):
        Run.from_batches("4-1", rows.slice(0, 2), directory)
    with pytest.raises(StateDamaged, match="missing"):
        Run.from_batches("4-1", rows.replace_schema_metadata({}), directory)


def test_candidates_come_in_blocks() -> None:
    chain = ChainedIndex(ChainConfig("left", Window.full_history(), "block"))
    insert(chain, tuples(list(range(50))))
    blocks = list(chain.probe(chain.probes(tuples(list(range(20)))), Effort(), block=120))
    assert [len(block.probes) for block in blocks] == [150] * 6 + [100]


def test_windows_are_checked() -> None:
    with pytest.raises(WindowRefused, match="within is 0 microseconds"):
        Window.within(0)
    with pytest.raises(WindowRefused, match="from 5 to 4"):
        Window(5, 4)
    with pytest.raises(WindowRefused, match="lateness is -1"):
        Watermark(-1)


def test_shifts_stay_within_64_bits() -> None:
    ends = np.array([FIRST, 0, LAST])
    assert shifted(ends, 5, LAST).tolist() == [FIRST + 5, 5, LAST]
    assert shifted(ends, -5, LAST).tolist() == [FIRST, -5, LAST - 5]
    assert shifted(ends, None, LAST).tolist() == [LAST] * 3


def test_floats_keep_their_order_as_integers() -> None:
    floats = np.array([-np.inf, -1e300, -1.0, -1e-300, -0.0, 0.0, 1e-300, 2.5, np.inf])
    mapped = order_preserving(floats)
    assert np.all(np.diff(mapped) >= 0)
    assert mapped[4] == mapped[5]
    assert len(np.unique(mapped)) == 8


def test_a_watermark_only_moves_on_and_splits_what_is_late() -> None:
    mark = Watermark(10)
    on_time, late = mark.split(tuples([1, 2]))
    assert (len(on_time), len(late)) == (2, 0)
    mark = mark.advanced(np.array([100, 50])).advanced(np.array([20]))
    assert mark.value == 90
    on_time, late = mark.split(tuples([89, 90, 120]))
    assert (on_time.times.tolist(), late.times.tolist()) == ([90, 120], [89])


def test_a_joined_watermark_reaches_back_a_window() -> None:
    assert joined_watermark(Window(-30, 30), np.int64(100), np.int64(90)) == 60
    assert joined_watermark(Window(0, 30), np.int64(100), np.int64(200)) == 100
    assert joined_watermark(Window.full_history(), np.int64(100), np.int64(200)) == FIRST


def test_tuples_cross_a_shuffle_as_arrow() -> None:
    batch = tuples([3, 1, 2])
    again = Tuples.from_batch(batch.to_batch())
    assert isinstance(batch.to_batch(), pa.RecordBatch)
    assert all(np.array_equal(getattr(batch, name), getattr(again, name)) for name in ("refs", "times", "lo", "low"))
