"""A profile of a window's documents: attributes in the tree's order, constants, and common pairs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from etl.correlate.documents.dictionary import json_of, path_of
from etl.correlate.documents.joining.tree import attribute_order
from etl.correlate.documents.model import Documents


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


def constants(documents: Documents, presence: float = 1.0) -> list[CommonPair]:
    """Pairs that (nearly) all documents hold. Alone, such a pair joins everything with everything."""
    if len(documents) < 2:
        return []
    held = int((np.bincount(documents.pairs, minlength=1) >= presence * len(documents)).sum())
    return [pair for pair in common_pairs(documents, held) if pair.presence >= presence]


def without(documents: Documents, paths: Collection[str]) -> Documents:
    """The documents without some attributes."""
    if not paths:
        return documents
    known = documents.dictionary.attributes
    codes = [code for code, path in enumerate(known) if path in set(paths)]
    return documents.without(np.array(codes, np.int32))
