"""The compiled descent of an FP-tree, for many documents one after the other.

At a node, per attribute that its children have (a *group*), one of four ways:

    the document has the attribute         1. enter the child with its value, if any; a pair is shared from there on
    it lacks it, and no node below the     2. all documents below join if a pair is shared already, none otherwise:
    group has an attribute of it              one run, without visiting a node
    it lacks it, no pair is shared yet,    3. jump to the nodes below that hold a pair of the document (the header
    and few nodes below hold one of its       table), unless the path down to them has an attribute of the document:
                                              then it conflicts, or was entered further up
    otherwise                              4. enter every child

Way 3 keeps documents without a frequent attribute from traversing the whole tree.

Runs come in blocks, in one array that is used again for every block (ADR 123). A document's runs are disjoint, so they
are at most as many as the documents of the tree: the array never has to grow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from etl.columnar.jit import inlined_kernel, kernel
from etl.correlate.documents.dictionary import I32, I64, U64

Records = npt.NDArray[Any]

BLOCK_RUNS = 1 << 20  # a block ends with the document that reaches this: 12 MiB
ABSENT, UNKNOWN = -2, -1  # the document lacks the attribute; its value is not in the tree


NODE = np.dtype(
    [
        ("below", np.uint64),  # one bit per attribute modulo 64: what the nodes below have
        ("tail", np.int32),  # of a leaf: where the rest of its only document begins, in `labels`; -1: no leaf
        ("first", np.int32),  # documents of the subtree: first … end, those that end here: first … own_end
        ("own_end", np.int32),
        ("end", np.int32),
        ("groups", np.int32),
        ("rest_end", np.int32),  # where its groups end; of a leaf, its tail
    ]
)
"""Nodes are records, since a visit reads all fields: one cache miss instead of six in a large tree."""
ORIGIN = np.dtype([("label", np.int32), ("rank", np.int32), ("parent", np.int32)])
"""What a visit does not need of a node: its label, the rank of that attribute, the node above."""
GROUP = np.dtype(
    [
        ("below", np.uint64),  # attributes below, as in a node
        ("rank", np.int32),
        ("start", np.int32),  # the first in `children`; the next group's is the end
        ("first", np.int32),  # the first document below
        ("next_node", np.int32),  # the first node, in preorder, after those below
    ]
)
"""Children of one attribute."""
CHILD = np.dtype([("node", np.int32), ("label", np.int32)])


class TreeArrays(NamedTuple):
    """The arrays of a tree. Node 0 is the root; nodes are in preorder, children and groups of a node side by side."""

    offsets: I64  # the documents in the order of the tree: their labels, rising, and the ranks of the attributes
    labels: I32
    ranks: I32
    nodes: Records
    groups: Records  # and one more, which ends the children of the last one
    children: Records
    origins: Records
    attributes: int


class Header(NamedTuple):
    """The header table: the nodes of a label's slot, in preorder; a label in a tail is listed with its leaf."""

    slot: I32  # of every label, -1: not needed
    offsets: I32
    nodes: I32
    above: U64  # attributes between the root and the label, one bit each modulo 64


class Probe(NamedTuple):
    """One probing document."""

    number: int
    limit: int  # only the first `limit` documents of the tree count
    mask: np.uint64  # its attributes, one bit each modulo 64
    low: int  # its pairs
    high: int


class Block(NamedTuple):
    """Runs (number, from, to) of joinable documents, valid until the next block is asked for."""

    runs: I32
    done: int  # probing documents whose runs are in this block or in an earlier one

    @property
    def pairs(self) -> int:
        """The number of pairs, without producing them."""
        return int(self.runs[:, 2].sum(dtype=np.int64) - self.runs[:, 1].sum(dtype=np.int64))


def descend(
    tree: TreeArrays, header: Header, offsets: I64, ranks: I32, labels: I32, limits: I64, block_runs: int = BLOCK_RUNS
) -> Iterator[Block]:  # fmt: skip
    """The runs of each document among the first `limits` of the tree, in blocks of about `block_runs`."""
    values = np.full(tree.attributes, ABSENT, np.int32)  # of the probing document, by rank
    stack = np.empty(len(tree.nodes), np.int64)  # nodes to visit, doubled, plus one when a pair is shared
    room = min(block_runs, int(limits.sum())) + int(limits.max(initial=0))
    runs, done = np.empty((room, 3), np.int32), 0  # unused pages are never touched
    while done < len(limits):
        count, done = _descend(tree, header, offsets, ranks, labels, limits, done, block_runs, values, stack, runs)
        yield Block(runs[:count], done)


@kernel
def _descend(
    tree: TreeArrays, header: Header, offsets: I64, ranks: I32, labels: I32, limits: I64, number: int,
    block_runs: int, values: I32, stack: I64, found: I32,
) -> tuple[int, int]:  # fmt: skip
    """Fill a block from the document `number` on: the count of its runs, and the document after the last one."""
    count = 0
    while number < len(limits) and count < block_runs:
        low, high, mask, known = offsets[number], offsets[number + 1], np.uint64(0), False
        for position in range(low, high):
            if ranks[position] >= 0:
                values[ranks[position]] = labels[position]
                known |= labels[position] >= 0
                mask |= np.uint64(1) << np.uint64(ranks[position] & 63)
        if known and limits[number] > 0:
            probe = Probe(number, limits[number], mask, low, high)
            count = _descend_one(tree, header, probe, values, ranks, labels, stack, found, count)
        for position in range(low, high):
            if ranks[position] >= 0:
                values[ranks[position]] = ABSENT
        number += 1
    return count, number


