"""One contract for every admission policy: what it admits fits, and what leaves for it are the least frequent rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from etl.columnar.keys import encode
from etl.enrich.front_stage.policy import POLICIES, Entries, Free, Policy, make_policy, policy_bytes_per_row

counts = st.lists(st.integers(1, 60), max_size=12)


def policy_of(name: str) -> Policy:
    return make_policy(name, threshold=2, window=128.0, rows=64)


def entries(frequency: list[int], size: int = 10) -> Entries:
    return Entries(np.array(frequency, np.float32), np.full(len(frequency), size, np.int64))


@pytest.mark.parametrize("name", POLICIES)
@given(candidates=counts, victims=counts, free_rows=st.integers(0, 6), free_bytes=st.integers(0, 80))
def test_what_enters_fits_into_what_is_free_and_what_leaves(
    name: str, candidates: list[int], victims: list[int], free_rows: int, free_bytes: int
) -> None:
    enter, leaving = policy_of(name).choose(entries(candidates), entries(sorted(victims)), Free(free_bytes, free_rows))
    assert len(set(enter.tolist())) == len(enter)
    assert set(enter.tolist()) <= set(range(len(candidates)))
    assert 0 <= leaving <= len(victims)
    assert len(enter) <= free_rows + leaving
    assert 10 * len(enter) <= free_bytes + 10 * leaving


@pytest.mark.parametrize("name", POLICIES)
@given(candidates=counts, victims=counts)
def test_more_frequent_candidates_enter_first(name: str, candidates: list[int], victims: list[int]) -> None:
    enter, _ = policy_of(name).choose(entries(candidates), entries(sorted(victims)), Free(30, 3))
    refused = [count for number, count in enumerate(candidates) if number not in set(enter.tolist())]
    assert not len(enter) or min(candidates[number] for number in enter) >= max(refused, default=0)


@pytest.mark.parametrize("name", POLICIES)
def test_an_estimate_is_at_least_the_count(name: str) -> None:
    policy = policy_of(name)
    seen = np.array([1, 3, 7], np.int64)
    estimate = policy.estimate(encode(pa.array([1, 2, 3])), seen)
    assert (estimate >= seen).all()


@pytest.mark.parametrize("name", POLICIES)
def test_forgetting_adapting_and_fading_leave_it_within_its_bytes(name: str) -> None:
    policy = policy_of(name)
    before = policy.nbytes
    policy.forget(encode(pa.array([1, 2])), np.array([4, 5], np.float32))
    policy.adapt(full=True, evicted=10, refused=0, rows=20)
    assert policy.fade(10_000, 100, 20) >= 0
    assert policy.threshold >= 0
    assert policy.nbytes == before <= 64 * max(1, policy_bytes_per_row(name)) + 1024
