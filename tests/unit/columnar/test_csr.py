"""The CSR index against dictionaries of lists."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from etl.columnar import csr
from etl.columnar.keys import encode

INTEGERS = st.lists(st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1)), max_size=60)
TEXTS = st.lists(st.text("ab", max_size=3), max_size=60)
NUMBERS = st.one_of(INTEGERS, st.lists(st.integers(0, 9), max_size=60))
KEYS = st.one_of(NUMBERS.map(lambda v: pa.array(v, pa.int64())), TEXTS.map(lambda v: pa.array(v, pa.string())))


def index_of(values: pa.Array) -> csr.Csr:
    return csr.build(encode(values), np.arange(len(values), dtype=np.int32))


def groups(index: csr.Csr) -> set[tuple[int, ...]]:
    return {tuple(index.members[a:b].tolist()) for a, b in zip(index.offsets[:-1], index.offsets[1:], strict=True)}


def naive(values: list[object]) -> dict[object, list[int]]:
    found: dict[object, list[int]] = defaultdict(list)
    for row, value in enumerate(values):
        found[value].append(row)
    return found


@given(KEYS)
def test_every_key_has_its_rows_in_ascending_order(values: pa.Array) -> None:
    index = index_of(values)
    assert groups(index) == {tuple(rows) for rows in naive(values.to_pylist()).values()}
    assert len(index) == len(set(values.to_pylist()))


@given(NUMBERS)
def test_distinct_keys_ascend(values: list[int]) -> None:
    assert index_of(pa.array(values, pa.int64())).lo.tolist() == sorted(set(values))


@given(KEYS)
def test_codes_lead_back_to_the_key_of_each_row(values: pa.Array) -> None:
    index = index_of(values)
    codes = csr.codes_of(index, len(values) + 1)
    assert codes[-1] == -1
    assert all(row in index.members[index.offsets[c] : index.offsets[c + 1]] for row, c in enumerate(codes[:-1]))


@given(KEYS, st.integers(0, 2**32))
def test_retain_leaves_the_kept_rows_and_no_empty_key(values: pa.Array, seed: int) -> None:
    keep = np.random.default_rng(seed).random(len(values)) < 0.5
    kept = csr.retain(index_of(values), keep)
    wanted = {tuple(r for r in rows if keep[r]) for rows in naive(values.to_pylist()).values()} - {()}
    assert groups(kept) == wanted
    assert len(kept) == len(wanted)


@given(KEYS, st.integers(0, 2**32))
def test_reindex_refers_to_positions_in_a_list_of_rows(values: pa.Array, seed: int) -> None:
    index = index_of(values)
    rows = np.random.default_rng(seed).integers(0, max(1, len(values)), len(values)).astype(np.int32)
    again = csr.reindex(index, csr.codes_of(index, len(values)), rows)
    wanted = {tuple(r) for r in naive([values[row].as_py() for row in rows]).values()}
    assert groups(again) == wanted


@given(st.one_of(st.tuples(NUMBERS, NUMBERS).map(lambda p: [pa.array(v, pa.int64()) for v in p]),
                 st.tuples(TEXTS, TEXTS).map(lambda p: [pa.array(v, pa.string()) for v in p])))  # fmt: skip
def test_intersection_finds_the_common_keys(sides: list[pa.Array]) -> None:
    left, right = (index_of(values) for values in sides)
    at_left, at_right = csr.intersect(left, right)
    a, b = (naive(values.to_pylist()) for values in sides)
    wanted = {(tuple(a[key]), tuple(b[key])) for key in a.keys() & b.keys()}
    found = {
        (tuple(left.members[left.offsets[i] : left.offsets[i + 1]].tolist()),
         tuple(right.members[right.offsets[j] : right.offsets[j + 1]].tolist()))
        for i, j in zip(at_left, at_right, strict=True)
    }  # fmt: skip
    assert found == wanted
