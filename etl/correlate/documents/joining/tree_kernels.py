"""Compiled loops that build an FP-tree: nodes for common prefixes of sorted documents, tails for the rest.

The documents of a subtree are adjacent, those that end at its root first, and nodes are numbered in preorder. Arrays
that grow with the documents are allocated in Python; the loops only fill them (ADR 106).
"""

from __future__ import annotations

import numpy as np

from etl.columnar.jit import kernel
from etl.correlate.documents.dictionary import I32, I64
from etl.correlate.documents.joining.descent import CHILD, GROUP, NODE, Records


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
    """Stable counting sort: the positions by key, in two passes without comparisons. Keys are below `bins`."""
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


def lay_out_nodes(offsets: I64, labels: I32, ranks: I32, longest: int) -> Records:
    """Nodes in preorder, without their groups and what is below. Documents are in tree order.

    The labels that one document, or several equal ones, have below the last label shared with others are not stored as
    a chain of nodes, but as a *tail*: a position in `labels` that belongs to one node, the *leaf*. -1: no leaf.
    """
    common = np.zeros(len(offsets), np.int32)  # length of the common prefix with the previous document
    nodes = np.empty(_count_nodes(offsets, labels, common) + 1, NODE)
    path = np.zeros(longest + 1, np.int32)  # the nodes from the root to the end of the last document
    _fill_nodes(offsets, labels, ranks, common, path, nodes)
    return nodes


@kernel
def _count_nodes(offsets: I64, labels: I32, common: I32) -> int:
    documents, nodes, above = len(offsets) - 1, 1, 0  # above: labels they share with the one before
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
def _fill_nodes(offsets: I64, labels: I32, ranks: I32, common: I32, path: I32, nodes: Records) -> None:
    documents, count, depth, position = len(offsets) - 1, 1, 0, 0
    root = nodes[0]
    root.label, root.rank, root.parent, root.tail, root.below = -1, -1, -1, -1, 0
    root.first, root.own_end, root.end = 0, 0, documents
    while position < documents:
        low, length, shared = offsets[position], offsets[position + 1] - offsets[position], common[position]
        last = position + 1  # of equal documents
        while last < documents and common[last] == length and offsets[last + 1] - offsets[last] == length:
            last += 1
        for level in range(shared + 1, depth + 1):
            nodes[path[level]].end = position
        deepest = max(shared, common[last])
        depth = min(deepest + 1, length)
        for level in range(shared, depth):
            node = nodes[count]
            node.label, node.rank, node.parent = labels[low + level], ranks[low + level], path[level]
            node.first, node.own_end, node.tail, node.below = position, position, -1, 0
            path[level + 1] = count
            count += 1
        nodes[path[depth]].own_end = last
        if depth > deepest:
            nodes[path[depth]].tail = low + depth
        position = last
    for level in range(depth + 1):
        nodes[path[level]].end = documents


def lay_out_groups(nodes: Records, offsets: I64, ranks: I32) -> tuple[Records, Records]:
    """Groups, one for each attribute that a node's children have, and children by node, then by attribute.

    Also sets each node's groups and the attributes below it.
    """
    children = np.empty(len(nodes) - 2, CHILD)
    child_offsets, filled = np.zeros(len(nodes), np.int32), np.empty(len(nodes) - 1, np.int32)
    groups = np.empty(_fill_children(nodes, offsets, ranks, child_offsets, filled, children) + 1, GROUP)
    _fill_groups(nodes, child_offsets, children, groups)
    return groups, children


@kernel
def _fill_children(nodes: Records, offsets: I64, ranks: I32, child_offsets: I32, filled: I32, children: Records) -> int:
    """The children of every node; returns how many groups they are in."""
    count, groups = len(nodes) - 1, 0
    for number in range(1, count):
        child_offsets[nodes[number].parent + 1] += 1
    for number in range(count):
        filled[number] = child_offsets[number]
        child_offsets[number + 1] += child_offsets[number]
    for number in range(1, count):
        node = nodes[number]
        place = filled[node.parent]
        groups += place == child_offsets[node.parent] or nodes[children[place - 1].node].rank != node.rank
        children[place].node, children[place].label = number, node.label
        filled[node.parent] = place + 1
    for number in range(count - 1, 0, -1):
        node = nodes[number]
        if node.tail >= 0:
            for position in range(node.tail, offsets[node.first + 1]):
                node.below |= np.uint64(1) << np.uint64(ranks[position] & 63)
        nodes[node.parent].below |= node.below | np.uint64(1) << np.uint64(node.rank & 63)
    return groups


@kernel
def _fill_groups(nodes: Records, child_offsets: I32, children: Records, groups: Records) -> None:
    count = 0
    for number in range(len(nodes) - 1):
        nodes[number].groups, last = count, -1
        for place in range(child_offsets[number], child_offsets[number + 1]):
            child = nodes[children[place].node]
            if child.rank != last:
                groups[count].rank, groups[count].start, groups[count].below = child.rank, place, 0
                last = child.rank
                count += 1
            groups[count - 1].below |= child.below
    nodes[len(nodes) - 1].groups = count
    groups[count].start = len(children)


def link_labels(slot: I32, wanted: int, nodes: Records, offsets: I64, labels: I32) -> tuple[I32, I32]:
    """The header table of the labels with a slot: the nodes of each, in preorder; for labels in a tail, its leaf."""
    starts = np.zeros(wanted + 1, np.int32)
    _count_links(slot, nodes, offsets, labels, starts[1:])
    np.cumsum(starts, out=starts)
    linked = np.empty(starts[-1], np.int32)
    _fill_links(slot, nodes, offsets, labels, starts[:-1].copy(), linked)
    return starts, linked


@kernel
def _count_links(slot: I32, nodes: Records, offsets: I64, labels: I32, counts: I32) -> None:
    for number in range(1, len(nodes) - 1):
        node = nodes[number]
        if slot[node.label] >= 0:
            counts[slot[node.label]] += 1
        if node.tail >= 0:
            for position in range(node.tail, offsets[node.first + 1]):
                if slot[labels[position]] >= 0:
                    counts[slot[labels[position]]] += 1


@kernel
def _fill_links(slot: I32, nodes: Records, offsets: I64, labels: I32, filled: I32, linked: I32) -> None:
    for number in range(1, len(nodes) - 1):
        node = nodes[number]
        here = slot[node.label]
        if here >= 0:
            linked[filled[here]] = number
            filled[here] += 1
        if node.tail >= 0:
            for position in range(node.tail, offsets[node.first + 1]):
                here = slot[labels[position]]
                if here >= 0:
                    linked[filled[here]] = number
                    filled[here] += 1
