"""Lists of labels per row, from one mask per label: reasons for refusing a row, rules it breaks.

("a", 0 1 1), ("b", 0 0 1)  ──▶  [], [a], [a, b]
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Mask = npt.NDArray[np.bool_]


def label_lists(masks: Iterable[tuple[str, Mask]], rows: int) -> pa.ListArray:
    """For each of `rows` rows the labels whose mask is set, in the order given."""
    used = [(label, np.flatnonzero(mask)) for label, mask in masks if mask.any()]
    counts = np.zeros(rows + 1, np.int32)
    if not used:
        return pa.ListArray.from_arrays(pa.array(counts), pa.array([], pa.string()))
    at = np.concatenate([where for _, where in used])
    label = np.repeat(np.arange(len(used), dtype=np.int32), [len(where) for _, where in used])
    order = np.argsort(at, kind="stable")  # labels of one row stay in the order given
    np.add.at(counts, at + 1, 1)
    values = pa.array([name for name, _ in used], pa.string()).take(pa.array(label[order]))
    return pa.ListArray.from_arrays(pa.array(np.cumsum(counts, dtype=np.int32)), values)


def unlabelled(lists: pa.ListArray) -> Mask:
    """The rows whose list is empty."""
    empty: Mask = np.diff(np.asarray(lists.offsets)) == 0
    return empty


def joined_lists(first: pa.ListArray, second: pa.ListArray) -> pa.ListArray:
    """Row by row, the labels of the first and then those of the second."""
    one, two = np.asarray(first.offsets), np.asarray(second.offsets)
    if one[-1] == one[0]:
        return second
    if two[-1] == two[0]:
        return first
    offsets = (one - one[0]) + (two - two[0])
    sizes = np.diff(one)
    values = pa.concat_arrays([first.flatten(), second.flatten()])
    take = np.empty(offsets[-1], np.int64)
    mine = np.repeat(offsets[:-1] - (one[:-1] - one[0]), sizes) + np.arange(one[-1] - one[0])
    theirs = np.repeat(offsets[:-1] + sizes - (two[:-1] - two[0]), np.diff(two)) + np.arange(two[-1] - two[0])
    take[mine] = np.arange(len(mine))
    take[theirs] = len(mine) + np.arange(len(theirs))
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values.take(pa.array(take)))
