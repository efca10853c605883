"""Calculated cost against measured cost, in units that are the same on every machine; and what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import numpy as np
import pyarrow as pa
import pytest

from etl.enrich.batch import build, join_batch
from etl.enrich.errors import BudgetTooSmall
from etl.enrich.front_stage.stage import FrontStage, FrontStageConfig
from etl.enrich.join import SemiStreamJoin
from etl.enrich.planning.auto import AutoTactic, prices
from etl.enrich.planning.cost import (
    MasterProfile,
    PerTuple,
    UnitCosts,
    hit_ratio,
    hybrid_cost,
    inlj_cost,
    mesh_cost,
    pages_touched,
    passing,
)
from etl.enrich.planning.feedback import Feedback
from etl.enrich.planning.sizing import Sizes, pending_for, size_hybrid, size_inlj, size_mesh
from etl.enrich.step import Cost, Metrics
from etl.enrich.tactics.hybrid import HybridConfig, HybridJoin
from etl.enrich.tactics.inlj import IndexNestedLoop, InljConfig
from etl.enrich.tactics.mesh import MeshConfig, MeshJoin
from etl.masters.memory import MemoryMaster

ROWS, PAGE_ROWS, CAPACITY, PAGES_PER_STEP = 4_000, 40, 800, 5
PROFILE = MasterProfile(page_count=ROWS // PAGE_ROWS, page_rows=PAGE_ROWS, row_bytes=60)


def zipf(exponent: float, seed: int = 7) -> np.ndarray:
    """Probability of each key: bounded Zipf, ranks scattered over the keys."""
    weight = 1.0 / np.arange(1, ROWS + 1) ** exponent
    probability = np.empty(ROWS)
    probability[np.random.default_rng(seed).permutation(ROWS)] = weight / weight.sum()
    return probability


def master() -> MemoryMaster:
    return MemoryMaster(pa.table({"id": np.arange(ROWS), "name": ["x" * 40] * ROWS}), "id", page_rows=PAGE_ROWS)


def clairvoyant(source: MemoryMaster, probability: np.ndarray) -> FrontStage:
    front = FrontStage(FrontStageConfig(40_000, policy="static"))
    front.learn(source.read_pages(0, source.page_count()), np.round(probability * 1e9).astype(np.int64))
    return front


def measured(join: SemiStreamJoin, probability: np.ndarray, tuples: int) -> PerTuple:
    """Work per tuple once the queue is full, with a stream buffer that never runs dry."""
    rng = np.random.default_rng(11)
    total, warm = Metrics(), 4 * CAPACITY
    while total.matched < tuples:
        if join.pending - join.tactic.pending < 5 * CAPACITY:
            join.offer(pa.array(rng.choice(ROWS, 20_000, p=probability)))
        step = join.step().metrics
        warm -= step.matched
        if warm < 0:
            total += step
    return PerTuple.measured(total.cost, total.matched)


def calculated(name: str, probability: np.ndarray, front: FrontStage | None) -> PerTuple:
    held = 0 if front is None else len(front)
    hits, q = hit_ratio(probability, held), passing(probability, held)
    cached = front is not None
    if name == "meshjoin":
        return mesh_cost(PROFILE, CAPACITY, hits=hits, front=cached)
    if name == "hybridjoin":
        pages = np.bincount(np.arange(ROWS) // PAGE_ROWS, q)
        return hybrid_cost(pages, np.zeros(0), PROFILE, CAPACITY, hits=hits, front=cached)
    return inlj_cost(q, CAPACITY, found=1.0, hits=hits, front=cached)


def tactic(name: str, source: MemoryMaster):  # type: ignore[no-untyped-def]
    if name == "meshjoin":
        return MeshJoin(source, MeshConfig.staggered(CAPACITY, source.page_count(), PAGES_PER_STEP))
    if name == "hybridjoin":
        return HybridJoin(source, HybridConfig(CAPACITY))
    return IndexNestedLoop(source, InljConfig(CAPACITY))


@pytest.mark.parametrize("exponent", [0.0, 1.0])
@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("name", ["meshjoin", "hybridjoin", "inlj"])
def test_calculated_cost_is_within_ten_percent_of_measured(name: str, cached: bool, exponent: float) -> None:
    source, probability = master(), zipf(exponent)
    front = clairvoyant(source, probability) if cached else None
    got = measured(SemiStreamJoin(front, tactic(name, source)), probability, 8_000)
    want = calculated(name, probability, front)
    for unit in ("lookups", "rows") if name == "inlj" else ("pages", "rows", "moved"):
        assert getattr(want, unit) == pytest.approx(getattr(got, unit), rel=0.10), unit
    assert want.front_probes == pytest.approx(got.front_probes, rel=0.15)  # a few tuples are probed twice


def test_absent_keys_cost_lookups_but_no_pages() -> None:
    source = master()
    probability = np.full(ROWS, 1.0 / ROWS)
    rng = np.random.default_rng(5)
    join = SemiStreamJoin(None, HybridJoin(source, HybridConfig(CAPACITY)))
    total, warm = Metrics(), 4 * CAPACITY
    while total.matched + total.unmatched < 8_000:
        if join.pending - join.tactic.pending < 5 * CAPACITY:
            keys = rng.choice(ROWS, 20_000, p=probability)
            join.offer(pa.array(np.where(rng.random(20_000) < 0.25, keys + ROWS, keys)))
        step = join.step().metrics
        warm -= step.matched + step.unmatched
        if warm < 0:
            total += step
    got = PerTuple.measured(total.cost, total.matched + total.unmatched)
    pages = np.full(PROFILE.page_count, 0.75 / PROFILE.page_count)
    want = hybrid_cost(pages, probability * 0.25, PROFILE, CAPACITY, hits=0.0, front=False)
    assert want.pages == pytest.approx(got.pages, rel=0.10)
    assert want.lookups == pytest.approx(got.lookups, rel=0.10)


def test_the_front_stage_helps_more_the_more_skew_there_is() -> None:
    gains = []
    for exponent in (0.0, 0.5, 1.0):
        source, probability = master(), zipf(exponent)
        front = clairvoyant(source, probability)
        plain, cached = (calculated("meshjoin", probability, stage) for stage in (None, front))
        gains.append(plain.pages / cached.pages)
    assert gains == sorted(gains)
    assert gains[0] < 1.2
    assert gains[2] > 2.0


@pytest.mark.parametrize("budget", [64 * 1024, 1 << 20, 64 << 20])
def test_sizes_fill_the_budget_and_never_exceed_it(budget: int) -> None:
    for make in (size_mesh, size_hybrid):
        sizes = make(budget, PROFILE, front=True)
        pages = (sizes.pages_per_step if make is size_mesh else sizes.lookups) * PROFILE.page_bytes
        held = tactic_bytes(sizes.capacity)
        assert sizes.front_bytes + pages + held <= budget
        assert sizes.front_bytes + pages + held > 0.85 * budget
    inlj = size_inlj(budget, PROFILE, front=True, most_tuples=65_536)
    assert inlj.front_bytes + inlj.lookup_tuples * PROFILE.row_bytes <= budget


def tactic_bytes(capacity: int) -> int:
    from etl.enrich.tactics.pending import PendingTuples

    pending = PendingTuples(capacity)
    join = HybridJoin(master(), HybridConfig(capacity))
    assert join.nbytes == pending.nbytes
    return join.nbytes + 24 * capacity  # the index comes with the first tuples


def test_the_disk_buffer_of_meshjoin_has_its_best_size_in_the_middle() -> None:
    profile = MasterProfile(page_count=10_000, page_rows=40, row_bytes=120)
    budget = 1 << 20
    best = size_mesh(budget, profile, front=False)
    assert 1 < best.pages_per_step < budget // profile.page_bytes

    def pages_and_steps_per_tuple(sizes: Sizes) -> float:
        """A pass in pages and half-pages for steps, shared by all tuples that wait."""
        passes = 1.0 / sizes.capacity
        return passes * (profile.page_count + 0.5 * profile.page_count / sizes.pages_per_step)

    for pages in (1, best.pages_per_step // 2, 2 * best.pages_per_step, 4 * best.pages_per_step):
        other = size_mesh(budget, profile, front=False, pages=pages)
        assert pages_and_steps_per_tuple(other) > pages_and_steps_per_tuple(best)


def test_a_budget_that_holds_nothing_is_refused_with_what_would_do() -> None:
    for make in (size_mesh, size_hybrid):
        with pytest.raises(BudgetTooSmall) as caught:
            make(4_000, PROFILE, front=True)
        make(caught.value.needed_bytes, PROFILE, front=True)
    with pytest.raises(BudgetTooSmall) as caught:
        size_inlj(10_000, PROFILE, front=True, most_tuples=1_000)
    size_inlj(caught.value.needed_bytes, PROFILE, front=True, most_tuples=1_000)
    assert pending_for(0, PROFILE) == 0


def test_pages_touched_grows_from_one_page_per_key_to_all_pages() -> None:
    assert pages_touched(1, 1_000) == pytest.approx(1.0)
    assert pages_touched(100, 1_000_000) == pytest.approx(100, rel=0.001)
    assert pages_touched(1_000_000, 1_000) == pytest.approx(1_000)
    assert pages_touched(5, 1) == 1.0


def test_unit_costs_price_counted_work() -> None:
    units = UnitCosts(call_s=1.0, key_s=0.1, scan_page_s=2.0, seek_page_s=5.0, front_probe_s=0.01)
    assert units.seconds(Cost(seeks=1, lookups=10)) == pytest.approx(2.0)
    assert units.seconds(Cost(pages=4, seeks=1)) == pytest.approx(11.0)
    assert units.seconds(Cost(front_probes=100)) == pytest.approx(1.0)


def slowing(seconds: float) -> Callable[[], float]:
    """A clock that moves on by more at every look."""
    looks: Iterator[int] = count()
    return lambda: next(looks) ** 2 * seconds


def test_auto_looks_up_few_keys_and_scans_for_many() -> None:
    units = UnitCosts(call_s=1e-3, key_s=1e-5, scan_page_s=3e-4, seek_page_s=3e-3)  # like a database
    source = master()
    join = build("auto", lookup=source, scan=source, index=source, budget_bytes=1 << 20, units=units)
    assert isinstance(join.tactic, AutoTactic)
    join_batch(join, pa.array([1, 2, 3]))
    assert join.tactic.choice is not None
    assert join.tactic.choice.name == "inlj"
    slow = build(
        "auto", lookup=source, scan=source, index=source, budget_bytes=1 << 20,
        units=UnitCosts(call_s=1e-3, key_s=1e-3, scan_page_s=3e-4, seek_page_s=3e-3),
    )  # fmt: skip
    join_batch(slow, pa.array(np.arange(ROWS)))
    assert isinstance(slow.tactic, AutoTactic)
    assert slow.tactic.choice is not None
    assert slow.tactic.choice.name == "meshjoin"


def test_auto_explains_its_choice_with_the_price_of_the_others() -> None:
    source = master()
    join = build("auto", lookup=source, scan=source, index=source, budget_bytes=1 << 20, units=UnitCosts())
    join_batch(join, pa.array([1, 1, 2]))
    assert isinstance(join.tactic, AutoTactic)
    assert join.tactic.choice is not None
    text = join.tactic.choice.explain()
    assert text.startswith("3 tuples with 2 distinct keys to join: look the keys up (inlj)")
    assert all(name in text for name in ("hybridjoin", "meshjoin"))


def test_auto_measures_unit_costs_with_the_clock_it_is_given() -> None:
    source = master()
    ways = {"lookup": source, "scan": source, "index": source}
    join = build("auto", **ways, budget_bytes=1 << 20, clock=slowing(0.5))
    assert isinstance(join.tactic, AutoTactic)
    before = join.tactic.feedback
    assert before.units != UnitCosts()
    assert not before.by_size
    join_batch(join, pa.array(np.arange(1_000)))
    assert len(join.tactic.feedback.of(1_000).seen) == 1
    join_batch(join, pa.array(np.arange(10)))  # too few to say anything
    assert len(join.tactic.feedback.by_size) == 1
    without = build("auto", **ways, budget_bytes=1 << 20)
    assert isinstance(without.tactic, AutoTactic)
    assert without.tactic.feedback == Feedback()


def test_auto_uses_what_the_master_offers() -> None:
    source = master()
    only_scan = build("auto", scan=source, budget_bytes=1 << 20)
    assert join_batch(only_scan, pa.array([5, ROWS + 1])).position.tolist() == [0, -1]
    unseen = build("auto", lookup=source, index=source, budget_bytes=1 << 20)  # how many pages, nobody knows
    join_batch(unseen, pa.array(np.arange(1_000)))
    assert isinstance(unseen.tactic, AutoTactic)
    assert unseen.tactic.choice is not None
    assert unseen.tactic.choice.name == "inlj"
    sizes = {"meshjoin": Sizes(capacity=10)}
    assert list(prices(5, 25, PROFILE, sizes, UnitCosts(scan_page_s=1.0)).values()) == [300.0]  # type: ignore[arg-type]
