"""Compiled loops that lay an FP-tree out: documents in lexicographic order, then nodes for what they share.

A document is a rising sequence of labels; a prefix sorts before what it is a prefix of. So the documents of a subtree
lie side by side, those that end at its root first, and nodes are numbered in preorder. Arrays that grow with the
documents are made here in Python; the loops only fill them (ADR 106).
"""

from __future__ import annotations

import numpy as np

from etl.columnar.jit import allocating_kernel, kernel
from etl.correlate.documents.dictionary import I32, I64, U64

_INSERTION = 12  # documents from which on a partition is worth making
_SHORT = 48  # labels up to which insertion beats a sort
_BLOCK = 4_096  # documents of a block
_DRAWN = 8  # documents of a block that are drawn to tell blocks apart by


@allocating_kernel
def sort_labels(offsets: I64, labels: I32, ranks: I32) -> None:
    """Put every document's labels in rising order, in place; the ranks of their attributes rise with them."""
    for document in range(len(offsets) - 1):
        low, high = offsets[document], offsets[document + 1]
        if high - low > _SHORT:
            labels[low:high], ranks[low:high] = np.sort(labels[low:high]), np.sort(ranks[low:high])
            continue
        for position in range(low + 1, high):
            label, rank = labels[position], ranks[position]
            before = position - 1
            while before >= low and labels[before] > label:
                labels[before + 1], ranks[before + 1] = labels[before], ranks[before]
                before -= 1
            labels[before + 1], ranks[before + 1] = label, rank


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


def in_tree_order(offsets: I64, labels: I32, ranks: I32) -> tuple[I64, I64, I32, I32]:
    """Positions of the documents in lexicographic order, and the documents so: offsets, labels and ranks.

    In two steps, so that a large window is no slower per document than a small one: all documents are moved to one of
    many blocks, read and written one after the other; then each block, which the processor's cache holds, is sorted.
    """
    count = len(offsets) - 1
    order, ends, laid_out = np.empty(count, np.int64), np.zeros(count + 1, np.int64), np.empty_like(labels)
    block, blocks = _blocks(offsets, labels)
    sizes = np.bincount(block, minlength=blocks)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    widths = np.bincount(block, weights=np.diff(offsets), minlength=blocks).astype(np.int64)
    ranks_out = np.empty_like(ranks)
    _to_blocks(
        offsets, labels, ranks, block, starts[:-1].copy(), np.cumsum(widths) - widths, order, ends, laid_out, ranks_out
    )
    _sort_blocks(starts, int(sizes.max(initial=0)), int(widths.max(initial=0)), order, ends, laid_out, ranks_out)
    return order, ends, laid_out, ranks_out


def _blocks(offsets: I64, labels: I32) -> tuple[I32, int]:
    """The block of every document, and how many there are. Whatever is in a block precedes what is in the next."""
    count = len(offsets) - 1
    block = np.zeros(count, np.int32)
    if count < 2 * _BLOCK:
        return block, 1
    drawn = np.arange(0, count, max(1, _BLOCK // _DRAWN), dtype=np.int64)
    _sort_all(offsets, labels, drawn)
    splitters = [labels[offsets[one] : offsets[one + 1]] for one in drawn[_DRAWN::_DRAWN].tolist()]
    ends = np.cumsum([0, *map(len, splitters)])
    _find_blocks(offsets, labels, ends, np.concatenate(splitters), block)
    return block, len(splitters) + 1


@kernel
def _find_blocks(offsets: I64, labels: I32, splitter_offsets: I64, splitters: I32, block: I32) -> None:
    """How many splitters do not come after each document."""
    for document in range(len(block)):
        low, high = 0, len(splitter_offsets) - 1
        while low < high:
            middle, depth = (low + high) // 2, 0
            while True:
                mine, others = (
                    _label_at(offsets, labels, document, depth),
                    _label_at(splitter_offsets, splitters, middle, depth),
                )
                if mine != others or mine < 0:
                    break
                depth += 1
            if mine < others:
                high = middle
            else:
                low = middle + 1
        block[document] = low


@kernel
def _to_blocks(
    offsets: I64, labels: I32, ranks: I32, block: I32, place: I64, filled: I64,
    order: I64, ends: I64, laid_out: I32, ranks_out: I32,
) -> None:  # fmt: skip
    """Move every document to the end of its block. `place`, `filled`: where blocks begin, by documents and labels."""
    for document in range(len(block)):
        here = block[document]
        order[place[here]] = document
        to = filled[here]
        for at in range(offsets[document], offsets[document + 1]):
            laid_out[to], ranks_out[to] = labels[at], ranks[at]
            to += 1
        filled[here] = to
        place[here] += 1
        ends[place[here]] = to


@allocating_kernel
def _sort_all(offsets: I64, labels: I32, order: I64) -> None:
    _sort(offsets, labels, order, np.empty(len(order), np.int32), np.empty((len(order) + 8, 4), np.int64))


@allocating_kernel
def _sort_blocks(starts: I64, largest: int, widest: int, order: I64, ends: I64, laid_out: I32, ranks: I32) -> None:
    """Sort the documents of every block, in place."""
    keys, waiting = np.empty(largest, np.int32), np.empty((largest + 8, 4), np.int64)
    sorted_order, numbers, offsets = (
        np.empty(largest, np.int64),
        np.empty(largest, np.int64),
        np.empty(largest + 1, np.int64),
    )
    labels, own_ranks = np.empty(widest, np.int32), np.empty(widest, np.int32)
    for block in range(len(starts) - 1):
        low, count = starts[block], starts[block + 1] - starts[block]
        begin, end = ends[low], ends[low + count]
        labels[: end - begin], own_ranks[: end - begin] = laid_out[begin:end], ranks[begin:end]
        for position in range(count):
            sorted_order[position], numbers[position] = position, order[low + position]
            offsets[position] = ends[low + position] - begin
        offsets[count] = end - begin
        _sort(offsets, labels, sorted_order[:count], keys, waiting)
        to = begin
        for position in range(count):
            document = sorted_order[position]
            order[low + position] = numbers[document]
            for at in range(offsets[document], offsets[document + 1]):
                laid_out[to], ranks[to] = labels[at], own_ranks[at]
                to += 1
            ends[low + position + 1] = to


@allocating_kernel
def _sort(offsets: I64, labels: I32, order: I64, keys: I32, waiting: I64) -> None:
    """Sort some documents by quicksort on one label at a time (multikey quicksort).

    The labels at hand lie beside the positions, so that each is fetched from its document once, not in every pass.
    """
    # Of what waits: from, to, depth, and whether the labels are fetched.
    waiting[0, 0], waiting[0, 1], waiting[0, 2], waiting[0, 3] = 0, len(order), 0, 0
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


def occurrences(codes: I32, bins: int) -> I32:
    """How often every code below `bins` occurs."""
    counts = np.zeros(bins, np.int32)
    _count(codes, counts)
    return counts


@kernel
def _count(codes: I32, counts: I32) -> None:
    for code in codes:
        counts[code] += 1


def counting_order(keys: I32, bins: int) -> I32:
    """The positions key by key, those of one key rising: two passes, no comparison. Keys are below `bins`."""
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(occurrences(keys, bins), dtype=np.int64)])
    order = np.empty(len(keys), np.int32)
    _place(keys, starts, order)
    return order


