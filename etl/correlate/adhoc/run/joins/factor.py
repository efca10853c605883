"""Late materialised joins of buckets: a result stores the remaining tuples, and how keys link them.

    V ⋈ W on vid        link: matched keys ─► V's rows, W's rows              (figure 4b of the paper)
    (V ⋈ W) ⋈ C on usr  W's remaining rows are indexed by usr                 (figure 4c; V's rows are not touched)
                        link: matched keys ─► W's rows, C's rows
    sink                start at the last link, follow the others, AND the query sets

A `Factor` is the result for one combination of slots, one per stream. Its query sets are bits of the queries in
`mask`; an empty set means that the tuple is eliminated. Rows of a result have bit q in common iff query q's selections
hold for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from etl.columnar import bitsets, csr
from etl.columnar.bitsets import U64, Bools
from etl.columnar.csr import I32, I64, Csr
from etl.correlate.adhoc.query.model import Edge, End
from etl.correlate.adhoc.run.joins import kernels
from etl.correlate.adhoc.run.joins.bucket import Bucket

CHUNK_PAIRS = 1 << 21  # pairs materialised at a time
_NARROWED = 8  # cached renumbered query sets


@dataclass
class QuerySets:
    """A bucket's query sets: `words` are bits of the queries in `mask`."""

    mask: int
    words: U64
    _narrowed: dict[int, U64] = field(default_factory=dict, repr=False)

    def narrow(self, mask: int) -> U64:
        """The same sets as bits of the queries in another mask."""
        if mask == self.mask:
            return self.words
        if mask not in self._narrowed:
            if len(self._narrowed) >= _NARROWED:
                self._narrowed.pop(next(iter(self._narrowed)))
            self._narrowed[mask] = bitsets.extract(self.words, self.mask, mask)
        return self._narrowed[mask]

    @property
    def nbytes(self) -> int:
        return self.words.nbytes + sum(each.nbytes for each in self._narrowed.values())


def common_numbering(one: QuerySets, other: QuerySets, mask: int) -> int:
    """The numbering for both sides: usually the one they already share."""
    common = one.mask & other.mask & mask
    fewer = bitsets.words_for(common.bit_count()) < bitsets.words_for(one.mask.bit_count())
    return common if fewer or one.mask != other.mask else one.mask


@lru_cache(maxsize=4096)
def mask_row(mask: int, numbering: int) -> U64:
    """The queries of `mask` as one row of words, in a numbering."""
    bits = [bool(mask >> at & 1) for at in bitsets.positions_of(numbering)]
    return np.asarray(bitsets.pack(np.array(bits, bool).reshape(1, len(bits)))[0], np.uint64)


@dataclass(frozen=True, slots=True)
class Link:
    """One edge between two buckets: the indexes of both sides and the keys that they have in common."""

    edge: Edge
    left: Csr
    right: Csr
    at_left: I64
    at_right: I64

    def side(self, stream: str) -> tuple[Csr, I64]:
        return (self.left, self.at_left) if stream == self.edge.left.stream else (self.right, self.at_right)

    def other(self, stream: str) -> str:
        return self.edge.right.stream if stream == self.edge.left.stream else self.edge.left.stream

    def restricted(self, keep: Bools) -> Link:
        """The link restricted to some of its matched keys."""
        return replace(self, at_left=self.at_left[keep], at_right=self.at_right[keep])

    def numbers(self, stream: str, rows: int) -> I32:
        index, at = self.side(stream)
        return kernels.match_numbers(rows, index.offsets, index.members, at)


@dataclass
class Factor:
    """A join result of one bucket per stream. `links` form a tree; the last one is the last join."""

    buckets: Mapping[str, Bucket]
    sets: Mapping[str, QuerySets]
    links: tuple[Link, ...] = ()
    sides: tuple[Factor, ...] = field(default=(), repr=False)
    _indexes: dict[tuple[End, int], Csr] = field(default_factory=dict, repr=False)
    _alive: dict[str, QuerySets] = field(default_factory=dict, repr=False)

    @property
    def mask(self) -> int:
        """The queries that may have results here."""
        found = -1
        for each in self.sets.values():
            found &= each.mask
        return found

    def alive(self, stream: str) -> QuerySets:
        """A stream's query sets, restricted to tuples with partners through every link; cached."""
        if stream not in self._alive:
            self._alive[stream] = self._reduced(stream, None)
        return self._alive[stream]

    def part(self, keep: Bools) -> Factor:
        """The results restricted to some of the matched keys of the last link."""
        *inner, link = self.links
        return Factor(self.buckets, self.sets, (*inner, link.restricted(keep)), self.sides)

    def _reduced(self, stream: str, came_by: Link | None) -> QuerySets:
        sets = self.sets[stream]
        for link in self.links:
            if link is came_by or stream not in link.edge.streams:
                continue
            partner = link.other(stream)
            others = self._reduced(partner, link)
            numbering = sets.mask & others.mask
            index, at = link.side(stream)
            other_index, other_at = link.side(partner)
            words = kernels.semi_join(
                sets.narrow(numbering), index.offsets, index.members, at,
                others.narrow(numbering), other_index.offsets, other_index.members, other_at,
            )  # fmt: skip
            sets = QuerySets(numbering, words)
        return sets

    def index(self, end: End, sets: QuerySets, sharers: int) -> Csr:
        """A stream's remaining rows by an attribute: a view of the bucket's index, or re-indexed by reference."""
        wanted = sets.mask & sharers
        if (end, wanted) not in self._indexes:
            words = sets.words if wanted == sets.mask else sets.words & mask_row(wanted, sets.mask)
            bucket, keep = self.buckets[end.stream], bitsets.any_bit(words)
            whole = bucket.index(end.columns)
            if self.links:
                rows = np.flatnonzero(keep).astype(np.int32)
                found = csr.reindex(whole, bucket.codes(end.columns), rows)
                found = replace(found, members=rows[found.members])
            else:
                found = whole if keep.all() else csr.retain(whole, keep)
            self._indexes[end, wanted] = found
        return self._indexes[end, wanted]

    @property
    def nbytes(self) -> int:
        """Its memory, without the buckets."""
        links = sum(link.at_left.nbytes + link.at_right.nbytes for link in self.links)
        sets = {id(each): each.nbytes for each in (*self.sets.values(), *self._alive.values())}
        return links + sum(sets.values()) + sum(index.nbytes for index in self._indexes.values())


