"""The columns of a store's rows, for callers and in files.

callers   key column first (one struct column `key` when there are several), then the other columns
in files  the key columns, the other columns,
          `__code` when the key has several columns (else the key column is the code),
          `__deleted` in overlays: true marks a tombstone, whose other columns are NULL
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from etl.columnar.keys import kind, same_kind, to_contiguous
from etl.enrich.errors import DuplicateMasterKey, NullMasterKey
from etl.masters.pages.errors import ColumnMismatch, ColumnUnsupported
from etl.masters.rows import key_codec
from etl.masters.rows.key_codec import Mask

CODE, DELETED, KEY = "__code", "__deleted", "key"


@dataclass(frozen=True, slots=True)
class Shape:
    """Columns and key of one store. Integer keys are int64, text keys `string`, dictionaries are decoded."""

    store: str
    schema: pa.Schema
    key: tuple[str, ...]

    @classmethod
    def of(cls, store: str, schema: pa.Schema, key: Sequence[str]) -> Shape:
        """The shape of rows with this schema. Raises for types that pages cannot store."""
        for name in key:
            if name not in schema.names:
                raise ColumnMismatch(store, name, "absent", "a key column")
            kind(_flat(schema.field(name).type))
        rest = [field for field in schema if field.name not in key]
        fields = [pa.field(name, _key_type(schema.field(name).type)) for name in key]
        fields += [pa.field(field.name, _flat(field.type)) for field in rest]
        for field in fields:
            if field.name in (CODE, DELETED) or not _holds(field.type):
                raise ColumnUnsupported(store, field.name, str(field.type))
        return cls(store, pa.schema(fields), tuple(key))

    @property
    def key_type(self) -> pa.DataType:
        """The type of the key for callers."""
        fields = [self.schema.field(name) for name in self.key]
        return fields[0].type if len(fields) == 1 else pa.struct(fields)

    def stored(self, overlay: bool) -> pa.Schema:
        """The columns of a run's file."""
        fields = list(self.schema)
        if len(self.key) > 1:
            fields.append(pa.field(CODE, pa.binary()))
        if overlay:
            fields.append(pa.field(DELETED, pa.bool_()))
        return pa.schema(fields)

    def rows(self, given: pa.RecordBatch | pa.Table) -> pa.Table:
        """Cast a source's rows to the shape's columns and types. Raises on other types and NULL keys."""
        names = given.schema.names
        columns = []
        for field in self.schema:
            if field.name not in names:
                raise ColumnMismatch(self.store, field.name, "absent", str(field.type))
            columns.append(self._cast(given.column(field.name), field))
        for column in columns[: len(self.key)]:
            if column.null_count:
                raise NullMasterKey(self.store, column.null_count)
        return pa.Table.from_arrays(columns, schema=self.schema)

    def _cast(self, column: Any, field: pa.Field) -> pa.Array:
        array = to_contiguous(column if isinstance(column, pa.Array) else whole(column))
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        if array.type == field.type:
            return array
        if _alike(array.type, field.type):
            try:
                return array.cast(field.type)
            except pa.ArrowInvalid:  # number out of range
                pass
        raise ColumnMismatch(self.store, field.name, str(array.type), str(field.type))

    def codes(self, rows: pa.Table) -> pa.Array:
        """The codes of rows in the shape's columns (or as stored)."""
        if CODE in rows.schema.names:
            return whole(rows.column(CODE))
        return key_codec.of_columns([whole(rows.column(name)) for name in self.key])

    def codes_of_keys(self, keys: pa.Array | pa.ChunkedArray) -> pa.Array:
        """The codes of a caller's keys. Raises on keys of another type, and on NULLs."""
        keys = to_contiguous(keys)
        same_kind(keys.type, self.key_type)
        parts = keys.flatten() if pa.types.is_struct(keys.type) else [keys]
        nulls = max(part.null_count for part in [keys, *parts])
        if nulls:
            raise NullMasterKey(self.store, nulls)
        return key_codec.of_columns([part.cast(self.schema.field(i).type) for i, part in enumerate(parts)])

    def to_store(self, rows: pa.Table, deleted: Mask | None = None) -> pa.Table:
        """Add the columns that exist in files only."""
        if len(self.key) > 1:
            rows = rows.append_column(pa.field(CODE, pa.binary()), self.codes(rows))
        if deleted is not None:
            rows = rows.append_column(pa.field(DELETED, pa.bool_()), pa.array(deleted))
        return rows

    def tombstones(self, keys: pa.Array) -> pa.Table:
        """Tombstones: rows with a key and NULLs."""
        keys = to_contiguous(keys)
        parts = keys.flatten() if pa.types.is_struct(keys.type) else [keys]
        columns = [part.cast(field.type) for part, field in zip(parts, self.schema, strict=False)]
        columns += [pa.nulls(len(keys), field.type) for field in list(self.schema)[len(self.key) :]]
        return pa.Table.from_arrays(columns, schema=self.schema)

    def public(self, stored: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Stored rows in the callers' form: the key first, then `columns`."""
        if len(self.key) == 1:
            return stored.select([*self.key, *columns])
        parts = [whole(stored.column(name)) for name in self.key]
        key = pa.StructArray.from_arrays(parts, fields=[self.schema.field(name) for name in self.key])
        table = stored.select(list(columns))
        return table.add_column(0, pa.field(KEY, self.key_type), key)

    def refuse_repeated_keys(self, rows: pa.Table) -> None:
        """Raise when two rows have the same key: a stream tuple would have two answers."""
        if rows.num_rows < 2:
            return
        keys = self.codes(rows)
        order = key_codec.argsort(keys)
        again = np.flatnonzero(~key_codec.first_of_equals(key_codec.take(keys, order)))
        if len(again):
            raise DuplicateMasterKey(self.store, self.key_text(rows, int(order[again[0]])))

    def key_text(self, rows: pa.Table, row: int) -> str:
        """A key as text, for a message."""
        return ", ".join(repr(rows.column(name)[row].as_py()) for name in self.key)


class Shaped:
    """A mixin for classes with a shape: key, other columns, schema."""

    __slots__ = ()
    shape: Shape

    @property
    def key(self) -> tuple[str, ...]:
        return self.shape.key

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns besides the key."""
        return tuple(self.shape.schema.names[len(self.key) :])

    @property
    def schema(self) -> pa.Schema:
        """The columns of every returned table: the key first, as a struct when it has several columns."""
        return self.shape.public(self.shape.schema.empty_table(), self.columns).schema


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array; a single chunk is not copied, as it may be a mapped file."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def deleted_of(stored: pa.Table) -> Mask:
    """Which stored rows are tombstones."""
    if DELETED not in stored.schema.names:
        return np.zeros(stored.num_rows, np.bool_)
    mask: Mask = stored.column(DELETED).to_numpy(zero_copy_only=False)
    return mask


def _flat(given: pa.DataType) -> pa.DataType:
    if isinstance(given, pa.BaseExtensionType):
        given = given.storage_type
    return given.value_type if pa.types.is_dictionary(given) else given


def _key_type(given: pa.DataType) -> pa.DataType:
    simple = {"integer": pa.int64(), "string": pa.string(), "binary": pa.binary()}
    return simple[kind(_flat(given))] if not pa.types.is_struct(given) else given


def _alike(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether only the width differs."""
    types = pa.types
    both_text = all(types.is_string(kind) or types.is_large_string(kind) for kind in (given, wanted))
    return both_text or bool(types.is_signed_integer(given) and types.is_signed_integer(wanted))


def _holds(given: pa.DataType) -> bool:
    """Whether a type is flat: every buffer of a column can be sliced at a row."""
    types = pa.types
    variable = (types.is_string, types.is_binary, types.is_large_string, types.is_large_binary)
    return bool(
        any(test(given) for test in variable)
        or types.is_fixed_size_binary(given)
        or types.is_primitive(given)
        or types.is_decimal(given)
    )
