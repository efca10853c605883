"""A multi-way window join as plain data, validated on creation.

A combination of tuples, one of each stream, is a result when all equalities hold and, at the moment the last of them
arrives, every other one is still in the window of its stream. A tuple is in its window from its event time (`start`)
up to its `end`: event time + length for a time window, just before the K-th following tuple for a tuple window. So the
window condition is that the intervals [start, end] of all members intersect, whatever the order of the joins (ADR 45).

Equalities are closed transitively into *attributes*: `a.x = b.y` and `b.y = c.z` make one attribute with a column in
a, b and c, and every two of them can be joined on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Literal

import pyarrow as pa

from etl.correlate.multiway.errors import (
    DeclaredTwice,
    JoinNotConnected,
    StreamWithoutSite,
    TypesDoNotCompare,
    UnknownName,
    WindowNotPositive,
)

Comparison = Literal["=", "!=", "<", "<=", ">", ">="]
Scalar = int | float | str | bool


def bits(streams: int) -> Iterator[int]:
    """The numbers of the streams in a set."""
    while streams:
        low = streams & -streams
        yield low.bit_length() - 1
        streams ^= low


@dataclass(frozen=True, slots=True)
class Site:
    """A storage root; `root` is a folder or any URL that fsspec opens."""

    name: str
    root: str


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """The tuples of the last `length` of event time."""

    length: timedelta

    @property
    def microseconds(self) -> int:
        return self.length // timedelta(microseconds=1)

    @property
    def positive(self) -> bool:
        return self.microseconds > 0

    def __str__(self) -> str:
        return f"{self.length.total_seconds():g} s"


@dataclass(frozen=True, slots=True)
class TupleWindow:
    """The last `tuples` participating tuples: those that pass the filters and have a value in every join column."""

    tuples: int

    @property
    def positive(self) -> bool:
        return self.tuples > 0

    def __str__(self) -> str:
        return f"{self.tuples} tuples"


Window = TimeWindow | TupleWindow


@dataclass(frozen=True, slots=True)
class Filter:
    """A selection that runs at the stream's site, before anything is shipped."""

    column: str
    comparison: Comparison
    value: Scalar


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream at its site. `columns` are its columns in the result; `time` is in microseconds or a timestamp."""

    name: str
    site: str
    schema: pa.Schema
    time: str
    window: Window
    columns: tuple[str, ...]
    filters: tuple[Filter, ...] = ()

    def __post_init__(self) -> None:
        for column in (self.time, *self.columns, *(one.column for one in self.filters)):
            if column not in self.schema.names:
                raise UnknownName(f"column of stream {self.name!r} named", column, tuple(self.schema.names))
        if not self.window.positive:
            raise WindowNotPositive(self.name, str(self.window))
        kind = self.schema.field(self.time).type
        if not (pa.types.is_integer(kind) or pa.types.is_timestamp(kind)):
            raise TypesDoNotCompare(f"{self.name}.{self.time}", str(kind), "event time", "timestamp")
        for one in self.filters:
            kind, given = self.schema.field(one.column).type, pa.scalar(one.value).type
            if not (comparable(kind, given) or (_number(kind) and _number(given))):
                raise TypesDoNotCompare(f"{self.name}.{one.column}", str(kind), repr(one.value), str(given))


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a stream, as an equality names it."""

    stream: str
    name: str

    def __str__(self) -> str:
        return f"{self.stream}.{self.name}"


@dataclass(frozen=True, slots=True)
class Equality:
    left: Column
    right: Column


@dataclass(frozen=True, slots=True)
class Attribute:
    """Columns that all have to be equal, by stream number; `same` are further columns of a stream among them."""

    name: str
    columns: dict[int, str] = field(hash=False)
    same: tuple[tuple[int, str, str], ...] = ()

    @property
    def members(self) -> int:
        return sum(1 << stream for stream in self.columns)


