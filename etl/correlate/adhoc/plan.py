"""A plan: for every query the order of its joins, and the groups that share them.

    tree     ((V ⋈ W) ⋈ C): a leaf is a stream, a join has an edge
    group    per query and edge a number: queries with the same edge and number share the edge's join (query groups)
    node     a tree together with the groups of its edges; queries with equal nodes share one computation

A plan never changes results: every tree of a query gives the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from etl.correlate.adhoc.query.model import Edge, End, Query


@dataclass(frozen=True, slots=True)
class Leaf:
    stream: str

    @property
    def streams(self) -> frozenset[str]:
        return frozenset((self.stream,))

    def __str__(self) -> str:
        return self.stream


@dataclass(frozen=True)
class Join:
    """`left` holds the edge's left stream, so that equal joins are equal."""

    left: Tree
    right: Tree
    edge: Edge

    @cached_property
    def streams(self) -> frozenset[str]:
        return self.left.streams | self.right.streams

    @cached_property
    def _hash(self) -> int:
        return hash((self.left, self.right, self.edge))

    def __hash__(self) -> int:
        """Cached: trees are dictionary keys, looked up many times per slot."""
        return self._hash

    def __reduce__(self) -> tuple[type[Join], tuple[Tree, Tree, Edge]]:
        return Join, (self.left, self.right, self.edge)  # without the cached hash: it differs between processes

    def __str__(self) -> str:
        return f"({self.left} ⋈ {self.right})"


Tree = Leaf | Join


def join(one: Tree, other: Tree, edge: Edge) -> Join:
    return Join(one, other, edge) if edge.left.stream in one.streams else Join(other, one, edge)


def edges_of(tree: Tree) -> list[Edge]:
    return [each.edge for each in joins_of(tree)]


def joins_of(tree: Tree) -> Iterator[Join]:
    """All joins of a tree, inner ones first."""
    if isinstance(tree, Join):
        yield from joins_of(tree.left)
        yield from joins_of(tree.right)
        yield tree


Groups = Mapping[Edge, int]


@dataclass(frozen=True)
class Node:
    """A shared computation: a join tree and the query groups of its edges."""

    tree: Join
    groups: tuple[int, ...]  # of edges_of(tree)

    @cached_property
    def _hash(self) -> int:
        return hash((self.tree, self.groups))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Node], tuple[Join, tuple[int, ...]]]:
        return Node, (self.tree, self.groups)

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """In the order of the slots in a combination."""
        return tuple(sorted(self.tree.streams))

    @cached_property
    def children(self) -> tuple[Node | Leaf, Node | Leaf]:
        of = dict(zip(edges_of(self.tree), self.groups, strict=True))
        left, right = self.tree.left, self.tree.right
        return _node(left, of), _node(right, of)


def _node(tree: Tree, groups: Groups) -> Node | Leaf:
    return tree if isinstance(tree, Leaf) else Node(tree, tuple(groups[edge] for edge in edges_of(tree)))


@dataclass(frozen=True, slots=True)
class Choice:
    """The plan of one query."""

    tree: Join
    groups: Groups

    def nodes(self) -> list[Node]:
        """Its shared computations, inner ones first; the last one produces its results."""
        return [Node(each, tuple(self.groups[edge] for edge in edges_of(each))) for each in joins_of(self.tree)]


@dataclass(frozen=True, slots=True)
class Plan:
    choices: Mapping[str, Choice] = field(default_factory=dict)

    def sharers(self) -> dict[Node, list[str]]:
        """The queries that use each node."""
        found: dict[Node, list[str]] = {}
        for name, choice in self.choices.items():
            for node in choice.nodes():
                found.setdefault(node, []).append(name)
        return found

    def components(self) -> list[list[str]]:
        """Connected components: queries that share a node, directly or transitively."""
        home = {name: name for name in self.choices}

        def root(name: str) -> str:
            while home[name] != name:
                home[name] = name = home[home[name]]
            return name

        for names in self.sharers().values():
            for other in names[1:]:
                home[root(other)] = root(names[0])
        found: dict[str, list[str]] = {}
        for name in self.choices:
            found.setdefault(root(name), []).append(name)
        return list(found.values())


def plan_as_data(plan: Plan) -> dict[str, Any]:
    """A plan in JSON types."""
    return {
        name: {"tree": _tree_data(choice.tree), "groups": [[_edge_data(e), n] for e, n in choice.groups.items()]}
        for name, choice in plan.choices.items()
    }


def plan_from_data(data: Mapping[str, Any]) -> Plan:
    choices = {}
    for name, each in data.items():
        tree = _tree_of(each["tree"])
        assert isinstance(tree, Join), "a query joins at least two streams"
        choices[name] = Choice(tree, {_edge_of(edge): int(number) for edge, number in each["groups"]})
    return Plan(choices)


def _tree_data(tree: Tree) -> Any:
    if isinstance(tree, Leaf):
        return tree.stream
    return {"left": _tree_data(tree.left), "right": _tree_data(tree.right), "edge": _edge_data(tree.edge)}


def _tree_of(data: Any) -> Tree:
    if isinstance(data, str):
        return Leaf(data)
    return Join(_tree_of(data["left"]), _tree_of(data["right"]), _edge_of(data["edge"]))


def _edge_data(edge: Edge) -> list[Any]:
    return [[end.stream, *end.columns] for end in (edge.left, edge.right)]


def _edge_of(data: list[list[str]]) -> Edge:
    left, right = (End(stream, tuple(columns)) for stream, *columns in data)
    return Edge(left, right)


def left_deep(query: Query) -> Join:
    """Joins in the order in which the query names its streams, as without an optimizer."""
    tree: Tree = Leaf(query.streams[0])
    left = list(query.edges)
    while left:
        ready = [each for each in left if len(each.streams & tree.streams) == 1]
        rank = {name: at for at, name in enumerate(query.streams)}
        chosen = min(ready, key=lambda each: min(rank[name] for name in each.streams - tree.streams))
        (stream,) = chosen.streams - tree.streams
        tree = join(tree, Leaf(stream), chosen)
        left.remove(chosen)
    assert isinstance(tree, Join), "a query joins at least two streams"
    return tree