@inlined_kernel
def _descend_one(
    tree: TreeArrays, header: Header, probe: Probe, values: I32, ranks: I32, labels: I32, stack: I64, found: I32,
    count: int,
) -> int:  # fmt: skip
    stack[0], height = 0, 1
    while height > 0:
        height -= 1
        number, shared = stack[height] >> 1, stack[height] & 1
        node = tree.nodes[number]
        if node.tail >= 0:
            if _tail_joins(tree, node, values, shared):
                count = _emit(found, count, probe.number, node.first, min(probe.limit, node.end))
            continue
        own_end = min(probe.limit, node.own_end)
        if shared and own_end > node.first:
            count = _emit(found, count, probe.number, node.first, own_end)
        for place in range(node.groups, node.rest_end):
            group, stop = tree.groups[place], tree.groups[place + 1].start
            if group.first >= probe.limit:
                break
            value = values[group.rank]
            if value == ABSENT and (group.below & probe.mask) == 0:
                if shared:
                    last = min(probe.limit, tree.nodes[tree.children[stop - 1].node].end)
                    count = _emit(found, count, probe.number, group.first, last)
            elif value == ABSENT and (shared or not _few_below(tree, header, place, probe, ranks, labels)):
                for at in range(group.start, stop):
                    child = tree.nodes[tree.children[at].node]
                    if child.first >= probe.limit:
                        break
                    if (child.below & probe.mask) != 0:
                        stack[height] = 2 * tree.children[at].node + shared
                        height += 1
                    elif shared:
                        count = _emit(found, count, probe.number, child.first, min(probe.limit, child.end))
            elif value == ABSENT:
                height = _jump(tree, header, number, place, probe, values, ranks, labels, stack, height)
            elif value >= 0:
                at = _child_with(tree.children, group.start, stop, value)
                if at >= 0 and tree.nodes[at].first < probe.limit:
                    stack[height] = 2 * at + 1
                    height += 1
    return count


@kernel
def _child_with(children: Records, low: int, stop: int, label: int) -> int:
    """The child that has a label, among those of a group; -1 if none has."""
    high = stop
    while low < high:
        middle = (low + high) // 2
        if children[middle].label < label:
            low = middle + 1
        else:
            high = middle
    return int(children[low].node) if low < stop and children[low].label == label else -1


@kernel
def _tail_joins(tree: TreeArrays, leaf: Any, values: I32, shared: int) -> bool:
    """Whether a document joins with the tail of a leaf's document; `shared`: they share a pair above."""
    for position in range(leaf.tail, leaf.rest_end):
        value = values[tree.ranks[position]]
        if value != ABSENT:
            if value != tree.labels[position]:
                return False
            shared = 1
    return shared == 1


@kernel
def _few_below(tree: TreeArrays, header: Header, group: int, probe: Probe, ranks: I32, labels: I32) -> bool:
    """Whether fewer nodes below a group hold a pair of the document than the group has nodes."""
    allowed = tree.groups[group + 1].start - tree.groups[group].start
    for position in range(probe.low, probe.high):
        if labels[position] >= 0 and ranks[position] > tree.groups[group].rank:
            low, high = _holding(tree, header, group, labels[position])
            allowed -= high - low
            if allowed < 0:
                return False
    return True


@kernel
def _holding(tree: TreeArrays, header: Header, group: int, label: int) -> tuple[int, int]:
    """Nodes with a label below a group, as a range of the header table."""
    first, after = tree.children[tree.groups[group].start].node, tree.groups[group].next_node
    slot = header.slot[label]
    low = lower_bound(header.nodes, header.offsets[slot], header.offsets[slot + 1], first)
    return low, lower_bound(header.nodes, low, header.offsets[slot + 1], after)


@kernel
def _jump(
    tree: TreeArrays, header: Header, node: int, group: int, probe: Probe, values: I32, ranks: I32, labels: I32,
    stack: I64, height: int,
) -> int:  # fmt: skip
    """Push the nodes below a group that hold the first shared pair of their path."""
    for position in range(probe.low, probe.high):
        label, rank = labels[position], ranks[position]
        if label < 0 or rank <= tree.groups[group].rank:
            continue
        low, high = _holding(tree, header, group, label)
        for place in range(low, high):
            target = header.nodes[place]
            # Up to 64 attributes have a bit each; if there are more, two may have the same.
            if (header.above[place] & probe.mask) != 0 and (
                tree.attributes <= 64 or _meets_above(tree, target, node, label, rank, values)
            ):
                continue
            if tree.nodes[target].first >= probe.limit:
                break
            stack[height] = 2 * target + 1
            height += 1
    return height


@kernel
def _meets_above(tree: TreeArrays, target: int, top: int, label: int, rank: int, values: I32) -> bool:
    """Whether a document has an attribute of the path that leads from `top` to a label, at or in the tail of a node."""
    above = tree.origins[target].parent
    if tree.origins[target].rank != rank:
        above, position = target, tree.nodes[target].tail
        while tree.labels[position] != label:
            if values[tree.ranks[position]] != ABSENT:
                return True
            position += 1
    while above != top:
        if values[tree.origins[above].rank] != ABSENT:
            return True
        above = tree.origins[above].parent
    return False


@kernel
def _emit(found: I32, count: int, probe: int, low: int, high: int) -> int:
    """Append a run, or lengthen the last one that it follows on."""
    if count > 0 and found[count - 1, 2] == low and found[count - 1, 0] == probe:
        found[count - 1, 2] = high
        return count
    found[count, 0], found[count, 1], found[count, 2] = probe, low, high
    return count + 1


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
