"""The optimizer: shares eagerly when a query is created, then by cost once there are statistics (figure 5).

    create      reuses the largest subquery that is running, regardless of cost; otherwise shares only scans
    reoptimize  groups, then join orders: for changed queries and their groups, or for all if over half have changed

It never touches running joins: it returns plans, which take effect at a bucket boundary, and the decisions that led
to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from etl.correlate.adhoc.optimize.cost import CostModel
from etl.correlate.adhoc.optimize.decisions import Decision
from etl.correlate.adhoc.optimize.grouping import Group, Grouping
from etl.correlate.adhoc.optimize.ordering import Ordering, all_trees, edges_in_use
from etl.correlate.adhoc.optimize.statistics import Statistics
from etl.correlate.adhoc.plan import Choice, Groups, Join, Node, Plan, edges_of, joins_of, left_deep
from etl.correlate.adhoc.query.model import Edge, Query

HOLISTIC_SHARE = 0.5  # of all queries changed since the last holistic plan


@dataclass(frozen=True, slots=True)
class OptimizerConfig:
    """Switches for parts of the optimizer, for measurements."""

    grouping: bool = True
    reordering: bool = True
    holistic_share: float = HOLISTIC_SHARE


@dataclass
class OptimizerState:
    """The optimizer's state between calls; plain data."""

    plan: Plan = field(default_factory=Plan)
    queries: dict[str, Query] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)  # created since the last optimization
    changed: int = 0  # created and deleted since the last holistic one
    next_group: int = 0


