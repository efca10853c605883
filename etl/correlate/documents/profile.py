"""A profile of a window's documents: attributes in the tree's order, constants, and common pairs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from etl.correlate.documents.dictionary import json_of, path_of
from etl.correlate.documents.joining.tree import attribute_order
from etl.correlate.documents.model import Documents

_COMMON = 0.5  # of the documents, from which a pair is counted


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of a window: the share of documents that have it, and its number of values."""

    path: str
    presence: float
    values: int


@dataclass(frozen=True, slots=True)
class CommonPair:
    """A pair and the share of documents that hold it."""

    path: str
    value: str  # as JSON
    presence: float


def attributes(documents: Documents) -> list[Attribute]:
    """All attributes, in the order of the tree."""
    order = attribute_order(documents)
    counts = np.bincount(documents.attributes, minlength=1)[order]
    used = np.flatnonzero(np.bincount(documents.pairs, minlength=1))
    values = np.bincount(documents.dictionary.pair_attribute[used], minlength=order.max(initial=-1) + 1)[order]
    return [
        Attribute(documents.dictionary.attributes[attribute], count / len(documents), distinct)
        for attribute, count, distinct in zip(order.tolist(), counts.tolist(), values.tolist(), strict=True)
    ]


def common_pairs(documents: Documents, at_most: int) -> list[CommonPair]:
    """The most frequent pairs, which dominate the number of results."""
    counts = np.bincount(documents.pairs, minlength=1)
    order = np.lexsort((np.arange(len(counts)), -counts))[:at_most]
    keys = documents.dictionary.keys
    return [
        CommonPair(path_of(keys[pair]), json_of(keys[pair]), counts[pair] / len(documents))
        for pair in order.tolist()
        if counts[pair]
    ]


@dataclass(frozen=True, slots=True)
class CommonCounts:
    """How many documents hold the most common pairs. Parts of a stream add up.

    A pair that fewer than half of a part's documents hold counts as held by none of them.
    """

    documents: int = 0
    counts: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by path and value, as JSON

    @staticmethod
    def of(documents: Documents) -> CommonCounts:
        counts = np.bincount(documents.pairs, minlength=1)
        keys = documents.dictionary.keys
        common = np.flatnonzero(counts >= max(1.0, _COMMON * len(documents))).tolist()
        return CommonCounts(
            len(documents), {(path_of(keys[pair]), json_of(keys[pair])): int(counts[pair]) for pair in common}
        )

    def plus(self, other: CommonCounts) -> CommonCounts:
        documents, counts = self.documents + other.documents, dict(self.counts)
        for pair, count in other.counts.items():
            counts[pair] = counts.get(pair, 0) + count
        return CommonCounts(documents, {pair: n for pair, n in counts.items() if n >= _COMMON * documents})

    def constants(self, presence: float = 1.0) -> list[CommonPair]:
        """Pairs that (nearly) all documents hold. Alone, such a pair joins everything with everything."""
        if self.documents < 2:
            return []
        ordered = sorted(self.counts.items(), key=lambda one: (-one[1], one[0]))
        found = [CommonPair(path, value, count / self.documents) for (path, value), count in ordered]
        return [pair for pair in found if pair.presence >= presence]


def without(documents: Documents, paths: Collection[str]) -> Documents:
    """The documents without some attributes."""
    if not paths:
        return documents
    known = documents.dictionary.attributes
    codes = [code for code, path in enumerate(known) if path in set(paths)]
    return documents.without(np.array(codes, np.int32))