@kernel
def _place(keys: I32, filled: I64, order: I32) -> None:
    for position in range(len(keys)):
        key = keys[position]
        order[filled[key]] = position
        filled[key] += 1


def lay_out_nodes(offsets: I64, labels: I32, ranks: I32, longest: int) -> tuple[I32, I32, I32, I32, I32, I32, I32]:
    """Nodes in preorder: label, rank, parent, tail, and the documents of the subtree. Documents are in tree order.

    What only one document, or several equal ones, have below the last label that they share with another is no chain
    of nodes: it is a *tail*, which begins there in `labels` and belongs to one node, the *leaf*. -1: no leaf.
    """
    common = np.zeros(len(offsets), np.int32)  # labels that a document begins with as the one before it does
    nodes = _count_nodes(offsets, labels, common)
    label, rank, parent = np.empty(nodes, np.int32), np.empty(nodes, np.int32), np.empty(nodes, np.int32)
    tail = np.full(nodes, -1, np.int32)
    first, own_end, end = np.empty(nodes, np.int32), np.empty(nodes, np.int32), np.empty(nodes, np.int32)
    path = np.zeros(longest + 1, np.int32)  # the nodes from the root to where the last document ended
    _fill_nodes(offsets, labels, ranks, common, path, label, rank, parent, tail, first, own_end, end)
    return label, rank, parent, tail, first, own_end, end


@kernel
def _count_nodes(offsets: I64, labels: I32, common: I32) -> int:
    documents, nodes, above = len(offsets) - 1, 1, 0  # above: what the equal documents share with the one before them
    for position in range(documents):
        low, length = offsets[position], offsets[position + 1] - offsets[position]
        same, equal = 0, False
        if position + 1 < documents:
            following = offsets[position + 1]
            others = offsets[position + 2] - following
            least = min(length, others)
            while same < least and labels[low + same] == labels[following + same]:
                same += 1
            equal = same == length and length == others
            common[position + 1] = same
        if not equal:
            nodes += min(max(above, same) + 1, length) - above
            above = same
    return nodes


@kernel
def _fill_nodes(
    offsets: I64, labels: I32, ranks: I32, common: I32, path: I32,
    label: I32, rank: I32, parent: I32, tail: I32, first: I32, own_end: I32, end: I32,
) -> None:  # fmt: skip
    documents, count, depth, position = len(offsets) - 1, 1, 0, 0
    label[0], rank[0], parent[0], first[0], own_end[0], end[0] = -1, -1, -1, 0, 0, documents
    while position < documents:
        low, length, shared = offsets[position], offsets[position + 1] - offsets[position], common[position]
        last = position + 1  # of equal documents
        while last < documents and common[last] == length and offsets[last + 1] - offsets[last] == length:
            last += 1
        for level in range(shared + 1, depth + 1):
            end[path[level]] = position
        deepest = max(shared, common[last])
        depth = min(deepest + 1, length)
        for level in range(shared, depth):
            label[count], rank[count], parent[count] = labels[low + level], ranks[low + level], path[level]
            first[count], own_end[count] = position, position
            path[level + 1] = count
            count += 1
        own_end[path[depth]] = last
        if depth > deepest:
            tail[path[depth]] = low + depth
        position = last
    for level in range(depth + 1):
        end[path[level]] = documents


