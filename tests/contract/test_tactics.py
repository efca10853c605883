"""One contract for every tactic: each tuple leaves exactly once, with its row, as absent, or shed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from etl.columnar.errors import KeyTypeMismatch
from etl.columnar.keys import encode
from etl.enrich.planning.auto import AutoTactic
from etl.enrich.planning.cost import MasterProfile
from etl.enrich.planning.feedback import Feedback
from etl.enrich.planning.sizing import Sizes
from etl.enrich.step import StreamTuples
from etl.enrich.tactics.hybrid import HybridConfig, HybridJoin
from etl.enrich.tactics.inlj import IndexNestedLoop, InljConfig
from etl.enrich.tactics.mesh import MeshConfig, MeshJoin
from etl.enrich.tactics.tactic import Tactic
from etl.masters.memory import MemoryMaster

ROWS, CAPACITY = 300, 64


def master() -> MemoryMaster:
    rows = pa.table({"key": range(ROWS), "name": [f"name {number}" for number in range(ROWS)]})
    return MemoryMaster(rows, "key", page_rows=16)


def auto() -> Tactic:
    make = {"inlj": TACTICS["inlj"], "meshjoin": TACTICS["mesh"]}
    sizes = {"inlj": Sizes(lookup_tuples=CAPACITY), "meshjoin": Sizes(capacity=CAPACITY)}
    return AutoTactic(make, sizes, MasterProfile(19, 16, 20), Feedback())  # type: ignore[arg-type]


TACTICS: dict[str, Callable[[], Tactic]] = {
    "inlj": lambda: IndexNestedLoop(master(), InljConfig(CAPACITY)),
    "hybrid": lambda: HybridJoin(master(), HybridConfig(CAPACITY, lookups=4)),
    "mesh": lambda: MeshJoin(master(), MeshConfig(CAPACITY, chunk_tuples=16, pages_per_step=2)),
    "mesh in one chunk": lambda: MeshJoin(master(), MeshConfig(CAPACITY, chunk_tuples=CAPACITY, pages_per_step=4)),
    "auto": auto,
}


@pytest.fixture(params=TACTICS)
def tactic(request: pytest.FixtureRequest) -> Tactic:
    return TACTICS[request.param]()


def drain(tactic: Tactic, keys: np.ndarray) -> tuple[dict[int, str], list[int]]:
    """Load the keys as room allows until nothing is pending; names by ticket, and tickets without a row."""
    found: dict[int, str] = {}
    absent: list[int] = []
    loaded = 0
    while loaded < len(keys) or tactic.pending:
        some = min(tactic.room, len(keys) - loaded)
        assert some <= CAPACITY
        if some:
            tickets = np.arange(loaded, loaded + some)
            tactic.load(StreamTuples(tickets, encode(pa.array(keys[tickets]))))
            loaded += some
        step = tactic.advance(draining=loaded == len(keys))
        if len(step.matched):
            assert step.matched.rows is not None
            assert len(step.frequency) == step.matched.rows.num_rows
            names = step.matched.rows.column("name").to_pylist()
            for ticket, row in zip(step.matched.tickets.tolist(), step.matched.row.tolist(), strict=True):
                assert ticket not in found, "a tuple leaves once"
                found[ticket] = names[row]
        absent += [] if step.unmatched is None else step.unmatched.tickets.tolist()
    return found, absent


def test_every_tuple_leaves_once_with_its_row_or_as_absent(tactic: Tactic) -> None:
    keys = np.random.default_rng(5).integers(0, ROWS + 60, 500)
    found, absent = drain(tactic, keys)
    assert found == {ticket: f"name {key}" for ticket, key in enumerate(keys.tolist()) if key < ROWS}
    assert sorted(absent) == np.flatnonzero(keys >= ROWS).tolist()


def test_what_is_shed_leaves_and_the_tactic_starts_anew(tactic: Tactic) -> None:
    some = min(tactic.room, 20)
    tactic.load(StreamTuples(np.arange(some), encode(pa.array(np.arange(some)))))
    assert tactic.pending == some
    shed = tactic.shed_all()
    assert shed is not None
    assert sorted(shed.tickets.tolist()) == list(range(some))
    assert tactic.pending == 0
    assert drain(tactic, np.array([3, 3, ROWS])) == ({0: "name 3", 1: "name 3"}, [2])


def test_an_idle_tactic_reads_nothing(tactic: Tactic) -> None:
    step = tactic.advance(draining=True)
    assert (len(step.matched), step.unmatched, step.cost.pages, step.cost.lookups) == (0, None, 0, 0)


def test_it_knows_the_columns_and_refuses_keys_of_another_kind(tactic: Tactic) -> None:
    assert tactic.schema(pa.int64()).names == ["key", "name"]
    with pytest.raises(KeyTypeMismatch):
        tactic.schema(pa.string())
