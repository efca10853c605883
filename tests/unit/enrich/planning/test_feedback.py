"""Whom `auto` lets join: prices corrected by what rounds took, curiosity, patience and forgiveness."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pytest

from etl.enrich.batch import build, join_batch
from etl.enrich.planning.auto import AutoTactic
from etl.enrich.planning.cost import UnitCosts
from etl.enrich.planning.feedback import Feedback, SizeStats
from etl.enrich.spec import TacticName
from etl.masters.memory import MemoryMaster

Prices = Mapping[TacticName, float]
TACTICS: tuple[TacticName, ...] = ("inlj", "hybridjoin", "meshjoin")


def lived(true: Prices, calculated: Prices, rounds: int, known: Feedback | None = None) -> tuple[Feedback, list[str]]:
    """So many rounds of one kind of batch, where each tactic takes its true time."""
    known, chosen = known or Feedback(), []
    for _ in range(rounds):
        name = known.choose(known.priced(calculated), explore=True)
        known = known.after(name, calculated[name], true[name], TACTICS)
        chosen.append(name)
    return known, chosen


def test_a_price_becomes_what_the_first_round_took() -> None:
    known = SizeStats().after("inlj", 2.0, 3.0, TACTICS)
    assert known.priced({"inlj": 4.0, "meshjoin": 4.0})["inlj"] == pytest.approx(6.0)
    assert known.seen == {"inlj"}
    assert known.last == "inlj"


def test_it_finds_the_best_though_the_calculation_had_another_in_front() -> None:
    calculated: Prices = {"inlj": 1.2, "hybridjoin": 0.9, "meshjoin": 1.0}
    true: Prices = {"inlj": 1.4, "hybridjoin": 1.07, "meshjoin": 0.84}
    _, chosen = lived(true, calculated, 12, SizeStats())
    assert chosen[:3] == ["hybridjoin", "meshjoin", "inlj"]  # each once: a calculated price may be wrong either way
    assert set(chosen[3:]) == {"meshjoin"}


def test_what_cannot_be_the_best_is_not_tried() -> None:
    prices: Prices = {"inlj": 0.02, "hybridjoin": 0.6, "meshjoin": 0.4}
    _, chosen = lived(prices, prices, 40, SizeStats())
    assert set(chosen) == {"inlj"}


def test_without_a_clock_nobody_is_tried() -> None:
    assert SizeStats().choose({"inlj": 1.0, "meshjoin": 1.2}, explore=False) == "inlj"
    known = SizeStats(seen=frozenset({"inlj"}))
    assert known.choose({"inlj": 1.0, "meshjoin": 1.2}, explore=True) == "meshjoin"


def test_the_last_one_stays_unless_another_is_clearly_cheaper() -> None:
    known = SizeStats(seen=frozenset(TACTICS), last="meshjoin")
    assert known.choose({"hybridjoin": 1.0, "meshjoin": 1.04}, explore=True) == "meshjoin"
    assert known.choose({"hybridjoin": 1.0, "meshjoin": 1.2}, explore=True) == "hybridjoin"
    assert known.choose({"hybridjoin": 1.0, "inlj": 2.0}, explore=True) == "hybridjoin"  # the last one is not offered


def test_one_bad_round_is_forgiven_in_the_end() -> None:
    prices: Prices = {"inlj": 1.0, "hybridjoin": 1.3, "meshjoin": 5.0}
    known, _ = lived(prices, prices, 10, SizeStats())
    for _ in range(3):
        known = known.after("inlj", 1.0, 50.0, TACTICS)
    after, chosen = lived(prices, prices, 400, known)
    assert set(chosen[:50]) == {"hybridjoin"}
    assert chosen[-200:].count("inlj") > 190
    assert after.factors["inlj"] == pytest.approx(1.0, rel=0.05)


def test_the_dearer_a_tactic_the_rarer_it_is_tried_again() -> None:
    calculated: Prices = {"inlj": 1.0, "meshjoin": 0.5}
    _, near = lived({"inlj": 1.0, "meshjoin": 1.3}, calculated, 1_000, SizeStats())
    _, far = lived({"inlj": 1.0, "meshjoin": 30.0}, calculated, 1_000, SizeStats())
    assert far.count("meshjoin") <= 3
    assert far.count("meshjoin") < near.count("meshjoin") < 30


def test_what_small_rounds_taught_is_a_first_guess_for_large_ones_and_no_more() -> None:
    small = SizeStats().after("meshjoin", 1.0, 4.0, TACTICS)
    feedback = Feedback().with_stats(5_000, small)
    assert feedback.of(6_000) is small
    large = feedback.of(500_000)
    assert large.factors == small.factors
    assert not large.seen
    both = feedback.with_stats(500_000, large.after("meshjoin", 1.0, 2.0, TACTICS))
    assert both.of(5_000) is small
    assert both.of(400_000).factors["meshjoin"] == pytest.approx(4.0 + 0.3 * (2.0 - 4.0))


def master() -> MemoryMaster:
    return MemoryMaster(pa.table({"id": np.arange(2_000), "name": ["x" * 40] * 2_000}), "id", page_rows=50)


def counting(per_call: float) -> Callable[[], float]:
    now = [0.0]

    def clock() -> float:
        now[0] += per_call
        return now[0]

    return clock


def test_what_one_join_learned_serves_the_next() -> None:
    source = master()
    ways = {"lookup": source, "scan": source, "index": source}
    join = build("auto", **ways, budget_bytes=1 << 20, clock=counting(0.01), units=UnitCosts())
    assert isinstance(join.tactic, AutoTactic)
    join_batch(join, pa.array(np.arange(1_000)))
    learned = join.tactic.feedback
    later = build("auto", **ways, budget_bytes=1 << 20, feedback=learned)
    assert isinstance(later.tactic, AutoTactic)
    assert later.tactic.feedback is learned
    plain = build("cinlj", **ways, budget_bytes=1 << 20, feedback=learned)
    assert not isinstance(plain.tactic, AutoTactic)


def test_a_round_that_shed_says_nothing() -> None:
    source = master()
    join = build("auto", scan=source, budget_bytes=1 << 20, clock=counting(0.01), units=UnitCosts())
    assert isinstance(join.tactic, AutoTactic)
    join.offer(pa.array(np.arange(1_000)))
    join.step()
    join.give_up()
    assert not join.pending
    assert not join.tactic.feedback.by_size


def test_a_round_that_grows_while_it_runs_is_compared_with_all_it_did() -> None:
    source = master()
    join = build("auto", scan=source, budget_bytes=1 << 20, clock=counting(0.01), units=UnitCosts(scan_page_s=1.0))
    assert isinstance(join.tactic, AutoTactic)
    join.offer(pa.array(np.arange(1_900, 2_000)))  # on the last pages, so that the pass is not over at once
    join.step()
    join.offer(pa.array(np.arange(1_500)))
    steps = 1
    while join.pending:
        join.step()
        steps += 1
    assert join.tactic.feedback.of(100).factors["meshjoin"] == pytest.approx(steps * 0.01 / source.page_count())
