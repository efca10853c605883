"""Query groups: which queries share the join of an edge (figure 7a). Joins are shared only if that pays (figure 6).

    1. seed     the pair with the largest saving over separate execution
    2. grow     add every query for which the larger group costs less than group and query separately
    3. repeat   with the remaining queries, until no pair saves anything

Optimal groups are NP-hard to find; this is the paper's greedy algorithm. "Pays" compares with group and query separate,
not with all members separate: a group never keeps a member that makes it more expensive (ADR 43).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from etl.correlate.adhoc.optimize.cost import CostModel
from etl.correlate.adhoc.plan import Join, Leaf
from etl.correlate.adhoc.query.model import Edge, Query

Group = frozenset[str]


@dataclass(frozen=True, slots=True)
class GroupCost:
    """A group's cost, shared and separate."""

    members: Group
    shared: float
    apart: float


def edge_tree(edge: Edge) -> Join:
    return Join(Leaf(edge.left.stream), Leaf(edge.right.stream), edge)


class Grouping:
    """Groups of one edge's queries, by the cost of the edge's join."""

    def __init__(self, model: CostModel, edge: Edge, queries: dict[str, Query]) -> None:
        self._model, self._tree, self._queries = model, edge_tree(edge), queries

    def cost(self, members: Group) -> float:
        """The cost of the edge's join for all members together. Two-way queries end here, others are joined further."""
        sinks = frozenset(name for name in members if len(self._queries[name].streams) == 2)
        return self._model.join(self._tree, members, sinks).total

    def pays(self, group: Group, name: str) -> float:
        """The saving of adding a query to a group over running it separately."""
        return self.cost(group) + self.cost(frozenset((name,))) - self.cost(group | {name})

    def from_scratch(self, names: list[str]) -> list[Group]:
        """The paper's greedy groups, unless a single group, or no groups, costs less."""
        greedy, everybody = self._greedy(sorted(names)), [frozenset(names)]
        apart = [frozenset((name,)) for name in sorted(names)]
        return min(greedy, everybody, apart, key=lambda groups: sum(self.cost(group) for group in groups))

    def _greedy(self, names: list[str]) -> list[Group]:
        left = list(names)
        groups: list[Group] = []
        savings = self._pair_savings(left)
        while len(left) > 1:
            at = [names.index(name) for name in left]
            part = savings[np.ix_(at, at)]
            one, other = np.unravel_index(int(np.argmax(part)), part.shape)
            if part[one, other] <= 0:
                break
            group = frozenset((left[int(one)], left[int(other)]))
            group = self._grown(group, [name for name in left if name not in group])
            groups.append(group)
            left = [name for name in left if name not in group]
        return groups + [frozenset((name,)) for name in left]

    def _grown(self, group: Group, others: list[str]) -> Group:
        for name in others:
            if self.pays(group, name) > 0:
                group |= {name}
        return group

    def _pair_savings(self, names: list[str]) -> npt.NDArray[np.float64]:
        alone = [self.cost(frozenset((name,))) for name in names]
        savings = np.full((len(names), len(names)), -np.inf)
        for one in range(len(names)):
            for other in range(one + 1, self._partners(one, len(names))):
                both = self.cost(frozenset((names[one], names[other])))
                savings[one, other] = alone[one] + alone[other] - both
        return savings

    @staticmethod
    def _partners(one: int, many: int) -> int:
        """Beyond a few dozen queries, seeds pair each query with its next few only; growing finds the rest."""
        return many if many <= 48 else min(many, one + 9)

    def placed(self, groups: list[Group], name: str) -> list[Group]:
        """Incrementally: add a new query to the group with the largest saving, or to a new one."""
        best = max(groups, key=lambda group: self.pays(group, name), default=None)
        if best is None or self.pays(best, name) <= 0:
            return [*groups, frozenset((name,))]
        return [group | {name} if group is best else group for group in groups]

    def explained(self, group: Group) -> GroupCost:
        return GroupCost(group, self.cost(group), sum(self.cost(frozenset((name,))) for name in group))
