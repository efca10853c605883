"""Random queries, tuples and histories of changes, from one source of randomness that hypothesis can shrink."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

from etl.correlate.adhoc.plan import Choice, Join, Leaf, Plan, Tree, join
from etl.correlate.adhoc.query.model import Query
from etl.correlate.adhoc.query.parse import parse_query
from tests.support.adhoc_oracle import STREAMS, Row

_JOINABLE = {"usr": "WCRS", "vid": "VWCR", "geo": "VWS"}
_VALUES: dict[str, Any] = {
    "usr": [1, 2, 3, None], "vid": [1, 2, 3, None], "geo": ["GER", "US", "EU", None], "length": [0, 3, 5, 9],
    "price": [Decimal("1.50"), Decimal("2.00"), None], "duration": [0.5, 2.0, 10.0, None], "emojis": [0, 1, 2],
    "reaction": ["like", "angry"], "score": [-2, 0, 7],
}  # fmt: skip


def random_row(random: Random, stream: str) -> Row:
    return {column: random.choice(_VALUES[column]) for column in STREAMS[stream].columns}


def random_slot(random: Random, most: int = 4) -> dict[str, list[Row]]:
    return {stream: [random_row(random, stream) for _ in range(random.randint(0, most))] for stream in STREAMS}


def random_query(random: Random, name: str, most_streams: int = 5) -> Query:
    streams = random.sample(sorted(STREAMS), random.randint(2, most_streams))
    known, equalities = [streams[0]], []
    for stream in streams[1:]:
        links = [(c, k) for c, having in _JOINABLE.items() if stream in having for k in known if k in having]
        if not links:
            continue
        column, partner = random.choice(links)
        equalities.append(f"{stream}.{column} = {partner}.{column}")
        if random.random() < 0.15:
            other = [c for c, k in links if k == partner and c != column]
            equalities += [f"{partner}.{c} = {stream}.{c}" for c in other[:1]]
        known.append(stream)
    if len(known) < 2:
        return random_query(random, name, most_streams)
    conditions = [random_condition(random, stream) for stream in known if random.random() < 0.7]
    where = " and ".join(f"({each})" for each in (*equalities, *conditions))
    select, group = random_outputs(random, known)
    sql = f"select {select} from {', '.join(known)} where {where}{group}"
    return parse_query(name, sql, random.randint(1, 3), STREAMS)


def random_condition(random: Random, stream: str, depth: int = 2) -> str:
    roll = random.random()
    if depth and roll < 0.35:
        word = random.choice(["and", "or"])
        return f"({random_condition(random, stream, depth - 1)} {word} {random_condition(random, stream, depth - 1)})"
    if depth and roll < 0.45:
        return f"not ({random_condition(random, stream, depth - 1)})"
    column = random.choice(sorted(STREAMS[stream].columns))
    name = f"{stream}.{column}"
    if roll < 0.55:
        return f"{name} is {random.choice(['', 'not '])}null"
    constants = [_literal(v) for v in _VALUES[column] if v is not None]
    if roll < 0.65:
        return f"{name} in ({', '.join(random.sample(constants, 2))})"
    if roll < 0.75:
        return f"{name} between {random.choice(constants)} and {random.choice(constants)}"
    return f"{name} {random.choice(['=', '<>', '<', '<=', '>', '>='])} {random.choice(constants)}"


def _literal(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def random_outputs(random: Random, streams: list[str]) -> tuple[str, str]:
    columns = [f"{s}.{c}" for s in streams for c in STREAMS[s].columns]
    kind = random.choice(["rows", "count", "groups"])
    if kind == "rows":
        return ", ".join(random.sample(columns, random.randint(1, 3))), ""
    if kind == "count":
        return "count(*)", ""
    groups = random.sample(columns, random.randint(0, 2))
    numbers = [c for c in columns if c.split(".")[1] not in ("geo", "reaction")]
    aggregates = [f"{random.choice(['sum', 'avg', 'min', 'max'])}({random.choice(numbers)}) as a",
                  f"{random.choice(['min', 'max', 'count'])}({random.choice(columns)}) as b", "count(*)"]  # fmt: skip
    return ", ".join(groups + aggregates), f" group by {', '.join(groups)}" if groups else ""


def random_tree(random: Random, query: Query) -> Join:
    parts: list[Tree] = [Leaf(stream) for stream in query.streams]
    for edge in random.sample(query.edges, len(query.edges)):
        one, other = (next(p for p in parts if s in p.streams) for s in (edge.left.stream, edge.right.stream))
        parts = [p for p in parts if p not in (one, other)] + [join(one, other, edge)]
    (tree,) = parts
    assert isinstance(tree, Join)
    return tree


def random_plan(random: Random, queries: list[Query]) -> Plan:
    def choice(query: Query) -> Choice:
        return Choice(random_tree(random, query), {edge: random.randint(0, 1) for edge in query.edges})

    return Plan({query.name: choice(query) for query in queries})
