"""Rows are read in bites that fit the store's pace, so that nobody waits long for a front stage that learns."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from etl.masters.front_stage.lookups import BITE_S, PacedLookup


@dataclass
class Store:
    """A store that takes its time for every key, on a clock of its own."""

    key_s: float
    now: float = 0.0
    asked: list[int] = field(default_factory=list)

    def lookup(self, keys: pa.Array) -> pa.Table:
        self.asked.append(len(keys))
        self.now += self.key_s * len(keys)
        return pa.table({"id": keys})

    def clock(self) -> float:
        return self.now


def test_all_keys_are_looked_up_in_their_order_while_the_caller_may_go_on() -> None:
    store = Store(1e-5)
    rows, done = PacedLookup(store.clock).rows(store, pa.array(range(20_000)), lambda: True)
    assert done == 20_000
    assert rows.column("id").to_pylist() == list(range(20_000))


def test_no_bite_of_a_slow_store_takes_much_longer_than_the_one_after_which_it_may_be_broken_off() -> None:
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
    assert store.key_s * store.asked[-1] <= BITE_S


def test_somebody_who_may_not_go_on_still_gets_on_by_one_bite() -> None:
    store = Store(1.0)
    rows, done = PacedLookup(store.clock).rows(store, pa.array(range(100)), lambda: False)
    assert (rows.num_rows, done) == (64, 64)
