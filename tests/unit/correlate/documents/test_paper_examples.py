"""The paper's worked examples. What its figures 1 and 3 draw is told in its text only in part; the rest is filled in so
that every statement of the text holds. Table I and figures 4 and 5 are complete in the text."""

from __future__ import annotations

import numpy as np
import pytest

from etl.correlate.documents.dictionary import path_of, stable_hashes
from etl.correlate.documents.joining.fp_join import FPTreeJoin, join
from etl.correlate.documents.joining.plain import as_mappings, joinable
from etl.correlate.documents.joining.tree import FPTree, attribute_order
from etl.correlate.documents.model import Documents, documents_of
from etl.correlate.documents.partitioning.assigner import assign
from etl.correlate.documents.partitioning.association import association_groups, equivalence_groups
from etl.correlate.documents.partitioning.partitions import Partitions, bits, holds
from etl.correlate.documents.partitioning.routing import Routing, route

FIGURE_1 = documents_of(
    [
        {"User": "A", "Severity": "Warn."},
        {"User": "A", "Severity": "Warn.", "MsgId": "2"},
        {"User": "A", "Severity": "Err."},
        {"IP": "10.2.145.212", "Severity": "Warn."},
        {"User": "B", "Severity": "Crit.", "MsgId": "1"},
        {"User": "B", "Severity": "Crit."},
        {"User": "B", "Severity": "Warn."},
    ]
)
PARTITION_1 = ["User\0sA", "Severity\0sWarn.", "Severity\0sErr.", "MsgId\0s2", "IP\0s10.2.145.212"]
PARTITION_2 = ["User\0sB", "Severity\0sCrit.", "MsgId\0s1"]
FIGURE_3 = documents_of(
    [
        {"A": "2", "B": "3", "C": "7"},
        {"A": "2", "B": "3", "C": "7"},
        {"B": "3", "D": "1"},
        {"D": "1", "E": "4"},
        {"F": "5"},
    ]
)
TABLE_I = documents_of(
    [{"a": "3", "b": "7", "c": "1"}, {"a": "3", "b": "8"}, {"a": "3", "b": "7"}, {"b": "8", "c": "2"}]
)


def figure_1_partitions() -> Partitions:
    hashes = stable_hashes(PARTITION_1 + PARTITION_2)
    masks = bits(np.array([0] * len(PARTITION_1) + [1] * len(PARTITION_2)), 2)
    return Partitions.of(Routing(), 2, hashes, masks, np.zeros(2, np.int64))


def names(documents: Documents, groups: list[frozenset[int]]) -> set[frozenset[str]]:
    by_hash = dict(zip(documents.dictionary.hashes.tolist(), documents.dictionary.keys, strict=True))
    return {frozenset(by_hash[pair].replace("\0s", ":") for pair in group) for group in groups}


def test_figure_1_documents_go_to_the_machines_the_text_says() -> None:
    masks = assign(FIGURE_1, [figure_1_partitions()]).masks
    assert (np.flatnonzero(holds(masks, 0)) + 1).tolist() == [1, 2, 3, 4, 7]
    assert (np.flatnonzero(holds(masks, 1)) + 1).tolist() == [5, 6, 7]


def test_figure_1_loads_are_62_and_37_percent_and_one_document_is_replicated() -> None:
    quality = assign(FIGURE_1, [figure_1_partitions()]).quality
    assert quality.shares == [0.625, 0.375]
    assert quality.replication == pytest.approx(8 / 7)


def test_figure_1_joins_documents_that_complement_each_other() -> None:
    pairs = join(FIGURE_1).sorted()
    found = set(zip((pairs.left + 1).tolist(), (pairs.right + 1).tolist(), strict=True))
    assert found == {(1, 2), (1, 4), (2, 4), (4, 7), (5, 6)}