@dataclass(frozen=True)
class JoinQuery:
    """Streams, sites and equalities of a join."""

    name: str
    sites: tuple[Site, ...]
    streams: tuple[Stream, ...]
    equalities: tuple[Equality, ...]
    target: str | None = None
    lateness: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        self._check_names()
        for equality in self.equalities:
            self._check_types(equality)
        apart = self.everything & ~self._reachable()
        if apart:
            raise JoinNotConnected(self.name, tuple(self.streams[i].name for i in bits(apart)))

    def _check_names(self) -> None:
        for what, names in (("site", [s.name for s in self.sites]), ("stream", [s.name for s in self.streams])):
            for name in names:
                if names.count(name) > 1:
                    raise DeclaredTwice(what, name)
        sites = tuple(site.name for site in self.sites)
        for stream in self.streams:
            if stream.site not in sites:
                raise StreamWithoutSite(stream.name, stream.site, sites)
        if self.target is not None and self.target not in sites:
            raise UnknownName("site", self.target, sites)

    def _check_types(self, equality: Equality) -> None:
        left, right = (self._type(column) for column in (equality.left, equality.right))
        if not comparable(left, right):
            raise TypesDoNotCompare(str(equality.left), str(left), str(equality.right), str(right))

    def _type(self, column: Column) -> pa.DataType:
        stream = self.streams[self.number(column.stream)]
        if column.name not in stream.schema.names:
            raise UnknownName(f"column of stream {stream.name!r} named", column.name, tuple(stream.schema.names))
        return stream.schema.field(column.name).type

    def _reachable(self) -> int:
        reached, before = 1, 0
        while reached != before:
            before = reached
            for stream in bits(before):
                reached |= self.neighbours[stream]
        return reached

    def number(self, stream: str) -> int:
        names = tuple(one.name for one in self.streams)
        if stream not in names:
            raise UnknownName("stream", stream, names)
        return names.index(stream)

    @property
    def everything(self) -> int:
        """The set of all streams."""
        return (1 << len(self.streams)) - 1

    @cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        """The equalities, closed transitively."""
        classes: list[list[tuple[int, str]]] = []
        for equality in self.equalities:
            ends = [(self.number(column.stream), column.name) for column in (equality.left, equality.right)]
            touched = [one for one in classes if any(end in one for end in ends)]
            merged = list(dict.fromkeys([column for one in touched for column in one] + ends))
            classes = [one for one in classes if one not in touched] + [merged]
        return tuple(_attribute(self.streams, one) for one in classes)

    @cached_property
    def neighbours(self) -> tuple[int, ...]:
        """For every stream, the streams it can be joined with."""
        return tuple(
            sum({1 << j for a in self.attributes if i in a.columns for j in a.columns if j != i})
            for i in range(len(self.streams))
        )

    def open_attributes(self, streams: int) -> tuple[int, ...]:
        """Attributes on which `streams` are still to be joined with some other stream."""
        return tuple(
            n for n, one in enumerate(self.attributes) if one.members & streams and one.members & ~streams
        )  # fmt: skip


def _attribute(streams: tuple[Stream, ...], columns: list[tuple[int, str]]) -> Attribute:
    first: dict[int, str] = {}
    same = []
    for stream, column in sorted(columns):
        if stream in first:
            same.append((stream, first[stream], column))
        first.setdefault(stream, column)
    leader = min(first)
    return Attribute(f"{streams[leader].name}.{first[leader]}", first, tuple(same))


def comparable(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether values of the two types can be equal without a cast that a user should write himself."""
    if left.equals(right):
        return not (pa.types.is_nested(left) or pa.types.is_null(left) or pa.types.is_floating(left))
    return _both(pa.types.is_integer, left, right) or _both(_text, left, right)


def _both(kind: object, left: pa.DataType, right: pa.DataType) -> bool:
    return bool(kind(left) and kind(right)) if callable(kind) else False


def _text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
