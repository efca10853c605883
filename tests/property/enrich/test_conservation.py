"""Whatever the sizes and whatever the order of offers, steps, sheds and reloads: nothing is lost, nothing doubled.

The truth is a nested loop: a tuple matches the master row with its key, or none.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from etl.enrich.front_stage.policy import POLICIES
from etl.enrich.front_stage.stage import FrontStage, FrontStageConfig
from etl.enrich.join import SemiStreamJoin
from etl.enrich.planning.auto import AutoTactic
from etl.enrich.planning.cost import MasterProfile, UnitCosts
from etl.enrich.planning.feedback import Feedback
from etl.enrich.planning.sizing import Sizes
from etl.enrich.shedding import SHED_POLICIES, SheddingConfig, ShedLog
from etl.enrich.step import Step
from etl.enrich.tactics.hybrid import HybridConfig, HybridJoin
from etl.enrich.tactics.inlj import IndexNestedLoop, InljConfig
from etl.enrich.tactics.mesh import MeshConfig, MeshJoin
from etl.enrich.tactics.tactic import Tactic
from etl.masters.memory import MemoryMaster

BUDGET = 16 * 1024
KEYS: dict[str, Callable[[int], object]] = {
    "int": lambda i: i * 7 - 50,
    "text": lambda i: "k" * (i % 13) + str(i),
    "pair": lambda i: {"a": i % 5, "b": i // 5},
    "mixed": lambda i: {"a": str(i % 3), "b": i},
}


def master_of(keys: list[object], page_rows: int) -> MemoryMaster:
    kind = pa.array([KEYS["int"](0)]).type if not keys else pa.array(keys).type
    return MemoryMaster(
        pa.table({"id": pa.array(keys, kind), "name": pa.array([str(key) for key in keys], pa.string())}),
        "id",
        page_rows=page_rows,
    )


@st.composite
def tactics(draw: st.DrawFn, master: MemoryMaster) -> Tactic:
    capacity = draw(st.integers(1, 40))
    name = draw(st.sampled_from(["inlj", "hybridjoin", "meshjoin", "auto"]))
    inlj = lambda: IndexNestedLoop(master, InljConfig(capacity, recent_keys=5))  # noqa: E731
    position = draw(st.floats(0, 1))
    lookups = draw(st.integers(1, 4))
    hybrid = lambda: HybridJoin(master, HybridConfig(capacity, lookups, position))  # noqa: E731
    chunk, pages = draw(st.integers(1, capacity)), draw(st.integers(1, 3))
    mesh = lambda: MeshJoin(master, MeshConfig(capacity, chunk, pages))  # noqa: E731
    make = {"inlj": inlj, "hybridjoin": hybrid, "meshjoin": mesh}
    if name != "auto":
        return make[name]()
    sizes = {which: Sizes(capacity=capacity, lookup_tuples=capacity) for which in make}
    known = Feedback(UnitCosts(*draw(st.tuples(*[st.floats(1e-6, 1)] * 5))))
    profile = MasterProfile(max(1, master.page_count()), master.page_rows, 30)
    return AutoTactic(make, sizes, profile, known, time.perf_counter if draw(st.booleans()) else None)  # type: ignore[arg-type]


class Ledger:
    """Follows every ticket from offer to answer."""

    def __init__(self) -> None:
        self.open: dict[int, object] = {}
        self.shed: set[int] = set()
        self.offered = self.matched = self.unmatched = 0

    def offer(self, tickets: np.ndarray, keys: list[object]) -> None:
        self.open.update(zip(tickets.tolist(), keys, strict=True))
        self.offered += len(keys)

    def take(self, step: Step, known: set[str]) -> None:
        for matches in step.matched:
            names = matches.rows.column("name").to_pylist()
            for ticket, row in zip(matches.tickets.tolist(), matches.row.tolist(), strict=True):
                key = self.open.pop(ticket)  # a second match would raise
                assert str(key) == names[row]
                self.matched += 1
        for ticket in step.unmatched.tolist():
            key = self.open.pop(ticket)
            assert key is None or str(key) not in known
            self.unmatched += 1
        if step.shed is not None:
            tickets = step.shed.tickets.tolist()
            assert not self.shed & set(tickets), "shed twice without coming back"
            self.shed |= set(tickets)
            exact = step.shed.keys.arrow().to_pylist()
            assert [self.open[t] for t in tickets] == exact, "a shed tuple keeps its key"


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_every_tuple_is_matched_once_or_unmatched_or_shed_or_pending(data: st.DataObject) -> None:
    of = KEYS[data.draw(st.sampled_from(sorted(KEYS)))]
    present = data.draw(st.sets(st.integers(0, 30), min_size=1))
    master = master_of([of(i) for i in sorted(present)], data.draw(st.integers(1, 7)))
    known = {str(of(i)) for i in present}
    front = None
    if data.draw(st.booleans()):
        policy = data.draw(st.sampled_from(POLICIES))
        front = FrontStage(FrontStageConfig(BUDGET, policy=policy, threshold=1, negative_ttl_s=2))
    shedding = SheddingConfig(data.draw(st.sampled_from(SHED_POLICIES)), data.draw(st.integers(1, 60)))
    join = SemiStreamJoin(front, data.draw(tactics(master)), shedding)
    ledger, log = Ledger(), ShedLog()

    def step(now: float | None) -> None:
        result = join.step(now)
        ledger.take(result, known)
        log.put(result.shed)
        for back in log.take(data.draw(st.integers(0, max(0, result.reload)))):
            join.offer_again(back)
            ledger.shed -= set(back.tickets.tolist())
        assert ledger.offered == ledger.matched + ledger.unmatched + len(ledger.shed) + join.pending
        assert join.pending == len(ledger.open) - len(ledger.shed)
        assert front is None or front.nbytes <= BUDGET

    for clock in range(data.draw(st.integers(1, 12))):
        if data.draw(st.booleans()):
            picked = data.draw(st.lists(st.one_of(st.none(), st.integers(0, 34)), max_size=50))
            keys = [None if i is None else of(i) for i in picked]
            ledger.offer(join.offer(pa.array(keys, master.key_type)), keys)
        step(float(clock) if data.draw(st.booleans()) else None)
    if data.draw(st.booleans()):
        result = join.give_up(99.0)
        ledger.take(result, known)
        log.put(result.shed)
        assert join.pending == 0
    for part in log.take(len(log)):
        join.offer_again(part)
        ledger.shed -= set(part.tickets.tolist())
    join.shedding = SheddingConfig("none")
    for _ in range(2_000):
        if not join.pending:
            break
        step(None)
    assert not ledger.open, "everything offered has been answered in the end"
    assert ledger.offered == ledger.matched + ledger.unmatched
