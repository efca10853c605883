"""Compiled loops that build an FP-tree: nodes for common prefixes of sorted documents, tails for the rest.

The documents of a subtree are adjacent, those that end at its root first, and nodes are numbered in preorder. Arrays
that grow with the documents are allocated in Python; the loops only fill them (ADR 106).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from etl.columnar.jit import kernel
from etl.correlate.documents.dictionary import I32, I64, U64
from etl.correlate.documents.joining.descent import CHILD, GROUP, NODE, ORIGIN, Records


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


def lay_out(offsets: I64, labels: I32, ranks: I32, longest: int) -> tuple[Records, Records, Records, Records]:
    """Nodes in preorder, groups, children, and the origin of every node. Documents are in tree order.

    The labels that one document, or several equal ones, have below the last label shared with others are not stored as
    a chain of nodes, but as a *tail*: a position in `labels` that belongs to one node, the *leaf*. -1: no leaf.

    A node is complete when the documents of its subtree are: then its children are known, and are stored side by side
    with their groups. One pass over the documents makes the whole tree, and works on a path from the root at a time.
    """
    common = np.zeros(len(offsets), np.int32)  # length of the common prefix with the previous document
    count = _count_nodes(offsets, labels, common)
    nodes, origins = np.empty(count, NODE), np.empty(count, ORIGIN)
    children, groups = np.empty(count - 1, CHILD), np.empty(count, GROUP)  # places that stay unused are never touched
    path = np.zeros(longest + 1, np.int32)  # the nodes from the root to the end of the last document
    below = np.zeros(longest + 2, np.int32)  # for every level of the path, where its node's children begin in `found`
    found = np.empty(count, np.int32)  # the children of the nodes on the path, so far
    tree = Growing(nodes, origins, groups, children, path, below, found)
    grouped = _fill(offsets, labels, ranks, common, tree)
    return nodes, groups[: grouped + 1], children, origins


class Growing(NamedTuple):
    """The arrays of a tree while it is laid out."""

    nodes: Records
    origins: Records
    groups: Records
    children: Records
    path: I32
    below: I32
    found: I32


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
def _fill(offsets: I64, labels: I32, ranks: I32, common: I32, tree: Growing) -> int:
    """Add document after document; returns the number of groups."""
    documents, count, depth, position = len(offsets) - 1, 1, 0, 0
    held, grouped, placed = 0, 0, 0  # children of nodes on the path; groups, and children, that are in their places
    root, origin = tree.nodes[0], tree.origins[0]
    root.tail, root.below, root.first, root.own_end = -1, 0, 0, 0
    origin.label, origin.rank, origin.parent = -1, -1, -1
    while position < documents:
        low, length, shared = offsets[position], offsets[position + 1] - offsets[position], common[position]
        last = position + 1  # of equal documents
        while last < documents and common[last] == length and offsets[last + 1] - offsets[last] == length:
            last += 1
        for level in range(depth, shared, -1):
            held, grouped, placed = _complete(tree, level, position, count, held, grouped, placed)
        deepest = max(shared, common[last])
        depth = min(deepest + 1, length)
        for level in range(shared, depth):
            node, origin = tree.nodes[count], tree.origins[count]
            node.tail, node.below, node.first, node.own_end = -1, 0, position, position
            origin.label, origin.rank, origin.parent = labels[low + level], ranks[low + level], tree.path[level]
            tree.found[held] = count
            held += 1
            tree.path[level + 1], tree.below[level + 1] = count, held
            count += 1
        node = tree.nodes[tree.path[depth]]
        node.own_end = last
        if depth > deepest:
            node.tail, node.rest_end = low + depth, low + length
            for at in range(low + depth, low + length):
                node.below |= np.uint64(1) << np.uint64(ranks[at] & 63)
        position = last
    for level in range(depth, -1, -1):
        held, grouped, placed = _complete(tree, level, documents, count, held, grouped, placed)
    tree.groups[grouped].start = placed
    return grouped


@kernel
def _complete(
    tree: Growing, level: int, end: int, next_node: int, held: int, grouped: int, placed: int
) -> tuple[int, int, int]:
    """Give the node at a level of the path its end, its children, their groups, and what is below it."""
    node, begin, rank = tree.nodes[tree.path[level]], tree.below[level], -1
    node.end, node.groups = end, grouped
    for at in range(begin, held):
        number = tree.found[at]
        child, origin = tree.nodes[number], tree.origins[number]
        if origin.rank != rank:
            if rank >= 0:
                tree.groups[grouped - 1].next_node = number
            group, rank = tree.groups[grouped], origin.rank
            group.rank, group.start, group.first, group.below = rank, placed, child.first, 0
            grouped += 1
        tree.groups[grouped - 1].below |= child.below
        tree.children[placed].node, tree.children[placed].label = number, origin.label
        node.below |= child.below | np.uint64(1) << np.uint64(rank & 63)
        placed += 1
    if rank >= 0:
        tree.groups[grouped - 1].next_node = next_node
    if node.tail < 0:
        node.rest_end = grouped
    return begin, grouped, placed


def link_labels(
    slot: I32, wanted: int, nodes: Records, origins: Records, labels: I32, ranks: I32
) -> tuple[I32, I32, U64]:
    """The header table of the labels with a slot: the nodes of each, in preorder; for labels in a tail, its leaf."""
    starts = np.zeros(wanted + 1, np.int32)
    _count_links(slot, nodes, origins, labels, starts[1:])
    np.cumsum(starts, out=starts)
    linked, above = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.uint64)
    _fill_links(slot, nodes, origins, labels, ranks, starts[:-1].copy(), linked, above)
    return starts, linked, above


@kernel
def _count_links(slot: I32, nodes: Records, origins: Records, labels: I32, counts: I32) -> None:
    for number in range(1, len(nodes)):
        here = slot[origins[number].label]
        if here >= 0:
            counts[here] += 1
        node = nodes[number]
        if node.tail >= 0:
            for position in range(node.tail, node.rest_end):
                if slot[labels[position]] >= 0:
                    counts[slot[labels[position]]] += 1


@kernel
def _fill_links(
    slot: I32, nodes: Records, origins: Records, labels: I32, ranks: I32,
    filled: I32, linked: I32, above: U64,
) -> None:  # fmt: skip
    for number in range(1, len(nodes)):
        node, here = nodes[number], slot[origins[number].label]
        if here < 0 and node.tail < 0:
            continue
        met, parent = np.uint64(0), origins[number].parent
        while parent > 0:
            met |= np.uint64(1) << np.uint64(origins[parent].rank & 63)
            parent = origins[parent].parent
        if here >= 0:
            linked[filled[here]], above[filled[here]] = number, met
            filled[here] += 1
        if node.tail >= 0:
            met |= np.uint64(1) << np.uint64(origins[number].rank & 63)
            for position in range(node.tail, node.rest_end):
                here = slot[labels[position]]
                if here >= 0:
                    linked[filled[here]], above[filled[here]] = number, met
                    filled[here] += 1
                met |= np.uint64(1) << np.uint64(ranks[position] & 63)
