"""Positions in sorted columns.

Probes that come in ascending order are searched from where the last one was found (galloping): neighbours are close,
so a search takes a few steps instead of log2 of the column, and memory is read from front to back.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from etl.columnar.jit import kernel

I64 = npt.NDArray[np.int64]


@kernel
def gallop(values: I64, wanted: np.int64, start: int) -> int:
    """The first position with a value >= wanted, which is not before `start`."""
    n = len(values)
    if start >= n or values[start] >= wanted:
        return start
    step, low = 1, start
    while low + step < n and values[low + step] < wanted:
        low += step
        step *= 2
    high = min(low + step, n)  # values[low] < wanted, and values[high] >= wanted or high is the end
    low += 1
    while low < high:
        middle = (low + high) // 2
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


def ascending(numbers: I64) -> I64:
    """The stable order of numbers; fast where they are runs that ascend already."""
    return np.asarray(np.argsort(numbers, kind="stable"))
