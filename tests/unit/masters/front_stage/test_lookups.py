"""Rows are read in chunks that fit the store's pace, so that nobody waits long for a front stage that learns."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from etl.masters.front_stage.lookups import CHUNK_S, PacedLookup


@dataclass
class Store:
    """A store that takes its time for every key, on a clock of its own."""

    key_s: float
    call_s: float = 0.0
    now: float = 0.0
    asked: list[int] = field(default_factory=list)

    def lookup(self, keys: pa.Array) -> pa.Table:
        self.asked.append(len(keys))
        self.now += self.call_s + self.key_s * len(keys)
        return pa.table({"id": keys})

    def clock(self) -> float:
        return self.now


def test_all_keys_are_looked_up_in_their_order_while_the_caller_may_go_on() -> None:
    store = Store(1e-5)
    rows, done = PacedLookup(store.clock).rows(store, pa.array(range(20_000)), lambda: True)
    assert done == 20_000
    assert rows.column("id").to_pylist() == list(range(20_000))


def test_no_chunk_of_a_slow_store_takes_much_longer_than_the_one_after_which_it_may_be_broken_off() -> None:
    store = Store(2e-3)
    paced = PacedLookup(store.clock)
    _, done = paced.rows(store, pa.array(range(20_000)), lambda: store.now < 1.0)
    assert 1.0 <= store.now <= 1.0 + 64 * store.key_s
    assert done == sum(store.asked)


def test_a_fast_store_is_asked_few_times_and_its_pace_is_remembered() -> None:
    store = Store(1e-6)
    paced = PacedLookup(store.clock)
    paced.rows(store, pa.array(range(40_000)), lambda: True)
    assert store.asked == [64, 39_936]
    paced.rows(store, pa.array(range(40_000)), lambda: True)
    assert store.asked[2:] == [40_000]
    assert store.key_s * store.asked[-1] <= CHUNK_S


def test_somebody_who_may_not_go_on_still_gets_on_by_one_chunk() -> None:
    store = Store(1.0)
    rows, done = PacedLookup(store.clock).rows(store, pa.array(range(100)), lambda: False)
    assert (rows.num_rows, done) == (64, 64)


def test_a_store_that_reads_everything_for_every_call_is_asked_for_many_keys_at_once() -> None:
    store = Store(1e-6, call_s=0.3)
    paced = PacedLookup(store.clock)
    _, done = paced.rows(store, pa.array(range(20_000)), lambda: True)
    assert done == 20_000
    assert len(store.asked) < 12
    paced.rows(store, pa.array(range(10_000)), lambda: True)
    assert store.asked[-1] == 10_000, "what has been found out is remembered"


def test_a_store_that_takes_its_time_for_every_key_is_asked_for_few_at_a_time_again() -> None:
    store = Store(2e-3)
    PacedLookup(store.clock).rows(store, pa.array(range(2_000)), lambda: True)
    assert store.asked[:2] == [64, 128], "twice as many are tried once"
    assert set(store.asked[2:-1]) == {64}


def test_a_store_that_gets_slow_is_found_out_though_it_is_never_asked_for_a_whole_chunk() -> None:
    store = Store(1e-5, call_s=0.06)
    paced = PacedLookup(store.clock)
    paced.rows(store, pa.array(range(100_000)), lambda: True)
    assert paced.least > 4_000
    store.key_s, store.call_s = 10e-3, 0.0
    took = []
    for _ in range(3):
        began = store.now
        paced.rows(store, pa.array(range(4_000)), lambda: False)
        took.append(store.now - began)
    assert max(took[1:]) < 129 * store.key_s, "after the first one, which nobody could foresee"


def test_a_store_that_gets_slow_is_asked_for_few_keys_and_found_out_anew() -> None:
    store = Store(1e-6, call_s=0.3)
    paced = PacedLookup(store.clock)
    paced.rows(store, pa.array(range(100_000)), lambda: True)
    store.key_s, store.call_s, store.asked = 2e-3, 0.0, []
    paced.rows(store, pa.array(range(200_000)), lambda: len(store.asked) < 10)
    assert store.asked[1:3] == [64, 128]
    assert set(store.asked[3:]) == {64}
