"""Meeting attributes: routing documents without the key to those that have it (ADR 105).

A document that lacks the key could be broadcast; it suffices to send it to its partners. Some of the attributes that
nearly all such documents have are chosen, one after the other, as *meeting attributes*. A document with the key is
announced by its first pair among them:

    key User, meeting Severity, Host            announced by          goes to
    {User:u1 Host:h1 Severity:Info}             Severity:Info         partition of u1
    {User:u1 Host:h1 File:f}                    Host:h1               partition of u1, which is a place of Host:h1
    {User:u9 Host:h1 File:g}                    Host:h1               partition of u9, and a place of Host:h1
    {Host:h1 Severity:Crit. Service:dns}        (lacks the key)       the places of Severity:Crit. and of Host:h1

If two such documents join, the one without the key has all meeting attributes and conflicts in none, so it has the pair
that announces the other one, and goes to all *places* of that pair; the other one is at one of them. Two joining
documents without the key agree in all meeting attributes, so they go to the same places. A document that lacks a
meeting attribute as well is broadcast.

The places of a pair are chosen by the least cost in the sample: either the documents without the key go to a partition,
or those with the key go to a second one. They never change while partitions are in force, so the order of documents
does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from etl.columnar.jit import kernel
from etl.correlate.documents.dictionary import I64, U64
from etl.correlate.documents.joining.tree import attribute_order
from etl.correlate.documents.model import Documents
from etl.correlate.documents.partitioning.partitions import NO_PLACES, Partitions, Places, bits, home, words
from etl.correlate.documents.partitioning.routing import Routing, key_values, route

Flags = npt.NDArray[np.bool_]
_NOTHING = np.uint64(0x6E6F7468696E6721)  # announces documents that have no meeting attribute
_KEYLESS = np.uint64(0)
_NEARLY_ALL = 0.9  # least share of the documents without the key that have a meeting attribute
_MOST_ATTRIBUTES = 8


@dataclass(frozen=True, slots=True)
class Encounters:
    """Counts of a sample by announcing pair: documents by key, and documents without the key that have the pair."""

    pairs: U64
    keys: U64  # the synthetic pair of the announced documents, or _KEYLESS
    counts: I64

    def __len__(self) -> int:
        return len(self.pairs)

    @staticmethod
    def of(pairs: U64, keys: U64) -> Encounters:
        """Count from one entry per document."""
        order = np.lexsort((keys, pairs))
        pairs, keys = pairs[order], keys[order]
        first = np.ones(len(pairs), np.bool_)
        first[1:] = (pairs[1:] != pairs[:-1]) | (keys[1:] != keys[:-1])
        counts = np.diff(np.append(np.flatnonzero(first), len(pairs)))
        return Encounters(pairs[first], keys[first], counts)

    @staticmethod
    def concat(parts: Sequence[Encounters]) -> Encounters:
        """Sum over several creators."""
        none = np.empty(0, np.uint64)
        return Encounters(
            np.concatenate([none, *(part.pairs for part in parts)]),
            np.concatenate([none, *(part.keys for part in parts)]),
            np.concatenate([np.empty(0, np.int64), *(part.counts for part in parts)]),
        )


def encounters(documents: Documents, routing: Routing) -> Encounters:
    """Count these documents by the meeting attributes of a routing."""
    if not routing.meeting:
        return Encounters.concat([])
    routed, (held, has) = route(documents, routing), _held(documents, routing.meeting)
    with_key, without = ~routed.broadcast, routed.broadcast & has.all(axis=0)
    announcing = _announcing(held, has)[with_key]
    sought = np.concatenate([held[:, without].ravel(), np.full(int(without.sum()), _NOTHING)])
    keys = np.concatenate([routed.hashes, np.full(len(sought), _KEYLESS)])
    return Encounters.of(np.concatenate([announcing, sought]), keys)


def with_places(partitions: Partitions, found: Encounters) -> Partitions:
    """The partitions with places chosen from a sample."""
    return replace(partitions, places=places(partitions, found))


def places(partitions: Partitions, found: Encounters) -> Places:
    """The places of every pair of a sample. A pair may have none: then the documents it announces are broadcast."""
    if not partitions.routing.meeting:
        return NO_PLACES
    table = np.unique(np.append(found.pairs, _NOTHING))
    pair, lacking = np.searchsorted(table, found.pairs), found.keys == _KEYLESS
    sought = np.bincount(pair[lacking], weights=found.counts[lacking], minlength=len(table))
    rows, known = partitions.look_up(found.keys[~lacking])
    cell = pair[~lacking][known] * partitions.count + _lowest(rows[known])
    cells, number = np.unique(cell, return_inverse=True)
    announced = np.bincount(number, weights=found.counts[~lacking][known], minlength=len(cells))
    at, target = np.divmod(cells, partitions.count)
    # With a single attribute, a document without the key has no other pair, and needs at least one place.
    most = partitions.count if len(partitions.routing.meeting) > 1 else np.inf
    chosen = _cheapest(at, announced, sought, most)
    masks = np.zeros((len(table), words(partitions.count)), np.uint64)
    np.bitwise_or.at(masks, at[chosen], bits(target[chosen], partitions.count))
    # Pairs that announced nothing: if many documents seek one, it probably never will; else give it one place.
    unmet = np.bincount(at, minlength=len(table)) == 0
    settled = unmet & (sought <= most) & (table != _NOTHING)
    masks[settled] = home(table[settled], partitions.count)
    return Places(table, masks)


def bring_together(
    documents: Documents, partitions: Partitions, lacking: Flags, own: U64, everywhere: Flags
) -> tuple[U64, Flags]:
    """The partitions of all documents, and which are broadcast. `own`: by the key; `lacking`: without the key."""
    held, has = _held(documents, partitions.routing.meeting)
    rows, everywhere = own.copy(), everywhere.copy()
    without = np.flatnonzero(lacking & has.all(axis=0))
    rows[without] = partitions.places.look_up(np.full(len(without), _NOTHING), partitions.count)
    for row in held:
        rows[without] |= partitions.places.look_up(row[without], partitions.count)
    lost = without[~rows[without].any(axis=1)]  # they can only meet each other
    rows[lost] = home(np.bitwise_xor.reduce(held[:, lost], axis=0), partitions.count)
    everywhere[without] = False
    with_key = np.flatnonzero(~everywhere & ~lacking)
    met = partitions.places.look_up(_announcing(held[:, with_key], has[:, with_key]), partitions.count)
    rows[with_key], nowhere = _second_place(rows[with_key], met, partitions.count)
    everywhere[with_key[nowhere]] = True
    return rows, everywhere


def meeting_attributes(documents: Documents, partitions: Partitions) -> tuple[str, ...]:
    """Choose an order of meeting attributes greedily: next comes the one with the least cost per document."""
    routed = route(documents, partitions.routing)
    lacking = documents.take(np.flatnonzero(routed.broadcast))
    if not len(lacking):
        return ()
    order = attribute_order(lacking)
    presence = np.bincount(lacking.attributes, minlength=1)[order] / len(lacking)
    paths = [documents.dictionary.attributes[code] for code in order[presence >= _NEARLY_ALL][:_MOST_ATTRIBUTES]]
    rows, known = partitions.look_up(routed.hashes)
    where = np.where(known, _lowest(rows), -1)
    held, has = _held(documents, tuple(paths))
    left = ~routed.broadcast
    target = np.full(len(documents), -1, np.int64)
    target[left] = where
    left &= target >= 0
    chosen: list[int] = []
    while True:
        costs = {
            number: _cost(held[number], target, left & has[number], routed.broadcast & has[number], partitions.count)
            for number in range(len(paths))
            if number not in chosen and (left & has[number]).any()
        }
        if not costs:
            return tuple(paths[number] for number in chosen)
        chosen.append(min(costs, key=lambda number: costs[number]))
        left &= ~has[chosen[-1]]


def _cost(pairs: U64, target: I64, announced: Flags, seeking: Flags, count: int) -> tuple[float, int]:
    """Copies per document that an attribute would announce, and the number of documents left."""
    table, pair = np.unique(pairs[announced | seeking], return_inverse=True)
    number = np.zeros(len(pairs), np.int64)
    number[announced | seeking] = pair
    sought = np.bincount(number[seeking], minlength=len(table))
    cells, documents = np.unique(number[announced] * count + target[announced], return_counts=True)
    copies = np.minimum(sought[cells // count], documents).sum()
    return float(copies / announced.sum()), -int(announced.sum())


def _held(documents: Documents, attributes: tuple[str, ...]) -> tuple[U64, npt.NDArray[np.bool_]]:
    """The hash of every attribute's pair (rows) in every document (columns), and whether there is one."""
    values = key_values(documents, attributes)
    has = values >= 0
    hashes = np.zeros(values.shape, np.uint64)
    hashes[has] = documents.dictionary.hashes[values[has]]
    return hashes, has