class Optimizer:
    def __init__(self, config: OptimizerConfig | None = None, state: OptimizerState | None = None) -> None:
        self.config, self.state = config or OptimizerConfig(), state or OptimizerState()

    # -- eager ------------------------------------------------------------------------------------------------------

    def change(self, slot: int, create: Iterable[Query], delete: Iterable[str]) -> tuple[Plan, list[Decision]]:
        """The immediate plan after changes of queries: reuses running subqueries, without costs."""
        state, decisions = self.state, []
        choices = dict(state.plan.choices)
        for name in delete:
            del choices[name], state.queries[name]
            state.fresh.discard(name)
            state.changed += 1
        using: dict[Node, int] = {node: len(names) for node, names in Plan(choices).sharers().items()}
        for query in create:
            choices[query.name], shared = self._eager(query, using, choices)
            for node in choices[query.name].nodes():
                using[node] = using.get(node, 0) + 1
            state.queries[query.name] = query
            state.fresh.add(query.name)
            state.changed += 1
            decisions.append(_sharing_decision(slot, query, shared))
        state.plan = Plan(choices)
        return state.plan, decisions

    def _eager(
        self, query: Query, using: Mapping[Node, int], choices: Mapping[str, Choice]
    ) -> tuple[Choice, Node | None]:
        """A tree for the query that contains the largest running subquery, in that subquery's group."""
        mine = frozenset(query.edges)
        candidates = [node for node in using if {each.edge for each in joins_of(node.tree)} <= mine]
        best = max(candidates, key=lambda node: (len(node.groups), using[node], str(node.tree)), default=None)
        groups = {edge: self._group_of(edge, choices) for edge in query.edges}
        if best is None:
            return Choice(left_deep(query), groups), None
        groups |= dict(zip(edges_of(best.tree), best.groups, strict=True))
        trees = all_trees(frozenset(query.streams), mine)
        tree = next(t for t in trees if isinstance(t, Join) and best.tree in joins_of(t))
        return Choice(tree, groups), best

    def _group_of(self, edge: Edge, choices: Mapping[str, Choice]) -> int:
        """An existing group of an edge, else a new one."""
        if self.config.grouping:
            found = [choice.groups[edge] for choice in choices.values() if edge in choice.groups]
            return found[-1] if found else self._new_group()
        return 0

    def _new_group(self) -> int:
        self.state.next_group += 1
        return self.state.next_group

    # -- by cost ----------------------------------------------------------------------------------------------------

    def reoptimize(self, slot: int, statistics: Statistics) -> tuple[Plan, list[Decision]]:
        """A plan by cost: incrementally, or from scratch when more than half of the queries changed."""
        state = self.state
        if not state.queries:
            return state.plan, []
        share = state.changed / len(state.queries)
        holistic = share > self.config.holistic_share
        model = CostModel(statistics, state.queries)
        groups, decisions = self._regroup(slot, model, holistic=holistic)
        plan = self._reorder(model, groups, holistic=holistic)
        ordering = Ordering(model, state.queries, groups)
        before = ordering.total(Plan({n: Choice(c.tree, groups[n]) for n, c in state.plan.choices.items()}))
        decisions += _order_decisions(slot, state.plan, plan)
        how = "all" if holistic else "only the changed ones and whom they meet"
        cost, many = ordering.total(plan), len(state.queries)
        words = f"{state.changed} of {many} queries changed: planned {how}; cost {cost:,.0f}, {before:,.0f} before"
        numbers = {"changed": state.changed, "queries": many, "cost": cost, "before": before}
        decisions.append(Decision(slot, "reoptimize", "plan", words, numbers))
        state.plan, state.fresh = plan, set()
        state.changed = 0 if holistic else state.changed
        return plan, decisions

    def _regroup(
        self, slot: int, model: CostModel, *, holistic: bool
    ) -> tuple[dict[str, dict[Edge, int]], list[Decision]]:
        state = self.state
        numbers: dict[str, dict[Edge, int]] = {name: dict(state.plan.choices[name].groups) for name in state.queries}
        decisions: list[Decision] = []
        for edge, names in edges_in_use(state.queries.values()).items():
            if not self.config.grouping:
                for name in names:
                    numbers[name][edge] = 0
                continue
            fresh = [name for name in names if name in state.fresh]
            if not holistic and not fresh:
                continue
            grouping = Grouping(model, edge, state.queries)
            groups = self._groups_of(edge, names, grouping, fresh, holistic=holistic)
            for group in groups:
                number = self._number(edge, group, numbers, fresh, holistic=holistic)
                for name in group:
                    numbers[name][edge] = number
            decisions += [
                _group_decision(slot, edge, grouping, group) for group in groups if group & set(fresh) or holistic
            ]
        return numbers, decisions

    def _groups_of(
        self, edge: Edge, names: list[str], grouping: Grouping, fresh: list[str], *, holistic: bool
    ) -> list[Group]:
        if holistic:
            return grouping.from_scratch(names)
        known: dict[int, set[str]] = {}
        for name in names:
            if name not in fresh:
                known.setdefault(self.state.plan.choices[name].groups[edge], set()).add(name)
        groups = [frozenset(members) for members in known.values()]
        for name in fresh:
            groups = grouping.placed(groups, name)
        return groups

    def _number(
        self, edge: Edge, group: Group, numbers: Mapping[str, Mapping[Edge, int]], fresh: list[str], *, holistic: bool
    ) -> int:
        """A continuing group keeps its number, so that its cached results stay valid."""
        old = {numbers[name][edge] for name in group if name not in fresh}
        return old.pop() if len(old) == 1 and not holistic else self._new_group()

    def _reorder(self, model: CostModel, groups: Mapping[str, Groups], *, holistic: bool) -> Plan:
        state = self.state
        trees = {name: choice.tree for name, choice in state.plan.choices.items()}
        if not self.config.reordering:
            return Plan({name: Choice(left_deep(query), groups[name]) for name, query in state.queries.items()})
        ordering = Ordering(model, state.queries, groups)
        choices = {name: Choice(trees[name], groups[name]) for name in state.queries}
        movable = list(state.queries) if holistic else self._affected(groups)
        choices |= ordering.initial(movable)
        hoped = ordering.settle(dict(choices), movable)
        kept = ordering.settle({name: Choice(trees[name], groups[name]) for name in state.queries}, movable)
        return min((Plan(hoped), Plan(kept)), key=ordering.total)

    def _affected(self, groups: Mapping[str, Groups]) -> list[str]:
        """The changed queries and those that share a group with one: only their execution may change."""
        fresh = {(edge, groups[name][edge]) for name in self.state.fresh for edge in groups[name]}
        return [name for name in self.state.queries if any(item in fresh for item in groups[name].items())]


def _sharing_decision(slot: int, query: Query, shared: Node | None) -> Decision:
    if shared is None:
        words = f"shares scans and indexes of {', '.join(query.streams)}; none of its joins runs yet"
        return Decision(slot, "share", query.name, words, {"streams_shared": 0})
    words = f"reuses {shared.tree}, which runs already, until statistics tell whether that pays"
    return Decision(slot, "share", query.name, words, {"streams_shared": len(shared.tree.streams)})


def _group_decision(slot: int, edge: Edge, grouping: Grouping, group: Group) -> Decision:
    cost = grouping.explained(group)
    names = ", ".join(sorted(group)[:5]) + (f" and {len(group) - 5} more" if len(group) > 5 else "")
    if len(group) == 1:
        words = f"{names} joins {edge} by itself: sharing would not pay"
    else:
        words = f"{names} share {edge}: {cost.shared:,.0f} together, {cost.apart:,.0f} apart"
    return Decision(
        slot, "group", str(edge), words, {"members": len(group), "shared": cost.shared, "apart": cost.apart}
    )


def _order_decisions(slot: int, before: Plan, after: Plan) -> list[Decision]:
    return [
        Decision(slot, "order", name, f"joins {choice.tree} instead of {before.choices[name].tree}")
        for name, choice in after.choices.items()
        if choice.tree != before.choices[name].tree
    ]
