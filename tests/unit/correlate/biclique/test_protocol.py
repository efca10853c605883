"""Figure 4: pairs that are missed or made twice without the protocol, and every pair once with it."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from etl.correlate.biclique.protocol import Arrival, simulate
from etl.correlate.model import Side

UNITS: dict[Side, int] = {"left": 1, "right": 1}
TWO = [Arrival(0, "left", 7, 0), Arrival(1, "right", 7, 0)]  # r then s, through two dispatchers
# Messages in the order they are sent: r stored at R, r joins S, s stored at S, s joins R, then the signals.
MISSED = [9, 0, 9, 0]  # both join messages come before what they should meet is stored
DOUBLED = [0, 9, 0, 9]  # both come after


def test_without_the_protocol_a_pair_is_missed() -> None:
    assert simulate(TWO, MISSED, dispatchers=2, units=UNITS, ordered=False) == []


def test_without_the_protocol_a_pair_is_made_twice() -> None:
    assert simulate(TWO, DOUBLED, dispatchers=2, units=UNITS, ordered=False) == [(0, 1), (0, 1)]


def test_with_the_protocol_the_same_delays_make_the_pair_once() -> None:
    for delays in (MISSED, DOUBLED):
        assert simulate(TWO, delays, dispatchers=2, units=UNITS, ordered=True) == [(0, 1)]


def test_consistent_orders_need_no_protocol() -> None:
    assert simulate(TWO, [0], dispatchers=2, units=UNITS, ordered=False) == [(0, 1)]


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Arrival], dict[Side, int], int]:
    dispatchers = draw(st.integers(1, 3))
    units: dict[Side, int] = {"left": draw(st.integers(1, 3)), "right": draw(st.integers(1, 3))}
    arrivals = []
    for _ in range(draw(st.integers(0, 14))):
        side: Side = draw(st.sampled_from(["left", "right"]))
        unit = draw(st.integers(0, units[side] - 1))
        arrivals.append(Arrival(draw(st.integers(0, dispatchers - 1)), side, draw(st.integers(0, 2)), unit))
    return arrivals, units, dispatchers


@given(history=histories(), delays=st.lists(st.integers(0, 40), max_size=30), every=st.integers(1, 6))
@settings(max_examples=150, deadline=None)
def test_with_the_protocol_every_pair_is_made_once_whatever_the_delays(
    history: tuple[list[Arrival], dict[Side, int], int], delays: list[int], every: int
) -> None:
    arrivals, units, dispatchers = history
    made = simulate(arrivals, delays, dispatchers=dispatchers, units=units, ordered=True, signal_every=every)
    truth = Counter(
        (a, b)
        for a, left in enumerate(arrivals)
        for b, right in enumerate(arrivals)
        if (left.side, right.side) == ("left", "right") and left.key == right.key
    )
    assert Counter(made) == truth
