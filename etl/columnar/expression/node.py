"""A compiled part of an expression, and the names it may use.

A node knows its type before any row is seen. Its function takes the columns of a batch and gives an array, or a scalar
when it does not depend on the row. Columns are resolved once: `site.region` is the column of that very name if the
schema has one (enriched batches and correlations do), else the field `region` of the struct `site`; a bare `region`
is also found when it is the last part of exactly one dotted column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Datum: TypeAlias = "pa.Array | pa.Scalar"
Columns = Mapping[str, pa.Array]
Evaluate = Callable[[Columns], Datum]
Value = bool | int | float | str | object


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant as it was written; `value` None is NULL."""

    value: Value


@dataclass(frozen=True, slots=True)
class Node:
    type: pa.DataType
    evaluate: Evaluate
    columns: frozenset[str] = frozenset()
    literal: Literal | None = None


def constant(value: Value, type_: pa.DataType) -> Node:
    """A value that every row shares. It is made when first needed: making one loads pandas, and checking needs none."""
    scalar = cache(lambda: pa.scalar(value, type_))
    return Node(type_, lambda _: scalar(), literal=Literal(value))


def as_array(datum: Datum, rows: int) -> pa.Array:
    """One value per row."""
    if isinstance(datum, pa.Scalar):
        return pa.nulls(rows, datum.type) if not datum.is_valid else pa.repeat(datum, rows)
    return datum


def contiguous(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array, dictionaries decoded."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # no chunk at all
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def decoded(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_


class UnknownName(Exception):
    """No column, or more than one, goes by a name; the compiler adds the place."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Resolves names against a schema."""

    schema: pa.Schema

    def column(self, parts: tuple[str, ...]) -> Node:
        """The column or struct field of a dotted name."""
        for length in range(len(parts), 0, -1):
            name = self._match(".".join(parts[:length]))
            if name is not None:
                return _fields(self._load(name), parts[length:])
        found = [name for name in self.schema.names if _last(name) == parts[-1].lower()] if len(parts) == 1 else []
        if len(found) == 1:
            return self._load(found[0])
        if found:
            raise UnknownName(f"{parts[0]!r} is ambiguous: {', '.join(found)}")
        raise UnknownName(f"there is no column {'.'.join(parts)!r}; there are {', '.join(self.schema.names)}")

    def _match(self, name: str) -> str | None:
        if name in self.schema.names:
            return name
        alike = [known for known in self.schema.names if known.lower() == name.lower()]
        return alike[0] if len(alike) == 1 else None

    def _load(self, name: str) -> Node:
        return Node(decoded(self.schema.field(name).type), lambda columns: columns[name], frozenset([name]))


def _last(name: str) -> str:
    return name.rpartition(".")[2].lower() if "." in name else ""


def _fields(node: Node, parts: tuple[str, ...]) -> Node:
    for part in parts:
        if not pa.types.is_struct(node.type) or node.type.get_field_index(part) < 0:
            raise UnknownName(f"there is no field {part!r} in a column of type {node.type}")
        node = _field(node, part)
    return node


def _field(node: Node, part: str) -> Node:
    outer = node.evaluate
    index = node.type.get_field_index(part)
    return Node(
        decoded(node.type.field(index).type),
        lambda columns: contiguous(pc.struct_field(outer(columns), indices=[index])),
        node.columns,
    )


def on_arrays(function: Callable[..., pa.Array]) -> Callable[..., Datum]:
    """A function of arrays as one of arrays and scalars: scalars are repeated, only scalars give a scalar."""

    def apply(*data: Datum) -> Datum:
        lengths = [len(datum) for datum in data if not isinstance(datum, pa.Scalar)]
        result = function(*[as_array(datum, lengths[0] if lengths else 1) for datum in data])
        return result if lengths else result[0]

    return apply
