"""Compiled loops that lay an FP-tree out: nodes for what sorted documents share, tails for what they do not.

The documents of a subtree lie side by side, those that end at its root first, and nodes are numbered in preorder.
Arrays that grow with the documents are made here in Python; the loops only fill them (ADR 106).
"""

from __future__ import annotations

import numpy as np

from etl.columnar.jit import kernel
from etl.correlate.documents.dictionary import I32, I64, U64


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
