"""The compiled descent of an FP-tree, for many documents one after the other.

At a node, per attribute that its children have (a *group*), one of four ways:

    the document has the attribute         1. enter the child with its value, if any; a pair is shared from there on
    it has not, and nothing below the      2. all documents below join if a pair is shared already, none otherwise:
    group has an attribute of it              one run, without looking at a node
    it has not, no pair is shared yet,     3. jump to the nodes below that hold a pair of the document (the header
    and few nodes below hold one of its       table), unless an attribute on the path up to here is the document's too:
                                              then it conflicts, or was entered further up
    otherwise                              4. enter every child

Way 3 is what keeps documents without a frequent attribute from walking through the whole tree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from etl.columnar.jit import allocating_kernel as kernel
from etl.correlate.documents.dictionary import I32, I64, U64

_ROOM = 8  # runs per document that there is room for at first
ABSENT, UNKNOWN = -2, -1  # the document has not the attribute; it has it with a value that the tree has not


class TreeArrays(NamedTuple):
    """What the descent reads. Node 0 is the root; nodes are in preorder."""

    offsets: I64  # the documents in the order of the tree: their labels, rising, and the ranks of the attributes
    labels: I32
    ranks: I32
    label: I32  # of every node, with the rank of its attribute
    rank: I32
    parent: I32
    tail: I32  # of a leaf: where the rest of its only document begins, in `labels`; -1: no leaf
    first: I32  # documents of a node's subtree: first … end, those that end here: first … own_end
    own_end: I32
    end: I32
    group_offsets: I32  # groups of every node
    group_rank: I32  # the attribute that a group's nodes have
    group_start: I32  # nodes of a group, in `children`
    children: I32
    child_label: I32
    below: U64  # one bit per attribute modulo 64: what the nodes below have
    group_below: U64
    attributes: int


class Header(NamedTuple):
    """Where labels are: the nodes of a label's slot, in preorder; a label in a tail is where its leaf is."""

    slot: I32  # of every label, -1: nobody asks for it
    offsets: I32
    nodes: I32


class Probe(NamedTuple):
    """One document on its way down."""

    number: int
    limit: int  # only the first `limit` documents of the tree count
    mask: np.uint64  # its attributes, one bit each modulo 64
    low: int  # its pairs
    high: int


def descend(tree: TreeArrays, header: Header, offsets: I64, ranks: I32, labels: I32, limits: I64, numbers: I64) -> I32:
    """Runs (number, from, to) of joinable documents, for each document among the first `limits` of the tree."""
    room = np.empty((_ROOM * len(limits) + 1024, 3), np.int32)  # what is not used is never touched
    found, count = _descend(tree, header, offsets, ranks, labels, limits, numbers, room)
    return found[:count]


@kernel
def _descend(
    tree: TreeArrays, header: Header, offsets: I64, ranks: I32, labels: I32, limits: I64, numbers: I64, found: I32
) -> tuple[I32, int]:
    values = np.full(tree.attributes, ABSENT, np.int32)  # of the probing document, by rank
    stack = np.empty(len(tree.first) + 1, np.int64)  # nodes to visit, doubled, plus one when a pair is shared
    count = 0
    for number in range(len(offsets) - 1):
        low, high, mask, known = offsets[number], offsets[number + 1], np.uint64(0), False
        for position in range(low, high):
            if ranks[position] >= 0:
                values[ranks[position]] = labels[position]
                known |= labels[position] >= 0
                mask |= np.uint64(1) << np.uint64(ranks[position] & 63)
        if known and limits[number] > 0:
            probe = Probe(numbers[number], limits[number], mask, low, high)
            found, count = _descend_one(tree, header, probe, values, ranks, labels, stack, found, count)
        for position in range(low, high):
            if ranks[position] >= 0:
                values[ranks[position]] = ABSENT
    return found, count


@kernel
def _descend_one(
    tree: TreeArrays, header: Header, probe: Probe, values: I32, ranks: I32, labels: I32, stack: I64, found: I32,
    count: int,
) -> tuple[I32, int]:  # fmt: skip
    stack[0], height = 0, 1
    while height > 0:
        height -= 1
        node, shared = stack[height] >> 1, stack[height] & 1
        if tree.tail[node] >= 0:
            if _tail_joins(tree, node, values, shared):
                last = min(probe.limit, int(tree.end[node]))
                found, count = _emit(found, count, probe.number, int(tree.first[node]), last)
            continue
        own_end = min(probe.limit, int(tree.own_end[node]))
        if shared and own_end > tree.first[node]:
            found, count = _emit(found, count, probe.number, int(tree.first[node]), own_end)
        for group in range(tree.group_offsets[node], tree.group_offsets[node + 1]):
            start, stop = tree.group_start[group], tree.group_start[group + 1]
            first = int(tree.first[tree.children[start]])
            if first >= probe.limit:
                break
            value = values[tree.group_rank[group]]
            if value == ABSENT and (tree.group_below[group] & probe.mask) == 0:
                if shared:
                    last = min(probe.limit, int(tree.end[tree.children[stop - 1]]))
                    found, count = _emit(found, count, probe.number, first, last)
            elif value == ABSENT and (shared or not _few_below(tree, header, group, probe, ranks, labels)):
                for place in range(start, stop):
                    child = int(tree.children[place])
                    if tree.first[child] >= probe.limit:
                        break
                    if (tree.below[child] & probe.mask) != 0:
                        stack[height] = 2 * child + shared
                        height += 1
                    elif shared:
                        last = min(probe.limit, int(tree.end[child]))
                        found, count = _emit(found, count, probe.number, int(tree.first[child]), last)
            elif value == ABSENT:
                found, count, height = _jump(
                    tree, header, node, group, probe, values, ranks, labels, stack, height, found, count
                )
            elif value >= 0:
                place = lower_bound(tree.child_label, start, stop, value)
                if place < stop and tree.child_label[place] == value and tree.first[tree.children[place]] < probe.limit:
                    stack[height] = 2 * int(tree.children[place]) + 1
                    height += 1
    return found, count


