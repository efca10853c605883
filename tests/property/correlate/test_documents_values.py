"""JSON values with their types, joined as the definition says: equal where JSON says so, and nowhere else.

The oracle knows no keys, codes or trees: paths are tuples of names and positions, values carry their type.
"""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from etl.correlate.documents.flatten import DocumentEncoder, FlattenOptions
from etl.correlate.documents.joining import compiled
from etl.correlate.documents.joining.fp_join import FPTreeJoin, join
from etl.correlate.documents.model import Documents
from etl.correlate.documents.topology import Topology, TopologyOptions
from tests.support.documents_strategies import batches, listed

Flat = dict[tuple[str | int, ...], Any]

# As text, so that one number is written in several ways.
ALIKE = ("1", '"1"', "true", "1.0", "null", "10e-1")
SCALARS = (
    *ALIKE,
    "false",
    "0",
    "-0.0",
    '""',
    '"null"',
    '"[]"',
    "9007199254740993",
    "9007199254740992.0",
    '"\\u00fc"',
    '"ü"',
)
NAMES = ("a", "b", "a.b", "a[0]", "", "\\", "ü", "a\\.b", "0", ".")


def members(values: st.SearchStrategy[str], names: tuple[str, ...], most: int) -> st.SearchStrategy[str]:
    """An object as text; names may be escaped, though they need not be."""
    named = st.tuples(st.sampled_from(names), st.booleans(), values)
    listed = st.lists(named, max_size=most, unique_by=lambda member: member[0])
    return listed.map(
        lambda some: (
            "{" + ",".join(f"{json.dumps(name, ensure_ascii=escaped)}: {value}" for name, escaped, value in some) + "}"
        )
    )


def nested(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    arrays = st.lists(values, max_size=3).map(lambda items: "[" + ",".join(items) + "]")
    return st.one_of(arrays, members(values, NAMES, 2))


VALUES = st.recursive(st.sampled_from(SCALARS), nested, max_leaves=4)
LINES = st.one_of(
    st.lists(members(st.sampled_from(ALIKE), ("a", "a.b", "\\"), 3), max_size=24),  # many share and many conflict
    st.lists(members(VALUES, NAMES, 4), max_size=24),
)
OPTIONS = st.builds(
    FlattenOptions, arrays=st.sampled_from(["index", "whole"]), nulls=st.sampled_from(["absent", "value"])
)


def typed(value: Any) -> Any:
    """A value that equals another only where both have one type; numbers are one type, and equal exactly."""
    if isinstance(value, dict):
        return "object", frozenset((name, typed(one)) for name, one in value.items())
    if isinstance(value, list):
        return "array", tuple(typed(one) for one in value)
    return ("number" if type(value) in (int, float) else type(value).__name__), value


def flat(value: Any, options: FlattenOptions, path: tuple[str | int, ...] = ()) -> Flat:
    """The leaves of a document by path."""
    if isinstance(value, dict) and value:
        inner = list(value.items())
    elif isinstance(value, list) and value and options.arrays == "index":
        inner = list(enumerate(value))
    elif not path or (value is None and options.nulls == "absent"):
        return {}
    else:
        return {path: typed(value)}
    return {at: leaf for name, one in inner for at, leaf in flat(one, options, (*path, name)).items()}


def joinable(one: Flat, other: Flat) -> bool:
    common = one.keys() & other.keys()
    return bool(common) and all(one[path] == other[path] for path in common)


def encoded(lines: list[str], options: FlattenOptions) -> tuple[Documents, list[tuple[int, int]]]:
    """The accepted lines as documents, and the pairs that the definition gives."""
    read = DocumentEncoder(options).encode([line.encode() for line in lines], np.arange(len(lines), dtype=np.int64))
    leaves = {number: flat(json.loads(lines[number]), options) for number in read.documents.ids.tolist()}
    assert len(leaves) + len(read.rejected) == len(lines)
    return read.documents, [pair for pair in combinations(leaves, 2) if joinable(leaves[pair[0]], leaves[pair[1]])]


@given(LINES, OPTIONS, st.lists(st.integers(0, 24), max_size=4))
def test_values_join_by_path_type_and_value(lines: list[str], options: FlattenOptions, cuts: list[int]) -> None:
    documents, wanted = encoded(lines, options)
    assert listed(join(documents)) == wanted
    assert listed(compiled.nested_loop(documents)) == listed(compiled.hash_join(documents)) == wanted
    joined = FPTreeJoin()
    assert sorted(pair for some in batches(documents, cuts) for pair in listed(joined.insert(some).pairs)) == wanted


@given(LINES, OPTIONS, st.sampled_from([1, 3, 65]), st.lists(st.integers(0, 24), max_size=3))
def test_values_join_once_whatever_the_partitions(
    lines: list[str], options: FlattenOptions, partitions: int, cuts: list[int]
) -> None:
    documents, wanted = encoded(lines, options)
    topology = Topology(TopologyOptions(partitions=partitions, creators=2, assigners=2, delta=1))
    made = [pair for some in batches(documents, cuts) for pair in listed(topology.insert(some).pairs)]
    assert sorted(made) == wanted


@pytest.mark.parametrize(("one", "other"), list(combinations(ALIKE, 2)))
def test_values_that_look_alike_join_only_if_json_says_they_are_equal(one: str, other: str) -> None:
    documents, wanted = encoded([f'{{"a": {one}}}', f'{{"a": {other}}}'], FlattenOptions(nulls="value"))
    assert listed(join(documents)) == wanted
    assert bool(wanted) is ({one, other} <= {"1", "1.0", "10e-1"})
