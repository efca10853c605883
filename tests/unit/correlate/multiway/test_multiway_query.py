"""What can be declared wrong is refused in one sentence that names the place."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest

from etl.correlate.multiway import errors
from etl.correlate.multiway.execution.folder import SiteFolder
from etl.correlate.multiway.planning.pmjoin import plan_pmjoin
from etl.correlate.multiway.query import Filter, JoinQuery, Site, TimeWindow, TupleWindow
from etl.errors import TerminalError
from tests.support.multiway_examples import example_1
from tests.support.multiway_worlds import query, seconds, stream

A, B, C = (stream(name, site, seconds(1)) for name, site in (("a", "eu"), ("b", "us"), ("c", "ap")))
ON = [("a.x", "b.x"), ("b.x", "c.x")]

REFUSALS: dict[str, tuple[Callable[[], object], type[TerminalError], str]] = {
    "site": (
        lambda: query([A, replace(B, site="mars")], ON[:1]), errors.StreamWithoutSite,
        "stream 'b' names site 'mars', which is not declared; choose among eu, us, ap",
    ),
    "no site": (
        lambda: query([A, replace(B, site="")], ON[:1]), errors.StreamWithoutSite,
        "stream 'b' names no site; choose among eu, us, ap",
    ),
    "not connected": (
        lambda: query([A, B, C], ON[:1]), errors.JoinNotConnected,
        "correlation 'test' does not connect c with its first stream; add an equality for each of them",
    ),
    "time window": (
        lambda: stream("a", "eu", TimeWindow(timedelta(0))), errors.WindowNotPositive,
        "the window of stream 'a' is 0 s; it must be longer than nothing",
    ),
    "tuple window": (
        lambda: stream("a", "eu", TupleWindow(-3)), errors.WindowNotPositive,
        "the window of stream 'a' is -3 tuples; it must be longer than nothing",
    ),
    "types": (
        lambda: query([A, B], [("a.x", "b.t")]), errors.TypesDoNotCompare,
        "a.x (int64) cannot be compared with b.t (string); both must be whole numbers, both text, or of one and the "
        "same type",
    ),
    "filter": (
        lambda: stream("a", "eu", seconds(1), Filter("x", "=", "one")), errors.TypesDoNotCompare,
        "a.x (int64) cannot be compared with 'one' (string); both must be whole numbers, both text, or of one and the "
        "same type",
    ),
    "column": (
        lambda: query([A, B], [("a.x", "b.z")]), errors.UnknownName,
        "there is no column of stream 'b' named 'z'; choose among id, at, x, y, t",
    ),
    "stream": (
        lambda: query([A, B], [("a.x", "d.x")]), errors.UnknownName, "there is no stream 'd'; choose among a, b",
    ),
    "target": (
        lambda: query([A, B], ON[:1], target="mars"), errors.UnknownName,
        "there is no site 'mars'; choose among eu, us, ap",
    ),
    "twice": (
        lambda: query([A, A], [("a.x", "a.y")]), errors.DeclaredTwice,
        "stream 'a' is declared twice; every stream needs a name of its own",
    ),
    "root": (
        lambda: SiteFolder(Site("eu", "/nowhere/at/all")).create(), errors.RootNotReachable,
        "the root '/nowhere/at/all' of site 'eu' is not reachable (there is no such folder); create or mount it first",
    ),
    "partitions": (
        lambda: plan_pmjoin(example_1(), 0, "hash", 0), errors.PartitionsNotPositive,
        "partitions=0 is not positive; one partition means no partitioning",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_a_wrong_declaration_is_refused_in_one_sentence(case: str) -> None:
    make, kind, sentence = REFUSALS[case]
    with pytest.raises(kind) as refusal:
        make()
    assert str(refusal.value) == sentence
    assert str(pickle.loads(pickle.dumps(refusal.value))) == sentence


def test_equalities_close_transitively_into_one_attribute() -> None:
    asked = query([A, B, C], ON)
    (attribute,) = asked.attributes
    assert attribute.columns == {0: "x", 1: "x", 2: "x"}
    assert asked.neighbours == (0b110, 0b101, 0b011)


def test_an_attribute_is_open_until_all_its_streams_are_joined() -> None:
    asked = query([A, B, C], [("a.x", "b.x"), ("b.y", "c.y")])
    assert [asked.open_attributes(s) for s in (0b001, 0b010, 0b011, 0b111)] == [(0,), (0, 1), (1,), ()]


def test_whole_numbers_of_different_sizes_can_be_compared() -> None:
    narrow = replace(B, schema=B.schema.set(2, pa.field("x", pa.int16())))
    assert isinstance(query([A, narrow], ON[:1]), JoinQuery)
