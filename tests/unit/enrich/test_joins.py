"""All seven joins give the same answers, within their budget, while the master changes between and during batches."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from etl.columnar.errors import KeyTypeMismatch
from etl.columnar.keys import encode
from etl.enrich.batch import SHED, BatchBudget, build, join_batch
from etl.enrich.errors import BudgetTooSmall, PortMissing
from etl.enrich.front_stage.stage import FrontStage, FrontStageConfig
from etl.enrich.join import SemiStreamJoin
from etl.enrich.spec import JOINS
from etl.enrich.step import Metrics
from etl.enrich.tactics.hybrid import HybridConfig, HybridJoin
from etl.enrich.tactics.inlj import IndexNestedLoop, InljConfig
from etl.enrich.tactics.mesh import MeshConfig, MeshJoin
from etl.errors import MasterUnavailable
from etl.masters.memory import MemoryMaster

BUDGET = 256 * 1024


KINDS = ("integers", "strings", "pairs", "mixed")


def keys_of(ids: np.ndarray, kind: str) -> pa.Array:
    """Keys of any kind, each made from a number."""
    numbers = pa.array(ids, pa.int64())
    text = pa.array([f"key {i}" for i in ids], pa.string())
    if kind in ("pairs", "mixed"):
        second = pa.array(np.asarray(ids) // 3, pa.int64()) if kind == "pairs" else text
        return pa.StructArray.from_arrays([numbers, second], ["a", "b"])
    return text if kind == "strings" else numbers


def source(ids: np.ndarray, text: bool = False, version: int = 0, page_rows: int = 50, kind: str = "") -> MemoryMaster:
    keys = keys_of(ids, kind or ("strings" if text else "integers"))
    names = pa.array([f"{i} v{version} " + "." * int(i % 37) for i in ids], pa.string())
    return MemoryMaster(pa.table({"id": keys, "name": names}), "id", page_rows=page_rows)


def ways(master: MemoryMaster) -> dict[str, MemoryMaster]:
    return {"lookup": master, "scan": master, "index": master}


def pairs(result, keys: pa.Array) -> Counter:  # type: ignore[no-untyped-def]
    names = result.master.column("name").to_pylist()
    return Counter(
        (str(key), names[place] if place >= 0 else None)
        for key, place in zip(keys.to_pylist(), result.position, strict=True)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_all_joins_agree_as_multisets(kind: str) -> None:
    rng = np.random.default_rng(23)
    master = source(np.arange(0, 3_000, 2), kind=kind)
    joins = {name: build(name, **ways(master), budget_bytes=BUDGET) for name in JOINS}
    for _ in range(3):
        keys = keys_of(np.minimum(rng.zipf(1.2, 4_000), 3_100), kind)
        answers = {name: pairs(join_batch(join, keys), keys) for name, join in joins.items()}
        assert all(answer == answers["inlj"] for answer in answers.values())
        assert sum(answers["inlj"].values()) == 4_000


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("text", [False, True])
def test_memory_stays_within_the_budget_at_every_step(name: str, text: bool) -> None:
    rng = np.random.default_rng(29)
    master = source(np.arange(5_000), text)
    join = build(name, **ways(master), budget_bytes=BUDGET)
    for _ in range(6):
        drawn = np.minimum(rng.zipf(1.1, 3_000), 5_500)
        join.offer(pa.array([f"key {i}" for i in drawn]) if text else pa.array(drawn))
        for _ in range(5_000):
            if not join.pending:
                break
            join.step()
            front = 0 if join.front_stage is None else join.front_stage.nbytes
            assert front + join.tactic.nbytes <= BUDGET
        assert not join.pending


@pytest.mark.parametrize("name", JOINS)
def test_the_answer_of_a_batch_holds_no_more_master_rows_than_tuples(name: str) -> None:
    master = source(np.arange(2_000))
    join = build(name, **ways(master), budget_bytes=BUDGET, lookup_tuples=100)
    rng = np.random.default_rng(31)
    result = join_batch(join, pa.array(rng.integers(0, 2_000, 5_000)))
    assert result.master.num_rows <= 5_000
    assert result.metrics.tuples == result.metrics.matched == 5_000


@pytest.mark.parametrize("name", JOINS)
def test_a_new_version_of_the_master_is_seen_by_the_next_batch(name: str) -> None:
    """Updated, inserted and deleted rows, between two batches."""
    old, new = source(np.arange(100), version=1), source(np.arange(50, 150), version=2)
    keys = pa.array(np.arange(150).repeat(2))
    join = build(name, **ways(old), budget_bytes=BUDGET)
    front = join.front_stage
    if front is not None:
        front.pin(1)
    join_batch(join, keys)
    if front is not None:
        front.pin(2)
    after = build(name, **ways(new), budget_bytes=BUDGET, front_stage=front)
    result = join_batch(after, keys)
    assert (result.position >= 0).tolist() == (np.arange(150) >= 50).repeat(2).tolist()
    assert all(" v2 " in name for name in result.master.column("name").to_pylist())


def test_invalidated_keys_are_asked_again_and_counted_as_stale() -> None:
    join = build("cinlj", lookup=source(np.arange(10), version=1), budget_bytes=BUDGET)
    front = join.front_stage
    assert front is not None
    keys = pa.array(np.arange(10).repeat(2))
    join_batch(join, keys)
    front.invalidate(encode(pa.array([3])))
    join = build("cinlj", lookup=source(np.arange(10), version=2), budget_bytes=BUDGET, front_stage=front)
    result = join_batch(join, keys)
    names = result.master.column("name").to_pylist()
    assert [" v2 " in names[place] for place in result.position] == (np.arange(10) == 3).repeat(2).tolist()
    assert result.metrics.misses_stale == 2
    assert result.metrics.hit_ratio == pytest.approx(0.9)


class Growing(MemoryMaster):
    """A master to which rows are appended while it is being read."""

    def grow(self, bigger: MemoryMaster) -> None:
        self._rows, self._keys, self._index = bigger._rows, bigger._keys, bigger._index


def test_mesh_join_finds_rows_appended_while_tuples_wait() -> None:
    table = pa.table({"id": np.arange(100), "name": [str(i) for i in range(100)]})
    master = Growing(table, "id", page_rows=10)
    join = SemiStreamJoin(None, MeshJoin(master, MeshConfig(200, 200, 1)))
    join.offer(pa.array([5, 95, 150, 250]))
    found: Counter = Counter()
    for step in range(100):
        if step == 4:  # page 0 to 3 are behind us
            master.grow(MemoryMaster(pa.table({"id": np.arange(200), "name": [str(i) for i in range(200)]}), "id"))
        result = join.step()
        for matches in result.matched:
            found.update(np.asarray(matches.rows.column("id"))[matches.row].tolist())
        if len(result.unmatched):
            assert result.unmatched.tolist() == [3]
        if not join.pending:
            break
    assert found == {5: 1, 95: 1, 150: 1}


def test_mesh_join_reads_each_page_once_for_a_batch_and_stops_when_all_are_answered() -> None:
    master = source(np.arange(1_000))
    join = SemiStreamJoin(None, MeshJoin(master, MeshConfig(500, 500, 2)))
    everything = join_batch(join, pa.array(np.arange(999, 500, -1)))
    assert everything.metrics.cost.pages == master.page_count()
    early = join_batch(join, pa.array(np.arange(40)))
    assert early.metrics.cost.pages == 2, "the first two pages hold them all"


def test_hybrid_join_answers_all_waiting_tuples_of_a_page_with_one_read() -> None:
    master = source(np.arange(1_000), page_rows=100)
    join = SemiStreamJoin(None, HybridJoin(master, HybridConfig(500)))
    result = join_batch(join, pa.array(np.arange(0, 300)))
    assert result.metrics.cost.pages == 3
    assert result.metrics.steps == 3


def test_hybrid_join_learns_of_an_absent_key_without_reading_a_page() -> None:
    master = source(np.arange(100))
    join = SemiStreamJoin(None, HybridJoin(master, HybridConfig(50)))
    result = join_batch(join, pa.array([500, 500, 501]))
    assert result.position.tolist() == [-1, -1, -1]
    assert result.metrics.cost.pages == 0
    assert result.metrics.misses_absent == 3


def test_known_absent_keys_are_not_asked_again_until_their_deadline() -> None:
    master = source(np.arange(10))
    front = FrontStage(FrontStageConfig(64 * 1024, negative_ttl_s=30))
    join = SemiStreamJoin(front, IndexNestedLoop(master))
    join_batch(join, pa.array([1, 1, 99]), now=0.0)
    asked = master.asked.keys
    again = join_batch(join, pa.array([99, 1]), now=10.0)
    assert again.position.tolist()[0] == -1
    assert again.hit.all()
    assert again.metrics.negative_hits == 1
    assert master.asked.keys == asked
    late = build("cinlj", lookup=source(np.arange(100)), budget_bytes=BUDGET, front_stage=front)
    assert join_batch(late, pa.array([99]), now=31.0).position.tolist() == [0], "the late row is found"


def test_the_textbook_loop_still_learns_what_is_frequent_from_its_small_buffer() -> None:
    front = FrontStage(FrontStageConfig(64 * 1024, policy="paper", threshold=2))
    join = SemiStreamJoin(front, IndexNestedLoop(source(np.arange(100)), InljConfig(batch_tuples=1, recent_keys=50)))
    total = Metrics()
    for key in [1, 2, 3, 1, 1, 1]:
        join.offer(pa.array([key]))
        total += join.step().metrics
    assert (total.front_hits, total.cost.lookups) == (2, 4)


@pytest.mark.parametrize("name", [name for name in JOINS if name != "auto"])
def test_a_join_refuses_keys_of_another_kind_and_sources_it_cannot_use(name: str) -> None:
    master = source(np.arange(100))
    join = build(name, **ways(master), budget_bytes=BUDGET)
    with pytest.raises(KeyTypeMismatch, match="stream keys are string, master keys are int64"):
        join_batch(join, pa.array(["a"]))
    with pytest.raises(PortMissing, match=f"{name} needs a master source with"):
        build(name, budget_bytes=BUDGET)
    if name != "inlj":
        with pytest.raises(BudgetTooSmall):
            build(name, **ways(master), budget_bytes=1_000)


class FailingOnce(MemoryMaster):
    """A master that does not answer the first time it is read after `failing` was set."""

    failing = False

    def _fail(self) -> None:
        failing, self.failing = self.failing, False
        if failing:
            raise MasterUnavailable("customers")

    def lookup(self, keys: pa.Array) -> pa.Table:
        self._fail()
        return super().lookup(keys)

    def read_pages(self, first: int, count: int) -> pa.Table:
        self._fail()
        return super().read_pages(first, count)

    def pages_holding(self, keys: pa.Array) -> tuple[pa.Table, int]:
        self._fail()
        return super().pages_holding(keys)


@pytest.mark.parametrize("name", JOINS)
def test_a_join_whose_master_failed_once_answers_the_next_batch(name: str) -> None:
    rows = pa.table({"id": np.arange(500), "name": [f"customer {i}" for i in range(500)]})
    master = FailingOnce(rows, "id", page_rows=50)
    join = build(name, **ways(master), budget_bytes=BUDGET, lookup_tuples=100)
    keys = pa.array([*range(400), None])
    master.failing = True
    with pytest.raises(MasterUnavailable):
        join_batch(join, keys)
    assert not join.pending
    result = join_batch(join, keys)
    assert pairs(result, keys) == Counter([*((str(i), f"customer {i}") for i in range(400)), ("None", None)])


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("budget", [BatchBudget(lookups=7), BatchBudget(pages=3), BatchBudget(pages=1, lookups=100)])
def test_a_batch_reads_no_more_than_its_budget_and_sheds_the_rest(name: str, budget: BatchBudget) -> None:
    master = source(np.arange(2_000))
    join = build(name, **ways(master), budget_bytes=BUDGET)
    keys = pa.array(np.random.default_rng(5).integers(0, 2_000, 3_000))
    result = join_batch(join, keys, budget=budget)
    used = result.metrics.cost
    assert budget.pages is None or used.pages <= budget.pages
    assert budget.lookups is None or used.lookups <= budget.lookups
    assert used.pages + used.lookups > 0, "what may be read is read"
    found = np.count_nonzero(result.position >= 0)
    assert found == result.metrics.matched
    assert found + np.count_nonzero(result.position == SHED) == 3_000


def test_of_keys_that_may_not_all_be_looked_up_those_go_first_that_most_tuples_share() -> None:
    master = source(np.arange(100))
    join = build("inlj", lookup=master, budget_bytes=BUDGET)
    keys = pa.array([1, 2, 3, 3, 4, 4, 4, 5])
    result = join_batch(join, keys, budget=BatchBudget(lookups=2))
    assert (result.position >= 0).tolist() == [key in (3, 4) for key in keys.to_pylist()]
