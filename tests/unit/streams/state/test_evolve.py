"""What a batch changes of a correlation's state, on descriptions of runs alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from etl.contract.correlations.correlation import Correlation
from etl.contract.parsing.schema import correlation_schema_text, stream_schema_text
from etl.correlate.biclique.routing import BicliqueRouter
from etl.correlate.model import Window
from etl.correlate.query.compile import Query, compile_query
from etl.settings import PROJECT
from etl.streams.decision import Evolved, GatheredCorrelation
from etl.streams.state.evolve import evolve
from etl.streams.state.routers import router_from_json, router_json
from etl.streams.state.state_files import StateRun
from etl.streams.storage.log import Segment
from etl.streams.tasks.plan import CorrelationPlan, CorrelationState, RoutingNote
from tests.support.correlate_histories import SECOND, STREAMS

SQL = "select l.id as a from l join r on l.k = r.k"
NOTE = (RoutingNote("random", "declared"),)


def query(within_s: int | None) -> Query:
    return compile_query(SQL, STREAMS, within=None if within_s is None else Window.within(within_s * SECOND))


def run(unit: int, period: int, name: str, second: int, nbytes: int = 100) -> StateRun:
    return StateRun(0, unit, "left" if unit < 2 else "right", period, name, 1, nbytes, second * SECOND, second * SECOND)


def plan(state: CorrelationState, capacity: int = 2**30) -> CorrelationPlan:
    declared = Correlation("pairs", SQL, timedelta(seconds=10), timedelta(seconds=2), capacity_bytes=capacity)
    return CorrelationPlan(declared, state, 1)


def after(
    state: CorrelationState,
    gathered: GatheredCorrelation,
    seconds: dict[str, int],
    within_s: int | None = 10,
    **options: int,
) -> Evolved:
    segments = [Segment(stream, 1, 1, 1, 0, second * SECOND) for stream, second in seconds.items()]
    return evolve(plan(state, **options), {}, query(within_s), gathered, segments)


def test_a_run_expires_by_the_watermark_of_the_other_stream_and_whole_periods_at_once() -> None:
    runs = (run(0, 0, "a", 0), run(0, 0, "b", 5), run(0, 1, "c", 20), run(2, 0, "d", 0))
    state = CorrelationState(1, (BicliqueRouter.of(2, 2),), NOTE, runs=runs)
    gathered = GatheredCorrelation()
    assert after(state, gathered, {"r": 14}).removed == ()
    assert after(state, gathered, {"r": 17}).removed == (), "5 is still within 10 s of the watermark 15"
    assert after(state, gathered, {"r": 18}).removed == ("a", "b")
    assert after(state, gathered, {"l": 100}).removed == ("d",)
    assert after(state, gathered, {"r": 100, "l": 100}).expired == 4


def test_what_a_unit_merged_is_replaced_by_what_it_wrote() -> None:
    state = CorrelationState(1, (BicliqueRouter.of(2, 2),), NOTE, runs=(run(0, 0, "a", 0), run(0, 0, "b", 1)))
    gathered = GatheredCorrelation(added=[run(0, 0, "ab", 1)], removed=["a", "b"])
    evolved = after(state, gathered, {"l": 1})
    assert [one.name for one in evolved.state.runs] == ["ab"] == [one.name for one in evolved.added]
    assert evolved.removed == ("a", "b")


def test_a_watermark_never_goes_back() -> None:
    state = CorrelationState(1, (BicliqueRouter.of(2, 2),), NOTE, largest={"l": 50 * SECOND})
    assert after(state, GatheredCorrelation(), {"l": 20}).state.largest == {"l": 50 * SECOND}


def grown(state: CorrelationState, within_s: int | None) -> list[Evolved]:
    """Three rounds with the same load."""
    rounds = []
    for _ in range(3):
        rounds.append(after(state, GatheredCorrelation(), {}, within_s, capacity=100))
        state = rounds[-1].state
    return rounds


@pytest.mark.parametrize("within_s", [10, None], ids=["window", "full history"])
def test_the_third_request_in_a_row_adds_units_and_only_full_history_moves_runs(within_s: int | None) -> None:
    runs = tuple(run(0, 0, f"run {number}", 0) for number in range(6))
    state = CorrelationState(1, (BicliqueRouter.of(1, 1),), NOTE, runs=runs)
    state = replace(state, runs=tuple(replace(one, unit=0) for one in runs))
    first, second, third = grown(state, within_s)
    assert (first.changes, second.changes) == ((), ())
    ((step, change),) = [one for one in third.changes if one[1].side == "left"]
    assert (step, len(change.added)) == (0, 9), "six times the capacity at a load of 0.6"
    assert bool(third.moved) == (within_s is None)
    assert {one.unit for one in third.moved} <= set(change.added)
    assert sorted(one.name for one in third.state.runs) == sorted(one.name for one in runs)


def test_a_router_is_the_same_after_the_ledger() -> None:
    router = BicliqueRouter.of(4, 3, 2, 3, seed=7)
    assert router_from_json(router_json(router)) == router


@pytest.mark.parametrize(
    ("folder", "text"), [("streams", stream_schema_text), ("correlations", correlation_schema_text)]
)
def test_the_schemas_that_editors_use_are_those_of_the_code(folder: str, text: object) -> None:
    assert callable(text)
    assert (PROJECT / "warehouse" / folder / "schema.json").read_text() == text()
