"""Workloads of the AJoin paper: tuples, queries by similarity (equation 3, figure 14), and scenarios SC1 and SC2.

    similarity = common sources × common join attributes / (sources of the pattern)²

A query is made from a pattern query by keeping so many of its sources, and on those so many of its join attributes,
as the wanted similarity says; the rest is drawn anew. Everything follows from one seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import numpy as np
import pyarrow as pa

from etl.correlate.adhoc.query.model import Query, Stream
from etl.correlate.adhoc.query.parse import parse_query

ATTRIBUTES = 6
ATTRIBUTE_MAX = 500
STREAM_COUNT = 8
STREAMS = {
    name: Stream(name, {f"a{n}": pa.int64() for n in range(ATTRIBUTES)})
    for name in (f"s{n}" for n in range(STREAM_COUNT))
}
Ends = list[tuple[str, str, str, str]]  # stream, attribute, stream, attribute


@dataclass(frozen=True, slots=True)
class QueryShape:
    """What kind of queries a workload has."""

    ways: int = 2
    similarity: float = 0.5
    windows: tuple[int, ...] = (1, 2, 3)
    selections: bool = True
    selectivity: float | None = None  # None: drawn anew for each selection
    intervals: bool = False  # of one attribute: a tuple is wanted by as large a share of the queries as of tuples
    select: str = "count(*)"


def pattern(ways: int) -> Ends:
    """The pattern query: a chain whose joins are all on different attributes."""
    return [
        (f"s{at}", f"a{2 * at % ATTRIBUTES}", f"s{at + 1}", f"a{(2 * at + 1) % ATTRIBUTES}") for at in range(ways - 1)
    ]


def similarity(query: Query, ways: int) -> float:
    """Equation 3, measured on a finished query."""
    wanted = pattern(ways)
    sources = {stream for edge in wanted for stream in (edge[0], edge[2])}
    attributes = {(edge[at], edge[at + 1]) for edge in wanted for at in (0, 2)}
    having = {(end.stream, end.columns[0]) for edge in query.edges for end in (edge.left, edge.right)}
    return len(sources & set(query.streams)) * len(attributes & having) / len(sources) ** 2


def make_query(random: Random, name: str, shape: QueryShape) -> Query:
    """Steps 1 to 3 of the paper, then the template of figure 14."""
    edges = pattern(shape.ways)
    sources = shape.ways
    common = random.randint(1, sources)
    while True:  # step 2: enough join attributes on the common sources, else one source more
        exact = shape.similarity * sources**2 / common
        kept_attributes = int(exact) + (random.random() < exact % 1)
        start = random.randint(0, sources - common)
        kept = [f"s{at}" for at in range(start, start + common)]  # step 3: neighbours, never a cross product
        ends = [(edge, at) for edge in range(len(edges)) for at in (0, 2) if edges[edge][at] in kept]
        if kept_attributes <= len(ends) or common == sources:
            break
        common += 1
    fixed = set(random.sample(ends, min(kept_attributes, len(ends))))
    return _build(random, name, shape, edges, kept, fixed)


def _build(
    random: Random, name: str, shape: QueryShape, edges: Ends, kept: list[str], fixed: set[tuple[int, int]]
) -> Query:
    spare = [stream for stream in STREAMS if stream not in {f"s{at}" for at in range(shape.ways)}]
    names = {
        f"s{at}": f"s{at}" if f"s{at}" in kept else spare.pop(random.randrange(len(spare))) for at in range(shape.ways)
    }
    joins = []
    for number, edge in enumerate(edges):
        sides = []
        for at in (0, 2):
            attribute = edge[at + 1] if (number, at) in fixed else _another(random, edge[at + 1])
            sides.append(f"{names[edge[at]]}.{attribute}")
        joins.append(" = ".join(sides))
    selected = [_selection(random, stream, shape) for stream in names.values()] if shape.selections else []
    sql = f"select {shape.select} from {', '.join(names.values())} where {' and '.join(joins + selected)}"
    return parse_query(name, sql, random.choice(shape.windows), STREAMS)


def _another(random: Random, attribute: str) -> str:
    return random.choice([f"a{n}" for n in range(ATTRIBUTES) if f"a{n}" != attribute])


def _selection(random: Random, stream: str, shape: QueryShape) -> str:
    if shape.intervals and shape.selectivity is not None:
        width = round(shape.selectivity * ATTRIBUTE_MAX)
        start = random.randrange(ATTRIBUTE_MAX - width + 1)
        return f"{stream}.a{ATTRIBUTES - 1} between {start} and {start + width - 1}"
    attribute, operator = f"a{random.randrange(ATTRIBUTES)}", random.choice(["=", ">", "<", ">=", "<="])
    value = random.randrange(ATTRIBUTE_MAX)
    if shape.selectivity is not None:
        operator = random.choice([">=", "<"])
        share = shape.selectivity if operator == "<" else 1 - shape.selectivity
        value = round(share * ATTRIBUTE_MAX)
    return f"{stream}.{attribute} {operator} {value}"


def make_queries(count: int, shape: QueryShape, seed: int) -> list[Query]:
    random = Random(seed)
    return [make_query(random, f"q{at}", shape) for at in range(count)]


def make_slot(slot: int, rows: int, seed: int, keys: int = ATTRIBUTE_MAX) -> dict[str, pa.Table]:
    """One slot of every stream: six uniform attributes, a seed of its own per stream. `keys`: of all but the last."""
    found = {}
    for at, name in enumerate(STREAMS):
        random = np.random.default_rng((seed, at, slot))
        most = [keys] * (ATTRIBUTES - 1) + [ATTRIBUTE_MAX]
        found[name] = pa.table({f"a{n}": random.integers(0, most[n], rows) for n in range(ATTRIBUTES)})
    return found


@dataclass(frozen=True, slots=True)
class Change:
    """What users ask for in one slot."""

    create: int
    delete: int


def sc1(per_slot: int, parallel: int, slots: int) -> Iterator[Change]:
    """SC1: queries come until so many run in parallel, and stay."""
    running = 0
    for _ in range(slots):
        create = min(per_slot, parallel - running)
        running += create
        yield Change(create, 0)


def sc2(per_slot: int, period: int, slots: int) -> Iterator[Change]:
    """SC2: queries come for a while and go again: load that fluctuates."""
    running = 0
    for slot in range(slots):
        rising = slot // period % 2 == 0
        delete = 0 if rising else min(per_slot, running)
        running += per_slot if rising else -delete
        yield Change(per_slot if rising else 0, delete)
