"""Compiled loops that lay an FP-tree out: documents in lexicographic order, then one node per distinct prefix.

A document is a rising sequence of labels; a prefix sorts before what it is a prefix of. So the documents of a subtree
lie side by side, those that end at its root first, and nodes numbered in preorder need no pointers to parents or
siblings.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from etl.columnar.jit import allocating_kernel as kernel
from etl.correlate.documents.dictionary import I32, I64

_INSERTION = 12  # documents from which on a partition is worth making
_SHORT = 48  # labels up to which insertion beats a sort


@kernel
def sort_labels(offsets: I64, labels: I32) -> None:
    """Put every document's labels in rising order, in place."""
    for document in range(len(offsets) - 1):
        low, high = offsets[document], offsets[document + 1]
        if high - low > _SHORT:
            labels[low:high] = np.sort(labels[low:high])
            continue
        for position in range(low + 1, high):
            label = labels[position]
            before = position - 1
            while before >= low and labels[before] > label:
                labels[before + 1] = labels[before]
                before -= 1
            labels[before + 1] = label


@kernel
def _label_at(offsets: I64, labels: I32, document: int, depth: int) -> int:
    """The label at a depth; a document that has ended sorts first."""
    position = offsets[document] + depth
    return int(labels[position]) if position < offsets[document + 1] else -1


@kernel
def _precedes(offsets: I64, labels: I32, one: int, other: int, depth: int) -> bool:
    while True:
        mine, others = _label_at(offsets, labels, one, depth), _label_at(offsets, labels, other, depth)
        if mine != others:
            return mine < others
        if mine < 0:
            return one < other  # equal documents in the order of the stream
        depth += 1


@kernel
def _insertion_sort(offsets: I64, labels: I32, order: I64, low: int, high: int, depth: int) -> None:
    for position in range(low + 1, high):
        document = order[position]
        before = position - 1
        while before >= low and _precedes(offsets, labels, document, order[before], depth):
            order[before + 1] = order[before]
            before -= 1
        order[before + 1] = document


