"""Which task joins which key, also while the number of tasks changes (section 6 of the paper, figure 12b).

    key ─hash─► key group 0 … 1023 ─ranges─► task            an overloaded task's range is split, the others keep theirs

A change takes effect at a bucket boundary. Tuples that are joined together must have been partitioned by the same
function: the one that was in effect at the *oldest* of their slots. So for as long as the longest window, buckets are
partitioned twice, by the old and the new function; no state moves, no result is lost or doubled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from etl.columnar.csr import I32, I64
from etl.columnar.keys import hash_uniform

KEY_GROUPS = 1024


@dataclass(frozen=True, slots=True)
class Partitioning:
    """Task i has the key groups bounds[i] … bounds[i+1] - 1."""

    bounds: tuple[int, ...]

    def __post_init__(self) -> None:
        assert (self.bounds[0], self.bounds[-1]) == (0, KEY_GROUPS), "ranges must cover all key groups"
        assert list(self.bounds) == sorted(set(self.bounds)), "ranges must ascend"

    @property
    def tasks(self) -> int:
        return len(self.bounds) - 1

    def assign(self, lo: I64, hi: I64 | None) -> I32:
        """The task of each key."""
        lane = lo if hi is None else lo ^ np.left_shift(hi, 1)
        groups = (hash_uniform(np.ascontiguousarray(lane)) * KEY_GROUPS).astype(np.int64)
        return (np.searchsorted(np.array(self.bounds), groups, "right") - 1).astype(np.int32)

    def split(self, task: int) -> Partitioning:
        """Add a task, which gets the upper half of this one's range."""
        low, high = self.bounds[task], self.bounds[task + 1]
        if high - low < 2:
            return self
        return Partitioning((*self.bounds[: task + 1], (low + high) // 2, *self.bounds[task + 1 :]))

    def merge(self, task: int) -> Partitioning:
        """Remove the next task; its range goes to this one."""
        return Partitioning((*self.bounds[: task + 1], *self.bounds[task + 2 :])) if task + 1 < self.tasks else self


def even(tasks: int) -> Partitioning:
    return Partitioning(tuple(KEY_GROUPS * at // tasks for at in range(tasks + 1)))


@dataclass(frozen=True, slots=True)
class PartitionHistory:
    """The functions in effect, each from a slot on."""

    versions: tuple[tuple[int, Partitioning], ...]

    def changed(self, slot: int, partitioning: Partitioning) -> PartitionHistory:
        kept = tuple(each for each in self.versions if each[0] < slot)
        return PartitionHistory((*kept, (slot, partitioning)) if kept else ((slot, partitioning),))

    def at(self, slot: int) -> Partitioning:
        """The function by which tuples of this slot are joined with later ones."""
        found = self.versions[0][1]
        for since, partitioning in self.versions:
            if since <= slot:
                found = partitioning
        return found

    def needed(self, slot: int, longest_window: int) -> list[Partitioning]:
        """The functions by which a bucket of this slot is partitioned: for partners as old as the longest window."""
        return list(dict.fromkeys(self.at(oldest) for oldest in range(slot - longest_window + 1, slot + 1)))

    def pruned(self, oldest: int) -> PartitionHistory:
        """Without functions that no retained slot needs."""
        last = max((at for at, (since, _) in enumerate(self.versions) if since <= oldest), default=0)
        return PartitionHistory(self.versions[last:])


def tasks_of_rows(codes: npt.NDArray[np.int32], key_tasks: I32) -> I32:
    """The task of each row, from the tasks of the distinct keys; -1 for rows without a key."""
    return np.append(key_tasks, np.int32(-1))[codes]
