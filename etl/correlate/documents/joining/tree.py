"""The FP-tree of some documents, as arrays, and the FPTreeJoin that descends it for many documents (ADR 37).

Attributes are ordered by how many documents have them (most first), then by how few values they have. Every document,
its pairs in that order, is a path from the root; documents that begin alike share nodes. Table I of the paper:

    d1 {b:7 a:3 c:1}        root ─┬─ b:7 ── a:3 [d3] ── c:1 [d1]          order   b, a, c
    d2 {b:8 a:3}                  └─ b:8 ─┬─ a:3 [d2]
    d3 {b:7 a:3}                          └─ c:2 [d4]
    d4 {b:8 c:2}

Descent for a document: where the children of a node have an attribute that the document has too, only the child with
its value is entered (found by bisection; for attributes that all documents have this is the paper's direct descent);
otherwise all of them are. Documents on the path join from the first shared pair on. A bit mask of the attributes below
ends the descent early when nothing below can conflict or be shared: then all documents below join, or none. They are
adjacent in the order of the tree, and are reported as one run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from etl.correlate.documents.dictionary import I32, I64
from etl.correlate.documents.joining.descent import UNKNOWN, Block, Header, TreeArrays, descend
from etl.correlate.documents.joining.tree_kernels import (
    counting_order,
    lay_out,
    link_labels,
    occurrences,
)
from etl.correlate.documents.joining.tree_order import in_tree_order
from etl.correlate.documents.model import Documents

BYTES_PER_PAIR, BYTES_PER_DOCUMENT = 72, 64


@dataclass(frozen=True)
class FPTree:
    """An immutable FP-tree."""

    documents: Documents
    order: I64  # positions of the documents in the order of the tree
    attributes: I32  # the attribute order: attribute codes by rank
    pair_of_label: I32
    pair_label: I32  # label of every pair of the dictionary, -1 if it is not in the tree
    attribute_rank: I32  # rank of every attribute, -1 likewise
    arrays: TreeArrays

    @staticmethod
    def build(documents: Documents) -> FPTree:
        """The tree of all these documents."""
        dictionary = documents.dictionary
        counts = occurrences(documents.pairs, len(dictionary))
        attributes = _attribute_order(documents, counts)
        rank = np.full(len(dictionary.attributes), -1, np.int32)
        rank[attributes] = np.arange(len(attributes), dtype=np.int32)
        used = np.flatnonzero(counts)
        by_rank = counting_order(rank[dictionary.pair_attribute[used]], len(attributes))
        pair_of_label = used[by_rank].astype(np.int32)
        pair_label = np.full(len(dictionary), -1, np.int32)
        pair_label[pair_of_label] = np.arange(len(used), dtype=np.int32)
        rank_of_label = rank[dictionary.pair_attribute[pair_of_label]]
        if len(attributes) <= 2**16:
            rank_of_label = rank_of_label.astype(np.uint16)
        order, offsets, labels, ranks = in_tree_order(documents.offsets, documents.pairs, pair_label, rank_of_label)
        laid_out = lay_out(offsets, labels, ranks, int(documents.lengths.max(initial=0)))
        arrays = TreeArrays(offsets, labels, ranks, *laid_out, len(attributes))
        return FPTree(documents, order, attributes, pair_of_label, pair_label, rank, arrays)

    def self_join(self) -> Iterator[Block]:
        """Every joinable pair of the tree's documents once: each document with those before it in the tree.

        A run (number, from, to) joins the document `order[number]` with `order[from:to]`.
        """
        of, limits = self.arrays, np.arange(len(self.documents), dtype=np.int64)
        return descend(of, self._header_without_first(), of.offsets, of.ranks, of.labels, limits)

    def probe(self, documents: Documents) -> Iterator[Block]:
        """All joins of these documents with documents of the tree: runs (position among these, from, to)."""
        limits = np.full(len(documents), len(self.documents), np.int64)
        return descend(self.arrays, self.header, documents.offsets, *self._in_tree(documents), limits)

    @cached_property
    def header(self) -> Header:
        """The header table: the nodes of every label."""
        return self._linked(np.arange(len(self.pair_of_label), dtype=np.int32), len(self.pair_of_label))

    def _header_without_first(self) -> Header:
        """The header table of the labels of documents that lack the first attribute: only they jump in a self-join.

        A document with the first attribute shares that pair before it reaches a group that it might jump over.
        """
        of = self.arrays
        begins = of.offsets[:-1][np.diff(of.offsets) > 0]
        jumping = begins[of.ranks[begins] > 0]
        slot = np.full(len(self.pair_of_label), -1, np.int32)
        if len(jumping):  # documents without the first attribute come last
            wanted = np.unique(of.labels[jumping[0] :])
            slot[wanted] = np.arange(len(wanted), dtype=np.int32)
            return self._linked(slot, len(wanted))
        return Header(slot, np.zeros(1, np.int32), np.empty(0, np.int32), np.empty(0, np.uint64))

    def _linked(self, slot: I32, wanted: int) -> Header:
        of = self.arrays
        return Header(slot, *link_labels(slot, wanted, of.nodes, of.origins, of.labels, of.ranks))

    def _in_tree(self, documents: Documents) -> tuple[I32, I32]:
        """Rank and label of every pair of documents, which may have pairs that are not in the tree."""
        attributes, pairs = documents.attributes, documents.pairs
        return _look_up(self.attribute_rank, attributes), _look_up(self.pair_label, pairs)

    @property
    def ubiquitous(self) -> int:
        """How many attributes are in every document: the levels of direct descent."""
        counts = np.bincount(self.documents.attributes, minlength=1)[self.attributes]
        return int((counts == len(self.documents)).sum())

    @property
    def nbytes(self) -> int:
        own = (self.order, self.pair_of_label, self.pair_label, self.attribute_rank)
        linked = self.header if "header" in vars(self) else ()
        return sum(array.nbytes for array in (*self.arrays, *own, *linked) if isinstance(array, np.ndarray))


def attribute_order(documents: Documents) -> I32:
    """Attributes in the order of the tree: by number of documents (descending), then values, then first occurrence."""
    return _attribute_order(documents, occurrences(documents.pairs, len(documents.dictionary)))


def _attribute_order(documents: Documents, counts: I32) -> I32:
    """The same from the pairs' counts: a document has an attribute once, so these sum to its documents."""
    used = np.flatnonzero(counts)
    attribute_of = documents.dictionary.pair_attribute[used]
    values = np.bincount(attribute_of)
    frequency = np.bincount(attribute_of, weights=counts[used])
    present = np.flatnonzero(values)
    return present[np.lexsort((present, values[present], -frequency[present]))].astype(np.int32)


def tree_bytes(documents: Documents) -> int:
    """An upper bound of the memory of `FPTree.build` and a join, without results and the `BLOCK_RUNS` of a block."""
    codes = 4 * (len(documents.dictionary) + len(documents.dictionary.attributes))
    return BYTES_PER_PAIR * len(documents.pairs) + BYTES_PER_DOCUMENT * len(documents) + codes


def _look_up(table: I32, codes: I32) -> I32:
    if not len(table):
        return np.full(len(codes), UNKNOWN, np.int32)
    return np.where(codes < len(table), table[np.minimum(codes, len(table) - 1)], np.int32(UNKNOWN))
