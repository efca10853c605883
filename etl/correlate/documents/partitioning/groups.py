"""Groups of pairs with their loads: the output of creators and the input of the merger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from etl.correlate.documents.dictionary import I64, U64


@dataclass(frozen=True, slots=True)
class Groups:
    """Pairs by hash, one row per group; `loads`: documents that hold at least one pair of the group."""

    offsets: I64
    hashes: U64
    loads: I64

    def __len__(self) -> int:
        return len(self.loads)

    @property
    def sizes(self) -> I64:
        return np.diff(self.offsets)

    @property
    def owners(self) -> I64:
        return np.repeat(np.arange(len(self), dtype=np.int64), self.sizes)

    def sets(self) -> list[frozenset[int]]:
        """The groups as sets of hashes."""
        return [
            frozenset(self.hashes[low:high].tolist())
            for low, high in zip(self.offsets[:-1], self.offsets[1:], strict=True)
        ]


def grouped(owner: I64, hashes: U64, loads: I64) -> Groups:
    """Groups from (group, pair) entries; inside a group pairs are in the order of their hashes."""
    order = np.lexsort((hashes, owner))
    sizes = np.bincount(owner, minlength=len(loads))
    return Groups(np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]), hashes[order], loads)


def concat(parts: Sequence[Groups]) -> Groups:
    """All groups of several creators."""
    sizes = np.concatenate([part.sizes for part in parts])
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    return Groups(
        offsets, np.concatenate([part.hashes for part in parts]), np.concatenate([part.loads for part in parts])
    )