def _announcing(held: U64, has: Flags) -> U64:
    """The first pair of every document in the order of the attributes."""
    first = np.argmax(has, axis=0)
    return np.where(has.any(axis=0), held[first, np.arange(held.shape[1])], _NOTHING)


def _cheapest(at: I64, announced: npt.NDArray[Any], sought: npt.NDArray[Any], copies: float) -> Flags:
    """Choose places (pair, partition): where seeking documents cost less than moving the announced ones would.

    If no partition qualifies, the one with most announced documents does, unless broadcasting those is cheaper.
    """
    chosen: Flags = announced > sought[at]
    order = np.lexsort((-announced, at))
    first = order[np.append(True, at[order][1:] != at[order][:-1])[: len(order)]]
    everywhere = (np.bincount(at, weights=announced, minlength=len(sought)) + 1) * copies
    without = np.bincount(at, weights=chosen, minlength=len(sought)) == 0
    chosen[first[without[at[first]] & (everywhere >= sought)[at[first]]]] = True
    return chosen


def _lowest(rows: U64) -> I64:
    """The smallest partition of every row, -1 of rows without any."""
    found = np.full(len(rows), -1, np.int64)
    for word in range(rows.shape[1] - 1, -1, -1):
        here = rows[:, word]
        bit = here & (~here + np.uint64(1))
        found = np.where(bit != 0, 64 * word + np.log2(np.maximum(bit, 1)).astype(np.int64), found)
    return found


def _second_place(rows: U64, places: U64, count: int) -> tuple[U64, I64]:
    """Rows that are at no place get the next place after their own partition; also returns rows without any."""
    apart = ~(rows & places).any(axis=1)
    nowhere = apart & ~places.any(axis=1)
    moved = np.flatnonzero(apart & ~nowhere)
    target = np.empty(len(moved), np.int64)
    _next_place(_lowest(rows[moved]), np.ascontiguousarray(places[moved]), count, target)
    rows[moved] |= bits(target, count)
    return rows, np.flatnonzero(nowhere)


@kernel
def _next_place(own: I64, places: U64, count: int, target: I64) -> None:
    for row in range(len(own)):
        target[row] = own[row]
        for step in range(1, count):
            place = (own[row] + step) % count
            if (places[row, place // 64] >> np.uint64(place % 64)) & np.uint64(1):
                target[row] = place
                break
