"""Local window joins: runs of the biclique, sorted arrays and the nested loop find the same pairs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.correlate.multiway.execution.kernel import Kernel, RunKernel, Side, SortedKernel

rows = st.lists(st.tuples(st.integers(-3, 3), st.integers(-20, 20), st.integers(0, 12)), max_size=25)


def side(given: list[tuple[int, int, int]]) -> Side:
    code, start, length = (np.array(column, np.int64) for column in (list(zip(*given, strict=True)) or [(), (), ()]))
    return Side(code, start, start + length)


@pytest.mark.parametrize("kernel", [RunKernel(), SortedKernel()])
@given(rows, rows)
@settings(max_examples=100, deadline=None)
def test_a_kernel_finds_what_the_nested_loop_finds(
    kernel: Kernel, stored: list[tuple[int, int, int]], probing: list[tuple[int, int, int]]
) -> None:
    held, probes = side(stored), side(probing)
    pairs = kernel.index(held).probe(probes)
    expected = Counter(
        (i, j)
        for i in range(len(probing))
        for j in range(len(stored))
        if probes.code[i] == held.code[j] and held.start[j] <= probes.end[i] and held.end[j] >= probes.start[i]
    )
    assert Counter(zip(pairs.probe.tolist(), pairs.stored.tolist(), strict=True)) == expected