def test_figure_3_a2_and_c7_are_an_equivalence_group() -> None:
    codes = FIGURE_3.pairs.astype(np.int64)
    group_of, counts = equivalence_groups(FIGURE_3.owners, codes, len(FIGURE_3.dictionary))
    by_key = dict(zip(FIGURE_3.dictionary.keys, group_of.tolist(), strict=True))
    assert by_key["A\0s2"] == by_key["C\0s7"] != by_key["B\0s3"]
    assert counts[by_key["A\0s2"]] == 2
    assert counts.tolist() == sorted(counts.tolist()), "groups are numbered rarest first"


def test_figure_3_the_first_group_implies_b3_and_three_association_groups_remain() -> None:
    groups = association_groups(route(FIGURE_3, Routing()))
    assert names(FIGURE_3, groups.sets()) == {
        frozenset({"A:2", "C:7", "B:3"}), frozenset({"E:4", "D:1"}), frozenset({"F:5"}),
    }  # fmt: skip
    loads = {
        frozenset(names(FIGURE_3, [one])): load for one, load in zip(groups.sets(), groups.loads.tolist(), strict=True)
    }
    assert sorted(loads.values()) == [1, 2, 3], "documents with any pair of the group count"


def test_table_i_orders_attributes_b_a_c() -> None:
    assert [TABLE_I.dictionary.attributes[code] for code in attribute_order(TABLE_I)] == ["b", "a", "c"]


def test_table_i_ties_go_to_the_attribute_with_fewer_values() -> None:
    documents = documents_of([{"x": "1", "y": "1"}, {"x": "2", "y": "1"}])
    assert [documents.dictionary.attributes[code] for code in attribute_order(documents)] == ["y", "x"]


def test_figure_4_the_tree_of_table_i() -> None:
    tree = FPTree.build(TABLE_I)
    nodes = tree.arrays.nodes
    keys = [tree.documents.dictionary.keys[tree.pair_of_label[label]] for label in tree.arrays.origins["label"][1:]]
    assert [key.replace("\0s", ":") for key in keys] == ["b:7", "a:3", "c:1", "b:8", "a:3", "c:2"]
    assert tree.arrays.origins["parent"].tolist() == [-1, 0, 1, 2, 0, 4, 4]
    ends = {node: tree.order[nodes["first"][node] : nodes["own_end"][node]] + 1 for node in range(7)}
    assert {node: one.tolist() for node, one in ends.items() if len(one)} == {2: [3], 3: [1], 5: [2], 6: [4]}


def test_figure_4_the_header_table_links_nodes_of_one_label() -> None:
    tree = FPTree.build(TABLE_I)
    a3 = TABLE_I.dictionary.code("a\0s3")
    low, high = tree.header.offsets[tree.header.slot[tree.pair_label[a3]] :][:2]
    assert tree.header.nodes[low:high].tolist() == [2, 5]


def test_figure_5_one_level_of_direct_descent_and_d1_joins_d3_alone() -> None:
    tree = FPTree.build(TABLE_I)
    assert tree.ubiquitous == 1
    rest = TABLE_I.take(np.array([1, 2, 3]))
    stored = FPTreeJoin()
    stored.insert(rest)
    found = stored.probe(TABLE_I.take(np.array([0]))).pairs
    assert set(zip(found.left.tolist(), found.right.tolist(), strict=True)) == {(0, 2)}


def test_the_definition_asks_for_something_shared_and_nothing_in_conflict() -> None:
    one, other, third = as_mappings(documents_of([{"a": "1", "b": "1"}, {"a": "1", "c": "1"}, {"d": "1"}]))
    conflicting = as_mappings(documents_of([{"a": "1", "b": "1"}, {"a": "1", "b": "2"}]))
    assert joinable(one, other)
    assert not joinable(one, third), "nothing shared"
    assert not joinable(*conflicting), "b differs"


def test_paths_of_figure_1_are_its_attributes() -> None:
    assert {path_of(key) for key in FIGURE_1.dictionary.keys} == {"User", "Severity", "MsgId", "IP"}