def join(left: Factor, right: Factor, edge: Edge, mask: int, sharers: int) -> Factor | None:
    """The join of two results on an edge, for the queries of `mask`; None if no query can have a result.

    Indexes have the rows of all queries that share the join, so that one index serves every combination of slots.
    """
    of_left, of_right = left.alive(edge.left.stream), right.alive(edge.right.stream)
    if not of_left.mask & of_right.mask & mask:
        return None
    left_index, right_index = left.index(edge.left, of_left, sharers), right.index(edge.right, of_right, sharers)
    at_left, at_right = csr.intersect(left_index, right_index)
    if not len(at_left):
        return None
    link = Link(edge, left_index, right_index, at_left, at_right)
    sets = {**left.sets, **right.sets, edge.left.stream: of_left, edge.right.stream: of_right}
    return Factor({**left.buckets, **right.buckets}, sets, (*left.links, *right.links, link), (left, right))


@dataclass(frozen=True, slots=True)
class Rows:
    """Materialised results: a row number per stream and result, and the queries of `numbering` that select it."""

    rows: Mapping[str, I32]
    words: U64
    numbering: int

    def of(self, number: int) -> dict[str, I32]:
        """The results of one query."""
        at = (self.numbering & ((1 << number) - 1)).bit_count()
        chosen = np.flatnonzero(bitsets.has_bit(self.words, at))
        return {stream: rows[chosen] for stream, rows in self.rows.items()}


def multiply_out(factor: Factor, mask: int) -> Iterator[Rows]:
    """All results that some query of `mask` selects, in chunks: the full materialisation of the sink."""
    *inner, link = factor.links
    left, right = link.edge.left.stream, link.edge.right.stream
    numbering = common_numbering(factor.sets[left], factor.sets[right], mask)
    if inner:
        numbering = factor.mask & mask
    if not numbering & mask:
        return
    words = {stream: sets.narrow(numbering) for stream, sets in factor.sets.items()}
    row = mask_row(mask, numbering)
    for some in _chunks(link):
        rows_left, rows_right, found = kernels.pairs(
            link.left.offsets, link.left.members, words[left], some.at_left,
            link.right.offsets, link.right.members, words[right], some.at_right, row,
        )  # fmt: skip
        rows = {left: rows_left, right: rows_right}
        for each in _outward(inner, set(rows)):
            rows, found = _follow(factor, each, rows, found, words)
        if len(found):
            yield Rows(rows, found, numbering)


def _chunks(link: Link) -> Iterator[Link]:
    room = kernels.pair_room(link.left.offsets, link.at_left, link.right.offsets, link.at_right)
    part = np.cumsum(room) // CHUNK_PAIRS
    cuts = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(room)]
    for start, stop in pairwise(cuts):
        yield replace(link, at_left=link.at_left[start:stop], at_right=link.at_right[start:stop])


def _outward(links: list[Link], seen: set[str]) -> Iterator[Link]:
    """Links in an order in which each is adjacent to a visited stream."""
    left = list(links)
    while left:
        link = next(each for each in left if each.edge.streams & seen)
        left.remove(link)
        seen |= link.edge.streams
        yield link


def _follow(
    factor: Factor, link: Link, rows: dict[str, I32], found: U64, words: Mapping[str, U64]
) -> tuple[dict[str, I32], U64]:
    known = next(stream for stream in link.edge.streams if stream in rows)
    new = link.other(known)
    index, at = link.side(new)
    numbers = link.numbers(known, len(factor.buckets[known]))
    position, partner, found = kernels.expand(numbers, rows[known], found, index.offsets, index.members, at, words[new])
    return {**{stream: each[position] for stream, each in rows.items()}, new: partner}, found
