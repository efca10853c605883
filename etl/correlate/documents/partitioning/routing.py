"""Routing keys of a document: hashes of all its pairs, or of one synthetic pair of several attributes (ADR 36).

Documents that join must meet. They share a pair, so it suffices to route a document by each of its pairs. Fewer targets
suffice with a *key* of some attributes: documents that have the whole key and join agree in all of it, so they have the
same *synthetic pair*, the concatenated values of the key, and meet if that alone routes them. A document that lacks a
part of the key can join documents of any key. It goes everywhere (*broadcast*), or, if it has all *meeting attributes*,
to its partners (`meetings`).

The paper's attribute expansion is such a key (a disabling attribute with combining ones) that replaces its parts while
the other pairs keep routing as well: `alone=False`. With `alone=True` a document with a key goes to one partition.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from etl.correlate.documents.dictionary import I64, U64
from etl.correlate.documents.joining.tree import attribute_order
from etl.correlate.documents.model import Documents

_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Routing:
    """The attributes, by path, that make the synthetic pair; none: every pair routes."""

    key: tuple[str, ...] = ()
    alone: bool = True
    meeting: tuple[str, ...] = ()  # attributes by which documents without the key find their partners


@dataclass(frozen=True, slots=True)
class Routed:
    """Documents by routing hashes, one row per document, and which are broadcast."""

    offsets: I64
    hashes: U64
    broadcast: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.broadcast)

    @property
    def owners(self) -> I64:
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.offsets))

    def part(self, number: int, of: int) -> Routed:
        """Every `of`-th document, from `number` on: the share of one creator."""
        positions = np.arange(number, len(self), of)
        lengths = np.diff(self.offsets)[positions]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        source = np.repeat(self.offsets[positions] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Routed(offsets, self.hashes[source], self.broadcast[positions])


def route(documents: Documents, routing: Routing) -> Routed:
    """The documents under a routing."""
    hashes = documents.dictionary.hashes[documents.pairs]
    if not routing.key:
        return Routed(documents.offsets, hashes, np.zeros(len(documents), np.bool_))
    values = key_values(documents, routing.key)
    complete = np.all(values >= 0, axis=0)
    synthetic = _synthetic(documents.dictionary.hashes, values[:, complete])
    if routing.alone:
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(complete)])
        return Routed(offsets, synthetic, ~complete)
    return _beside_others(documents, routing, hashes, synthetic, complete)


def expansion(documents: Documents, partitions: int) -> Routing:
    """The paper's attribute expansion: none unless some attribute of all documents has fewer values than partitions."""
    order = attribute_order(documents)
    paths = [documents.dictionary.attributes[attribute] for attribute in order.tolist()]
    counts = np.bincount(documents.attributes, minlength=1)[order]
    for path, count in zip(paths, counts.tolist(), strict=True):
        if count == len(documents) and _variety(documents, (path,)) < partitions:
            return Routing(_combined(documents, path, paths, partitions), alone=False)
    return Routing()


def key_values(documents: Documents, key: tuple[str, ...]) -> npt.NDArray[np.int32]:
    """The pair of every key attribute (rows) in every document (columns), -1 where it has none."""
    values = np.full((len(key), len(documents)), -1, np.int32)
    attributes, owners = documents.attributes, documents.owners
    for row, path in enumerate(key):
        here = attributes == documents.dictionary.known_attribute(path)
        values[row, owners[here]] = documents.pairs[here]
    return values


def _combined(documents: Documents, disabling: str, paths: list[str], partitions: int) -> tuple[str, ...]:
    """The disabling attribute with the next frequent ones, until there are as many values as partitions."""
    key: tuple[str, ...] = (disabling,)
    for path in paths:
        if _variety(documents, key) >= partitions:
            break
        if path not in key:
            key += (path,)
    return key


def _variety(documents: Documents, key: tuple[str, ...]) -> int:
    values = key_values(documents, key)
    complete = (values >= 0).all(axis=0)
    return len(np.unique(_synthetic(documents.dictionary.hashes, values[:, complete])))


def _synthetic(hashes: U64, values: npt.NDArray[np.int32]) -> U64:
    """One hash for the values of a key, in their order."""
    state = np.zeros(values.shape[1], np.uint64)
    for row in values:
        state = (state ^ hashes[row]) * _MIX
        state ^= state >> np.uint64(31)
    return state


def _beside_others(
    documents: Documents, routing: Routing, hashes: U64, synthetic: U64, complete: npt.NDArray[np.bool_]
) -> Routed:
    """The synthetic pair first, then all pairs that are not part of it."""
    parts = [documents.dictionary.known_attribute(path) for path in routing.key]
    owners = documents.owners
    keep = complete[owners] & ~np.isin(documents.attributes, parts)
    owner = np.concatenate([np.flatnonzero(complete), owners[keep]])
    order = np.argsort(owner, kind="stable")
    lengths = np.bincount(owner, minlength=len(documents))
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return Routed(offsets, np.concatenate([synthetic, hashes[keep]])[order], ~complete)
