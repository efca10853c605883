"""Components: queries that share some join, with their cached query sets and join results.

    leaf    (stream, when)                ──► the bucket with the component's query sets
    node    (shared join, when of each)   ──► its result, kept while later batches may need it

A component is a cache: everything can be recomputed from the buckets. Query sets have bits only of queries that existed
when the bucket arrived and that some tuple matches, so idle queries cost nothing.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from etl.columnar import bitsets
from etl.correlate.adhoc.plan import Choice, Node, Plan
from etl.correlate.adhoc.query.model import Query
from etl.correlate.adhoc.run.joins.bucket import When
from etl.correlate.adhoc.run.joins.eager import Flat
from etl.correlate.adhoc.run.joins.factor import Factor

Slots = tuple[When, ...]


@dataclass(frozen=True, slots=True)
class Running:
    """A running query: its bit's number and the first batch it sees."""

    query: Query
    number: int
    created: int

    @property
    def identity(self) -> tuple[str, int, int]:
        """Names and numbers are reused; the three values together are unique."""
        return self.query.name, self.number, self.created

    def covers(self, oldest: int, apart: int) -> bool:
        """Whether a combination of tuples from this batch on, with slots this far apart, is a result of the query."""
        return self.created <= oldest and apart < self.query.window


class Team:
    """Queries that share a join or have it last, with cached facts needed in every slot."""

    def __init__(self, queries: list[Running]) -> None:
        self.by_number = {each.number: each for each in queries}
        self.mask = bitsets.mask_of(self.by_number)
        self.counting = bitsets.mask_of(each.number for each in queries if each.query.only_counts)
        self.materialising = bitsets.mask_of(each.number for each in queries if each.query.materialises)
        self.window = max(each.query.window for each in queries)
        self.created = min(each.created for each in queries)

    def covering(self, oldest: int, apart: int, possible: int = -1) -> int:
        """The queries among `possible` that such a combination is a result of."""
        asked = bitsets.positions_of(self.mask & possible)
        return bitsets.mask_of(number for number in asked if self.by_number[number].covers(oldest, apart))


@dataclass(frozen=True, slots=True)
class LeafSets:
    """A bucket with query sets of the queries that were awake when they were computed; None: no tuple is selected."""

    evaluated: int
    factor: Factor | None


@dataclass
class Component:
    members: dict[str, Running]
    sharers: dict[Node, Team] = field(default_factory=dict)
    roots: dict[Node, Team] = field(default_factory=dict)
    inner: set[Node] = field(default_factory=set)  # nodes that some query joins further
    awake: int = 0  # the queries that can have a result in this slot
    leaves: dict[tuple[str, When], LeafSets] = field(default_factory=dict)
    results: dict[tuple[Node, Slots], Factor | Flat | None] = field(default_factory=dict)

    @cached_property
    def mask(self) -> int:
        return bitsets.mask_of(each.number for each in self.members.values())

    @cached_property
    def readers(self) -> dict[str, int]:
        """The queries that read each stream."""
        found: dict[str, int] = {}
        for each in self.members.values():
            for stream in each.query.streams:
                found[stream] = found.get(stream, 0) | 1 << each.number
        return found

    def set_leaf(self, stream: str, when: When, leaf: LeafSets) -> None:
        """Set a bucket's query sets; drops results from older sets, which lack queries that have woken up since."""
        if (stream, when) in self.leaves:
            for node, slots in list(self.results):
                if dict(zip(node.streams, slots, strict=True)).get(stream) == when:
                    del self.results[node, slots]
        self.leaves[stream, when] = leaf

    def retain(self, held: Container[tuple[str, When]]) -> None:
        """Drop cached results of buckets that no longer exist."""
        for key in [key for key in self.leaves if key not in held]:
            del self.leaves[key]
        for node, slots in list(self.results):
            if any(key not in held for key in zip(node.streams, slots, strict=True)):
                del self.results[node, slots]

    @property
    def nbytes(self) -> int:
        held = [*(leaf.factor for leaf in self.leaves.values()), *self.results.values()]
        return sum(each.nbytes if isinstance(each, Factor) else 0 for each in held)


def build(plan: Plan, running: Mapping[str, Running], before: list[Component], slot: int) -> list[Component]:
    """The components of a plan, with reusable results of the previous plan's components."""
    found = []
    for names in plan.components():
        component = Component({name: running[name] for name in names})
        _wire(component, {name: plan.choices[name] for name in names})
        for old in before:
            _inherit(component, old, slot)
        found.append(component)
    return found


def _wire(component: Component, choices: Mapping[str, Choice]) -> None:
    sharers: dict[Node, list[Running]] = {}
    roots: dict[Node, list[Running]] = {}
    for name, choice in choices.items():
        *inner, root = choice.nodes()
        component.inner.update(inner)
        roots.setdefault(root, []).append(component.members[name])
        for node in (*inner, root):
            sharers.setdefault(node, []).append(component.members[name])
    component.sharers = {node: Team(queries) for node, queries in sharers.items()}
    component.roots = {node: Team(queries) for node, queries in roots.items()}


def _inherit(component: Component, old: Component, slot: int) -> None:
    """Reuse sets and results for queries that took part in computing them."""
    older = any(each.created < slot for each in component.members.values())
    if not older or not _covered(component.members.values(), old.members.values(), slot):
        return
    component.leaves |= old.leaves
    for (node, slots), result in old.results.items():
        if node in component.inner and _covered(
            component.sharers[node].by_number.values(), old.sharers[node].by_number.values(), slot
        ):
            component.results[node, slots] = result


def _covered(now: Iterable[Running], before: Iterable[Running], slot: int) -> bool:
    """Whether all queries existed before, except those created at this slot, which see nothing older."""
    return {each.number for each in now if each.created < slot} <= {
        each.number for each in before if each.created < slot
    }
