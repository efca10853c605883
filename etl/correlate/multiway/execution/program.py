"""A plan as the steps of a micro-batch. Every step writes one file, its only output.

    Extract       a stream at its site: filters, columns, windows
    CloseWindows  a stream with a tuple window: which older tuples the batch evicts, and when
    Join          the inputs of an operator, at its site
    Ship          a stream or a join for another site: a file written at the origin and copied

A site's tuples of a set of streams are a *store*. Partitions with the same step share it: it handles the values of all
of them, selected by the partitioner. So the number of files per batch is the number of different steps, not that of
partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from etl.correlate.multiway import layout
from etl.correlate.multiway.planning.partition import Partitioner
from etl.correlate.multiway.planning.tree import MJoin, Node, PMJoin, Source
from etl.correlate.multiway.query import JoinQuery, bits

Kind = Literal["tuples", "ends", "result", "gathered"]


@dataclass(frozen=True, slots=True)
class Store:
    """A kind of files: their content, set of streams and site."""

    kind: Kind
    streams: int
    site: str

    @property
    def name(self) -> str:
        members = "-".join(str(i) for i in bits(self.streams))
        return f"{self.kind}-{members}"


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """The values of an attribute that a step handles: those of `partitions`. Compared by identity."""

    attribute: int
    partitioner: Partitioner
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True)
class Extract:
    stream: int
    output: Store

    @property
    def name(self) -> str:
        return "extract"


@dataclass(frozen=True, slots=True)
class CloseWindows:
    stream: int
    output: Store

    @property
    def name(self) -> str:
        return "closed"


@dataclass(frozen=True, slots=True)
class Join:
    inputs: tuple[Store, ...]
    output: Store
    route: Route | None

    @property
    def name(self) -> str:
        return "join-" + "_".join("-".join(str(i) for i in bits(one.streams)) for one in self.inputs)


@dataclass(frozen=True, slots=True)
class Ship:
    """`input` may be a result; then the file is gathered at the target."""

    input: Store
    output: Store
    route: Route | None

    @property
    def name(self) -> str:
        return f"from-{self.input.site}"


Step = Extract | CloseWindows | Join | Ship


def worked_at(step: Step) -> str:
    """The site that executes a step: for a shipment, its origin."""
    return step.input.site if isinstance(step, Ship) else step.output.site


@dataclass
class Program:
    """Steps in topological order."""

    steps: tuple[Step, ...]
    writers: dict[Store, list[Step]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for step in self.steps:
            self.writers.setdefault(step.output, []).append(step)

    def makers(self, store: Store) -> list[Step]:
        """The steps that produce a store's tuples at its own site. Only these are shipped, not tuples that arrived
        there: for other partitions, the same streams may be shipped in the opposite direction."""
        return [step for step in self.writers[store] if not isinstance(step, Ship)]

    @property
    def priming(self) -> tuple[Step, ...]:
        """The steps that fill the windows of a new plan: all but those that produce results."""
        return tuple(step for step in self.steps if step.output.kind in ("tuples", "ends"))


def compile_plan(query: JoinQuery, plan: Node) -> Program:
    steps = _Steps(query)
    steps.visit(plan, None, None)
    return Program(tuple(steps.ordered()))


class _Steps:
    """Collects steps; equal steps of several partitions are merged."""

    def __init__(self, query: JoinQuery) -> None:
        self._query = query
        self._found: dict[tuple[Literal["join", "ship"], tuple[Store, ...], Store], Route | None] = {}

    def visit(self, node: Node, destination: str | None, route: Route | None) -> None:
        """Add the steps that compute a node and ship it to a destination."""
        if isinstance(node, PMJoin):
            for one in node.inputs:
                self.visit(one, None, None)
            for plan, numbers in _by_plan(node).items():
                whole = len(numbers) == len(node.plans)
                own = None if whole else Route(node.attribute, node.partitioner, numbers)
                self.visit(plan, destination, own)
            return
        if isinstance(node, MJoin):
            for child in node.children:
                self.visit(child, node.site, route)
            inputs = tuple(sorted((self._store(child.streams, node.site) for child in node.children), key=_order))
            self._add("join", inputs, self._store(node.streams, node.site), route)
        if destination is not None and destination != node.site:
            origin, goal = self._store(node.streams, node.site), self._store(node.streams, destination)
            # A complete join has no attribute left to route by; all results of a site are shipped alike.
            self._add("ship", (origin,), goal, route if self._routable(node.streams, route) else None)

    def _routable(self, streams: int, route: Route | None) -> bool:
        return route is not None and route.attribute in self._query.open_attributes(streams)

    def _store(self, streams: int, site: str) -> Store:
        return Store("result" if streams == self._query.everything else "tuples", streams, site)

    def _add(
        self, kind: Literal["join", "ship"], inputs: tuple[Store, ...], output: Store, route: Route | None
    ) -> None:
        name = (kind, inputs, output)
        before = self._found.get(name, route)
        if before is not None and route is not None:
            route = Route(route.attribute, route.partitioner, before.partitions | route.partitions)
            if len(route.partitions) == route.partitioner.partitions:
                route = None
        self._found[name] = route if before is not None else None

    def ordered(self) -> Iterator[Step]:
        homes = [Store("tuples", 1 << i, stream.site) for i, stream in enumerate(self._query.streams)]
        if len(homes) == 1:
            homes = [Store("result", 1, homes[0].site)]
        yield from (Extract(i, home) for i, home in enumerate(homes))
        yield from self._closing()
        results: set[Store] = set()
        for (kind, inputs, output), route in sorted(self._found.items(), key=lambda one: _step_order(one[0])):
            if kind == "join":
                yield Join(inputs, output, route)
            else:
                yield Ship(inputs[0], output, route)
            results |= {output} if output.kind == "result" else set()
        target = self._query.target
        for made in sorted(results, key=_order) if target is not None else ():
            yield Ship(made, Store("gathered", made.streams, str(target)), None)

    def _closing(self) -> Iterator[Step]:
        """Ship window closings to every site that holds tuples of a stream with a tuple window."""
        stores = {store for _, inputs, output in self._found for store in (*inputs, output)}
        for i in layout.counted(self._query, self._query.everything):
            home = Store("ends", 1 << i, self._query.streams[i].site)
            yield CloseWindows(i, home)
            away = {store.site for store in stores if store.streams >> i & 1 and store.kind == "tuples"} - {home.site}
            yield from (Ship(home, Store("ends", 1 << i, site), None) for site in sorted(away))


def _by_plan(node: PMJoin) -> dict[Source | MJoin, frozenset[int]]:
    numbers: dict[Source | MJoin, set[int]] = {}
    for number, plan in enumerate(node.plans):
        assert not isinstance(plan, PMJoin), "partitions of partitions are not planned"
        numbers.setdefault(plan, set()).add(number)
    return {plan: frozenset(chosen) for plan, chosen in numbers.items()}


def _order(store: Store) -> tuple[int, int, str]:
    return (store.streams.bit_count(), store.streams, store.site)


def _step_order(name: tuple[str, tuple[Store, ...], Store]) -> tuple[int, bool, int, str, tuple[int, ...], str]:
    kind, inputs, output = name
    masks = tuple(one.streams for one in inputs)
    return (output.streams.bit_count(), kind == "ship", output.streams, output.site, masks, inputs[0].site)
