"""The baselines, compiled and on the same representation as the tree, so that only the algorithms differ.

Every document's pairs are sorted by attribute, so two documents are compared by one merge that ends at the first
conflict. The most common attributes come first, where conflicts are found soonest.
"""

from __future__ import annotations

import numpy as np

from etl.columnar.jit import allocating_kernel as kernel
from etl.correlate.documents.dictionary import I32, I64
from etl.correlate.documents.joining.tree import attribute_order
from etl.correlate.documents.joining.tree_order import labelled
from etl.correlate.documents.model import Documents, Pairs


def nested_loop(documents: Documents) -> Pairs:
    """NLJ: compare every two documents."""
    labels, ranks = _ordered(documents)
    found = _nested_loop(documents.offsets, labels, ranks)
    return Pairs(documents.ids[found[:, 0]], documents.ids[found[:, 1]])


def hash_join(documents: Documents) -> Pairs:
    """HBJ: compare documents that are in one list of an inverted index."""
    labels, ranks = _ordered(documents)
    found = _hash_join(documents.offsets, labels, ranks, len(documents.dictionary))
    return Pairs(documents.ids[found[:, 0]], documents.ids[found[:, 1]])


def _ordered(documents: Documents) -> tuple[I32, I32]:
    """The documents' labels in the order of attributes, and the ranks of their attributes."""
    order = attribute_order(documents)
    rank = np.zeros(len(documents.dictionary.attributes), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    used = np.flatnonzero(np.bincount(documents.pairs, minlength=1))
    if not len(documents.pairs):
        return np.empty(0, np.int32), np.empty(0, np.int32)
    used = used[np.lexsort((used, rank[documents.dictionary.pair_attribute[used]]))]
    label = np.zeros(len(documents.dictionary), np.int32)
    label[used] = np.arange(len(used), dtype=np.int32)
    labels = labelled(documents.offsets, documents.pairs, label)
    return labels, rank[documents.dictionary.pair_attribute[used]][labels]


@kernel
def _joinable(offsets: I64, labels: I32, ranks: I32, one: int, other: int) -> bool:
    mine, mine_end = offsets[one], offsets[one + 1]
    theirs, theirs_end = offsets[other], offsets[other + 1]
    shared = False
    while mine < mine_end and theirs < theirs_end:
        if labels[mine] == labels[theirs]:
            shared = True
            mine += 1
            theirs += 1
        elif ranks[mine] == ranks[theirs]:
            return False
        elif ranks[mine] < ranks[theirs]:
            mine += 1
        else:
            theirs += 1
    return shared


@kernel
def _append(found: I64, count: int, one: int, other: int) -> I64:
    if count == len(found):
        larger = np.empty((2 * count, 2), np.int64)
        larger[:count] = found
        found = larger
    found[count, 0], found[count, 1] = one, other
    return found


@kernel
def _nested_loop(offsets: I64, labels: I32, ranks: I32) -> I64:
    found, count = np.empty((1024, 2), np.int64), 0
    for document in range(len(offsets) - 1):
        for before in range(document):
            if _joinable(offsets, labels, ranks, before, document):
                found = _append(found, count, before, document)
                count += 1
    return found[:count].copy()


@kernel
def _hash_join(offsets: I64, labels: I32, ranks: I32, values: int) -> I64:
    found, count = np.empty((1024, 2), np.int64), 0
    starts = np.zeros(values + 1, np.int64)
    for label in labels:
        starts[label + 1] += 1
    starts = np.cumsum(starts)
    postings, ends = np.empty(len(labels), np.int64), starts[:-1].copy()
    met = np.full(len(offsets), -1, np.int64)  # the last document that was compared with each
    for document in range(len(offsets) - 1):
        for position in range(offsets[document], offsets[document + 1]):
            label = labels[position]
            for posting in range(starts[label], ends[label]):
                before = postings[posting]
                if met[before] != document:
                    met[before] = document
                    if _joinable(offsets, labels, ranks, before, document):
                        found = _append(found, count, before, document)
                        count += 1
            postings[ends[label]] = document
            ends[label] += 1
    return found[:count].copy()