@kernel
def sort_documents(offsets: I64, labels: I32) -> I64:
    """Positions of the documents in lexicographic order: quicksort on one label at a time (multikey quicksort).

    The labels at hand lie beside the positions, so that each is fetched from its document once, not in every pass.
    """
    count = len(offsets) - 1
    order, keys = np.arange(count), np.empty(count, np.int32)
    waiting = np.empty((count + 8, 4), np.int64)  # from, to, depth, and whether the labels are fetched
    waiting[0, 0], waiting[0, 1], waiting[0, 2], waiting[0, 3] = 0, count, 0, 0
    height = 1
    while height > 0:
        height -= 1
        low, high, depth, fetched = waiting[height]
        if high - low <= _INSERTION:
            _insertion_sort(offsets, labels, order, low, high, depth)
            continue
        if not fetched:
            for position in range(low, high):
                keys[position] = _label_at(offsets, labels, order[position], depth)
        first, middle, last = keys[low], keys[(low + high) // 2], keys[high - 1]
        pivot = max(min(first, middle), min(max(first, middle), last))
        less, current, greater = low, low, high
        while current < greater:
            label = keys[current]
            if label < pivot:
                order[less], order[current] = order[current], order[less]
                keys[less], keys[current] = keys[current], keys[less]
                less += 1
                current += 1
            elif label > pivot:
                greater -= 1
                order[greater], order[current] = order[current], order[greater]
                keys[greater], keys[current] = keys[current], keys[greater]
            else:
                current += 1
        for start, end, deeper in ((low, less, 0), (greater, high, 0), (less, greater, 1)):
            if deeper == 1 and pivot < 0:
                order[start:end] = np.sort(order[start:end])  # equal documents
            elif end - start > 1:
                waiting[height, 0], waiting[height, 1] = start, end
                waiting[height, 2], waiting[height, 3] = depth + deeper, 1 - deeper
                height += 1
    return order


@kernel
def in_order(offsets: I64, labels: I32, order: I64) -> tuple[I64, I32]:
    """The documents themselves in that order: offsets and labels."""
    ends, laid_out = np.zeros(len(order) + 1, np.int64), np.empty(len(labels), np.int32)
    filled = 0
    for position in range(len(order)):
        for at in range(offsets[order[position]], offsets[order[position] + 1]):
            laid_out[filled] = labels[at]
            filled += 1
        ends[position + 1] = filled
    return ends, laid_out


@kernel
def occurrences(codes: I32, bins: int) -> I64:
    """How often every code below `bins` occurs."""
    counts = np.zeros(bins, np.int64)
    for code in codes:
        counts[code] += 1
    return counts


@kernel
def counting_order(keys: I32, bins: int) -> tuple[I64, I32]:
    """Where the positions of every key below `bins` begin, and the positions key by key: two passes, no comparison."""
    offsets = np.zeros(bins + 1, np.int64)
    for position in range(len(keys)):
        offsets[keys[position] + 1] += 1
    for key in range(bins):
        offsets[key + 1] += offsets[key]
    order, filled = np.empty(len(keys), np.int32), offsets[:-1].copy()
    for position in range(len(keys)):
        key = keys[position]
        order[filled[key]] = position
        filled[key] += 1
    return offsets, order


@kernel
def lay_out_nodes(offsets: I64, labels: I32, longest: int) -> tuple[I32, I32, I32, I32, I32, int]:
    """Nodes in preorder: label, parent, and the documents of the subtree. Documents are in the order of the tree."""
    capacity = len(labels) + 1
    label, parent = np.empty(capacity, np.int32), np.empty(capacity, np.int32)
    first, own_end, end = np.zeros(capacity, np.int32), np.zeros(capacity, np.int32), np.zeros(capacity, np.int32)
    path = np.zeros(longest + 1, np.int32)  # the nodes from the root to where the last document ended
    label[0], parent[0], count, depth = -1, -1, 1, 0
    documents = len(offsets) - 1
    for position in range(documents):
        low, high = offsets[position], offsets[position + 1]
        shared = 0
        while shared < depth and shared < high - low and label[path[shared + 1]] == labels[low + shared]:
            shared += 1
        for level in range(shared + 1, depth + 1):
            end[path[level]] = position
        for level in range(shared, high - low):
            label[count], parent[count], first[count] = labels[low + level], path[level], position
            own_end[count] = position
            path[level + 1] = count
            count += 1
        depth = high - low
        own_end[path[depth]] = position + 1
    for level in range(depth + 1):
        end[path[level]] = documents
    return label, parent, first, own_end, end, count


@kernel
def lay_out_groups(
    label: I32, parent: I32, label_rank: I32
) -> tuple[I64, I32, I64, I32, I32, npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Children by node, then by attribute: one group for each attribute that a node's children have.

    The masks say, one bit per attribute modulo 64, which attributes are below a node, and below a group's nodes.
    """
    nodes = len(label)
    child_offsets = np.zeros(nodes + 1, np.int64)
    for node in range(1, nodes):
        child_offsets[parent[node] + 1] += 1
    for node in range(nodes):
        child_offsets[node + 1] += child_offsets[node]
    children, filled = np.empty(max(nodes - 1, 0), np.int32), child_offsets[:-1].copy()
    below = np.zeros(nodes, np.uint64)
    for node in range(1, nodes):
        children[filled[parent[node]]] = node
        filled[parent[node]] += 1
    for node in range(nodes - 1, 0, -1):
        bit = np.uint64(1) << np.uint64(label_rank[label[node]] & 63)
        below[parent[node]] |= below[node] | bit
    group_offsets = np.zeros(nodes + 1, np.int64)
    group_rank, group_start = np.empty(nodes, np.int32), np.empty(nodes + 1, np.int64)
    group_below = np.zeros(nodes, np.uint64)
    groups = 0
    for node in range(nodes):
        last = -1
        for position in range(child_offsets[node], child_offsets[node + 1]):
            rank = label_rank[label[children[position]]]
            if rank != last:
                group_rank[groups], group_start[groups], last = rank, position, rank
                groups += 1
            group_below[groups - 1] |= below[children[position]]
        group_offsets[node + 1] = groups
    group_start[groups] = len(children)
    child_label = np.empty(len(children), np.int32)
    for position in range(len(children)):
        child_label[position] = label[children[position]]
    return (
        group_offsets, group_rank[:groups].copy(), group_start[: groups + 1].copy(), children, child_label,
        below, group_below[:groups].copy(),
    )  # fmt: skip