def lay_out_groups(
    label: I32, rank: I32, parent: I32, tail: I32, first: I32, offsets: I64, ranks: I32
) -> tuple[I32, I32, I32, I32, I32, U64, U64]:
    """Children by node, then by attribute: one group for each attribute that a node's children have.

    The masks say, one bit per attribute modulo 64, which attributes are below a node, and below a group's nodes.
    """
    nodes = len(label)
    children, child_label, below = (
        np.empty(nodes - 1, np.int32),
        np.empty(nodes - 1, np.int32),
        np.zeros(nodes, np.uint64),
    )
    child_offsets, group_offsets = np.zeros(nodes + 1, np.int32), np.zeros(nodes + 1, np.int32)
    filled = np.empty(nodes, np.int32)
    groups = _fill_children(
        label, rank, parent, tail, first, offsets, ranks, child_offsets, filled, children, child_label, below
    )
    group_rank, group_start = np.empty(groups, np.int32), np.empty(groups + 1, np.int32)
    group_below = np.zeros(groups, np.uint64)
    _fill_groups(rank, child_offsets, children, below, group_offsets, group_rank, group_start, group_below)
    return group_offsets, group_rank, group_start, children, child_label, below, group_below


@kernel
def _fill_children(
    label: I32, rank: I32, parent: I32, tail: I32, first: I32, offsets: I64, ranks: I32,
    child_offsets: I32, filled: I32, children: I32, child_label: I32, below: U64,
) -> int:  # fmt: skip
    """The children of every node; returns how many groups they are in."""
    nodes, groups = len(label), 0
    for node in range(1, nodes):
        child_offsets[parent[node] + 1] += 1
    for node in range(nodes):
        filled[node] = child_offsets[node]
        child_offsets[node + 1] += child_offsets[node]
    for node in range(1, nodes):
        place = filled[parent[node]]
        groups += place == child_offsets[parent[node]] or rank[children[place - 1]] != rank[node]
        children[place], child_label[place] = node, label[node]
        filled[parent[node]] = place + 1
    for node in range(nodes - 1, 0, -1):
        if tail[node] >= 0:
            for position in range(tail[node], offsets[first[node] + 1]):
                below[node] |= np.uint64(1) << np.uint64(ranks[position] & 63)
        below[parent[node]] |= below[node] | np.uint64(1) << np.uint64(rank[node] & 63)
    return groups


@kernel
def _fill_groups(
    rank: I32, child_offsets: I32, children: I32, below: U64,
    group_offsets: I32, group_rank: I32, group_start: I32, group_below: U64,
) -> None:  # fmt: skip
    groups = 0
    for node in range(len(rank)):
        last = -1
        for place in range(child_offsets[node], child_offsets[node + 1]):
            child = children[place]
            if rank[child] != last:
                group_rank[groups], group_start[groups], last = rank[child], place, rank[child]
                groups += 1
            group_below[groups - 1] |= below[child]
        group_offsets[node + 1] = groups
    group_start[groups] = len(children)


def link_labels(
    slot: I32, wanted: int, label: I32, tail: I32, first: I32, offsets: I64, labels: I32
) -> tuple[I32, I32]:
    """The header table of the labels with a slot: the nodes of each, in preorder; for what is in a tail its leaf."""
    starts = np.zeros(wanted + 1, np.int32)
    _count_links(slot, label, tail, first, offsets, labels, starts[1:])
    np.cumsum(starts, out=starts)
    nodes = np.empty(starts[-1], np.int32)
    _fill_links(slot, label, tail, first, offsets, labels, starts[:-1].copy(), nodes)
    return starts, nodes


@kernel
def _count_links(slot: I32, label: I32, tail: I32, first: I32, offsets: I64, labels: I32, counts: I32) -> None:
    for node in range(1, len(label)):
        if slot[label[node]] >= 0:
            counts[slot[label[node]]] += 1
        if tail[node] >= 0:
            for position in range(tail[node], offsets[first[node] + 1]):
                if slot[labels[position]] >= 0:
                    counts[slot[labels[position]]] += 1


@kernel
def _fill_links(
    slot: I32, label: I32, tail: I32, first: I32, offsets: I64, labels: I32, filled: I32, nodes: I32
) -> None:
    for node in range(1, len(label)):
        here = slot[label[node]]
        if here >= 0:
            nodes[filled[here]] = node
            filled[here] += 1
        if tail[node] >= 0:
            for position in range(tail[node], offsets[first[node] + 1]):
                here = slot[labels[position]]
                if here >= 0:
                    nodes[filled[here]] = node
                    filled[here] += 1
