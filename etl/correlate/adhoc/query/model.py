"""A query as values: streams, join edges, selections, outputs.

streams      V ──vid── W ──usr── C     two to five, joined as a tree; an edge may compare several columns at once
selections   per stream, alternatives (OR) of column conditions (AND)
window       in slots: all tuples of a result lie within `window` successive slots (ADR 40)
output       columns (rows), or aggregates per group (partials per slot, ADR 41)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from etl.correlate.adhoc.query.values import ValueSet

AggregateKind = Literal["count", "sum", "avg", "min", "max"]


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream's name and columns, as visible to queries."""

    name: str
    columns: Mapping[str, pa.DataType]


@dataclass(frozen=True, slots=True, order=True)
class ColumnOf:
    stream: str
    column: str


@dataclass(frozen=True, slots=True, order=True)
class End:
    """One side of a join edge: the attribute by which a stream is indexed, one column or several together."""

    stream: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.stream}.{'+'.join(self.columns)}"


@dataclass(frozen=True, slots=True, order=True)
class Edge:
    """An equality between two streams; `left` is the stream that sorts first, so that equal edges are equal."""

    left: End
    right: End

    @property
    def streams(self) -> frozenset[str]:
        return frozenset((self.left.stream, self.right.stream))

    def end(self, stream: str) -> End:
        return self.left if self.left.stream == stream else self.right

    def __str__(self) -> str:
        return f"{self.left} = {self.right}"


def edge(one: End, other: End) -> Edge:
    """The edge between two ends, normalised: streams in order, columns in the order of the left end's."""
    left, right = sorted((one, other))
    pairs = sorted(zip(left.columns, right.columns, strict=True))
    return Edge(End(left.stream, tuple(p[0] for p in pairs)), End(right.stream, tuple(p[1] for p in pairs)))


Alternative = Mapping[str, ValueSet]  # column to allowed values; all of them hold


@dataclass(frozen=True, slots=True)
class Aggregate:
    kind: AggregateKind
    of: ColumnOf | None  # None: count(*)
    name: str

    @property
    def parts(self) -> tuple[str, ...]:
        """The extra columns of an average, so that averages can be merged: its sum and count."""
        return (f"{self.name}__sum", f"{self.name}__count") if self.kind == "avg" else ()


@dataclass(frozen=True, slots=True)
class OutputColumn:
    of: ColumnOf
    name: str


@dataclass(frozen=True, slots=True)
class Query:
    """One ad-hoc query. Its outputs, in the order of SELECT: columns; or aggregates with columns of `group_by`."""

    name: str
    sql: str
    streams: tuple[str, ...]
    edges: tuple[Edge, ...]
    selections: Mapping[str, tuple[Alternative, ...]]  # no entry: everything
    outputs: tuple[OutputColumn | Aggregate, ...]
    group_by: tuple[ColumnOf, ...]
    window: int

    @property
    def columns(self) -> tuple[OutputColumn, ...]:
        return tuple(each for each in self.outputs if isinstance(each, OutputColumn))

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        return tuple(each for each in self.outputs if isinstance(each, Aggregate))

    @property
    def materialises(self) -> bool:
        """Whether its sink materialises rows, not only counts or aggregates."""
        return not self.aggregates

    @property
    def only_counts(self) -> bool:
        return bool(self.aggregates) and not self.group_by and all(a.of is None for a in self.aggregates)

    def attributes(self, stream: str) -> list[End]:
        return [each.end(stream) for each in self.edges if stream in each.streams]

    def columns_used(self, stream: str) -> set[str]:
        """The columns of the stream that a bucket needs for this query."""
        used = {name for end in self.attributes(stream) for name in end.columns}
        used |= {name for alternative in self.selections.get(stream, ()) for name in alternative}
        outputs = [c.of for c in self.columns] + [a.of for a in self.aggregates if a.of] + list(self.group_by)
        return used | {of.column for of in outputs if of.stream == stream}