@kernel
def _tail_joins(tree: TreeArrays, leaf: int, values: I32, shared: int) -> bool:
    """Whether a document joins with the rest of a leaf's; `shared`: they share a pair above."""
    for position in range(tree.tail[leaf], tree.offsets[tree.first[leaf] + 1]):
        value = values[tree.ranks[position]]
        if value != ABSENT:
            if value != tree.labels[position]:
                return False
            shared = 1
    return shared == 1


@kernel
def _few_below(tree: TreeArrays, header: Header, group: int, probe: Probe, ranks: I32, labels: I32) -> bool:
    """Whether fewer nodes below a group hold a pair of the document than the group has nodes."""
    allowed = tree.group_start[group + 1] - tree.group_start[group]
    for position in range(probe.low, probe.high):
        if labels[position] >= 0 and ranks[position] > tree.group_rank[group]:
            low, high = _holding(tree, header, group, labels[position])
            allowed -= high - low
            if allowed < 0:
                return False
    return True


@kernel
def _holding(tree: TreeArrays, header: Header, group: int, label: int) -> tuple[int, int]:
    """Nodes with a label below a group, as a part of the header table."""
    first = tree.children[tree.group_start[group]]
    last_child = tree.children[tree.group_start[group + 1] - 1]
    slot = header.slot[label]
    low = lower_bound(header.nodes, header.offsets[slot], header.offsets[slot + 1], first)
    # Nodes are in preorder, as their documents are: below the last child are those whose documents are its documents.
    high, step_end = low, int(header.offsets[slot + 1])
    while high < step_end:
        middle = (high + step_end) // 2
        if tree.first[header.nodes[middle]] < tree.end[last_child]:
            high = middle + 1
        else:
            step_end = middle
    return low, high


@kernel
def _jump(
    tree: TreeArrays, header: Header, node: int, group: int, probe: Probe, values: I32, ranks: I32, labels: I32,
    stack: I64, height: int, found: I32, count: int,
) -> tuple[I32, int, int]:  # fmt: skip
    """Visit the nodes below a group that hold the first shared pair of their path."""
    for position in range(probe.low, probe.high):
        label = labels[position]
        if label < 0 or ranks[position] <= tree.group_rank[group]:
            continue
        low, high = _holding(tree, header, group, label)
        for place in range(low, high):
            target = int(header.nodes[place])
            if tree.first[target] >= probe.limit:
                break
            in_tail = tree.label[target] != label
            above = target if in_tail else int(tree.parent[target])
            while above != node and values[tree.rank[above]] == ABSENT:
                above = tree.parent[above]
            if above != node:
                continue
            if not in_tail:
                stack[height] = 2 * target + 1
                height += 1
            elif _begins_with(tree, target, values, label) and _tail_joins(tree, target, values, 1):
                last = min(probe.limit, int(tree.end[target]))
                found, count = _emit(found, count, probe.number, int(tree.first[target]), last)
    return found, count, height


@kernel
def _begins_with(tree: TreeArrays, leaf: int, values: I32, label: int) -> bool:
    """Whether a label of a tail is the first in it of whose attribute the document has a value."""
    position = tree.tail[leaf]
    while values[tree.ranks[position]] == ABSENT:
        position += 1
    return bool(tree.labels[position] == label)


@kernel
def _emit(found: I32, count: int, probe: int, low: int, high: int) -> tuple[I32, int]:
    """Append a run; the array is doubled when it is full."""
    if count == len(found):
        larger = np.empty((2 * count, 3), np.int32)
        larger[:count] = found
        found = larger
    found[count, 0], found[count, 1], found[count, 2] = probe, low, high
    return found, count + 1


@kernel
def lower_bound(values: I32, low: int, high: int, wanted: int) -> int:
    """The first place whose value is not smaller."""
    while low < high:
        middle = (low + high) // 2
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low
