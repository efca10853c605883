"""Join orders with shared cost: iterative dynamic programming over subqueries (figure 7b).

    1. per query, dynamic programming over connected sets of its streams; a subquery's cost is the lesser of
       MaxShared (divided among all queries that could share it: same tree, same query groups) and MinShared (alone)
    2. given the other queries' choices, every query in turn takes the tree that adds least to the total cost;
       repeated until no choice changes (each change lowers the total, so this terminates)

The total counts every shared join once. With at most five streams a query has few trees, so step 2 enumerates all of
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import combinations

from etl.correlate.adhoc.optimize.cost import CostModel
from etl.correlate.adhoc.plan import Choice, Groups, Join, Leaf, Node, Plan, Tree, join
from etl.correlate.adhoc.query.model import Edge, Query

_ROUNDS = 8


@lru_cache(maxsize=4096)
def all_trees(streams: frozenset[str], edges: frozenset[Edge]) -> tuple[Tree, ...]:
    """Every tree over the streams that joins along edges, never by a cross product."""
    if len(streams) == 1:
        (only,) = streams
        return (Leaf(only),)
    found: list[Tree] = []
    for edge in sorted(edges):
        left = _side(edge.left.stream, edges - {edge})
        right = streams - left
        for one in all_trees(left, _within(edges, left)):
            for other in all_trees(right, _within(edges, right)):
                found.append(join(one, other, edge))
    return tuple(found)


def _within(edges: frozenset[Edge], streams: frozenset[str]) -> frozenset[Edge]:
    return frozenset(edge for edge in edges if edge.streams <= streams)


def _side(start: str, edges: frozenset[Edge]) -> frozenset[str]:
    """The streams connected with this one."""
    found = {start}
    while True:
        more = {s for edge in edges if edge.streams & found for s in edge.streams} - found
        if not more:
            return frozenset(found)
        found |= more


class Ordering:
    """Chooses trees for queries whose groups are known."""

    def __init__(self, model: CostModel, queries: Mapping[str, Query], groups: Mapping[str, Groups]) -> None:
        self._model, self._queries, self._groups = model, queries, groups

    def node_cost(self, node: Node, sharers: frozenset[str], ending: frozenset[str]) -> float:
        return self._model.join(node.tree, sharers, ending).total

    def total(self, plan: Plan) -> float:
        """The total cost of all queries, counting every shared join once."""
        ends = {name: choice.nodes()[-1] for name, choice in plan.choices.items()}
        return sum(
            self.node_cost(node, frozenset(names), frozenset(n for n in names if ends[n] == node))
            for node, names in plan.sharers().items()
        )

    def initial(self, names: Iterable[str]) -> dict[str, Choice]:
        """Step 1: every query separately, assuming that all possible sharing happens."""
        potential = self._potential(self._queries)
        return {name: Choice(self._best_tree(name, potential), self._groups[name]) for name in names}

    def _potential(self, names: Iterable[str]) -> dict[Node, set[str]]:
        """The queries that could share each two-way or larger subquery."""
        found: dict[Node, set[str]] = {}
        for name in names:
            for node in self._subqueries(self._queries[name]):
                found.setdefault(node, set()).add(name)
        return found

    def _subqueries(self, query: Query) -> set[Node]:
        found: set[Node] = set()
        for size in range(2, len(query.streams) + 1):
            for some in combinations(sorted(query.streams), size):
                streams = frozenset(some)
                edges = _within(frozenset(query.edges), streams)
                if len(edges) == size - 1:
                    trees = (tree for tree in all_trees(streams, edges) if isinstance(tree, Join))
                    found |= {Choice(tree, self._groups[query.name]).nodes()[-1] for tree in trees}
        return found

    def _best_tree(self, name: str, potential: Mapping[Node, set[str]]) -> Join:
        """Dynamic programming: the best tree of each connected set of streams from the best trees of its parts."""
        query = self._queries[name]
        best: dict[frozenset[str], tuple[float, Tree]] = {frozenset((s,)): (0.0, Leaf(s)) for s in query.streams}
        for size in range(2, len(query.streams) + 1):
            for some in combinations(sorted(query.streams), size):
                streams = frozenset(some)
                edges = _within(frozenset(query.edges), streams)
                if len(edges) == size - 1:
                    best[streams] = min(
                        (self._cost_and_tree(name, best, streams, edges, cut, potential) for cut in sorted(edges)),
                        key=lambda each: (each[0], str(each[1])),
                    )
        tree = best[frozenset(query.streams)][1]
        assert isinstance(tree, Join), "a query joins at least two streams"
        return tree

    def _cost_and_tree(
        self, name: str, best: Mapping[frozenset[str], tuple[float, Tree]], streams: frozenset[str],
        edges: frozenset[Edge], cut: Edge, potential: Mapping[Node, set[str]],
    ) -> tuple[float, Tree]:  # fmt: skip
        left = _side(cut.left.stream, edges - {cut})
        (cost_one, one), (cost_other, other) = best[left], best[streams - left]
        tree = join(one, other, cut)
        return cost_one + cost_other + self.shared_cost(name, tree, potential), tree

    def shared_cost(self, name: str, tree: Join, potential: Mapping[Node, set[str]]) -> float:
        """SCOST: the lesser of MaxShared and MinShared of a tree's last join."""
        node = Choice(tree, self._groups[name]).nodes()[-1]
        sharers = frozenset(potential.get(node, ())) | {name}
        ends = frozenset(n for n in sharers if len(self._queries[n].streams) == len(tree.streams))
        most = self.node_cost(node, sharers, ends) / len(sharers)
        alone = self.node_cost(node, frozenset((name,)), ends & {name})
        return min(most, alone)

    def settle(self, choices: dict[str, Choice], movable: Iterable[str]) -> dict[str, Choice]:
        """Step 2: queries take, in turn, the tree that adds least to the total cost."""
        sharers = Plan(choices).sharers()
        using = {node: set(names) for node, names in sharers.items()}
        ending = {node: {n for n in names if choices[n].nodes()[-1] == node} for node, names in using.items()}
        movable = [name for name in movable if len(self._queries[name].streams) > 2]
        for _ in range(_ROUNDS):
            changed = False
            for name in movable:
                old = choices[name]
                self._leave(name, old, using, ending)
                best = min(self._trees(name), key=lambda c: (self._added(name, c, using, ending), c.tree != old.tree))
                self._enter(name, best, using, ending)
                if best.tree != old.tree:
                    choices[name], changed = best, True
            if not changed:
                break
        return choices

    def _trees(self, name: str) -> list[Choice]:
        query = self._queries[name]
        trees = all_trees(frozenset(query.streams), frozenset(query.edges))
        return [Choice(tree, self._groups[name]) for tree in trees if isinstance(tree, Join)]

    def _added(self, name: str, choice: Choice, using: dict[Node, set[str]], ending: dict[Node, set[str]]) -> float:
        added = 0.0
        *_, root = nodes = choice.nodes()
        for node in nodes:
            now, ends = frozenset(using.get(node, ())), frozenset(ending.get(node, ()))
            after = ends | {name} if node == root else ends
            added += self.node_cost(node, now | {name}, after) - (self.node_cost(node, now, ends) if now else 0.0)
        return added

    @staticmethod
    def _enter(name: str, choice: Choice, using: dict[Node, set[str]], ending: dict[Node, set[str]]) -> None:
        *_, root = nodes = choice.nodes()
        for node in nodes:
            using.setdefault(node, set()).add(name)
        ending.setdefault(root, set()).add(name)

    @staticmethod
    def _leave(name: str, choice: Choice, using: dict[Node, set[str]], ending: dict[Node, set[str]]) -> None:
        for node in choice.nodes():
            using[node].discard(name)
            ending.get(node, set()).discard(name)


def edges_in_use(queries: Iterable[Query]) -> dict[Edge, list[str]]:
    found: dict[Edge, list[str]] = {}
    for query in queries:
        for edge in query.edges:
            found.setdefault(edge, []).append(query.name)
    return found
