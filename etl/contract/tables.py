"""The columns of every table that a pipeline writes, as Arrow schemas. Pure functions of a checked pipeline.

    fact        fields, measures, per master a surrogate key (scd1, scd2) or its columns (none), extra, batch, landed_at
    dim_NAME    surrogate key, key columns, columns; scd2 adds valid_from, valid_to, is_current
    quarantine  refused lines with their reasons, whatever pipeline
    backlog     events that wait, with everything needed to try them again
    mart        rows: declared columns, batch, landed_at, loaded_at; aggregates: groups, values

`extra` is JSON of what an event had beyond its declared fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
from sqlglot import exp

from etl.columnar.expression import parse
from etl.contract.model import MartTable, Master, Pipeline
from etl.contract.resolve import ResolvedPipeline
from etl.contract.words import values
from etl.contract.words.expressions import Names, aggregate
from etl.contract.words.types import TIMESTAMP, stored_type

_ORIGIN = [pa.field("source_file", pa.string()), pa.field("line", pa.int64())]
_TIMES = [pa.field("landed_at", TIMESTAMP), pa.field("decided_at", TIMESTAMP)]
_REASONS = pa.field("reasons", pa.list_(pa.string()))
_RAW = pa.field("raw", pa.binary())
_RELEASED_FROM = pa.field("released_from", pa.string())  # the refused line that a person sent in again, such as 12-3


def fact_schema(resolved: ResolvedPipeline) -> pa.Schema:
    """One row per accepted event."""
    fields = list(resolved.pipeline.stream.accepted_schema)
    fields += [pa.field(name, stored_type(kind)) for name, kind in resolved.measures.items()]
    for master in resolved.pipeline.masters:
        if master.history != "none":
            fields.append(pa.field(f"{master.name}_key", pa.int64(), nullable=not master.required))
            continue
        lacking = resolved.pipeline.may_lack(master)
        columns = _columns(master.columns, resolved.masters[master.name], optional=lacking)
        fields += [one.with_name(f"{master.name}_{one.name}") for one in columns]
    fields += [pa.field("extra", pa.string()), _needed("batch", pa.int64()), _needed("landed_at", TIMESTAMP)]
    return pa.schema(fields)


def dimension_schema(master: Master, schema: pa.Schema) -> pa.Schema:
    """A master's rows (scd1) or their versions (scd2). The version column of scd2 is there as `valid_from`."""
    columns = [one for one in master.columns if not (master.history == "scd2" and one == master.version)]
    fields = [_needed(f"{master.name}_key", pa.int64())]
    fields += [one.with_nullable(False) for one in _columns(master.key_columns, schema)]
    fields += _columns(columns, schema)
    if master.history == "scd2":
        fields += [_needed("valid_from", TIMESTAMP), pa.field("valid_to", TIMESTAMP), _needed("is_current", pa.bool_())]
    return pa.schema(fields)


def quarantine_schema() -> pa.Schema:
    """Refused lines. `key` is JSON of the key columns, NULL when they could not be read."""
    fields = [
        _needed("batch", pa.int64()),
        pa.field("key", pa.string()),
        _REASONS,
        _RAW,
        pa.field("raw_text", pa.string()),
    ]
    return pa.schema([*fields, *_ORIGIN, *_TIMES, pa.field("from_backlog", pa.bool_()), _RELEASED_FROM])


def backlog_schema(pipeline: Pipeline) -> pa.Schema:
    """Events that wait for a master row, or were shed."""
    hashes = [_needed(name, pa.int64()) for name in ("payload_hash", "key_lo", "key_hi")]
    fields = [_needed("batch", pa.int64()), *pipeline.stream.schema, pa.field("extra", pa.string()), *hashes]
    return pa.schema([*fields, _REASONS, _RAW, *_ORIGIN, *_TIMES, _RELEASED_FROM])


def mart_schema(resolved: ResolvedPipeline, table: MartTable) -> pa.Schema:
    """A table of the mart, its primary key not null."""
    known, schema = Names(resolved.enriched), resolved.enriched
    if not table.is_aggregate:
        fields = _computed(table.columns, known, schema)
        times = [_needed(name, TIMESTAMP) for name in ("landed_at", "loaded_at")]
        return pa.schema([*fields, _needed("batch", pa.int64()), *times])
    computed = [
        pa.field(name, stored_type(known.aggregate_type(sql)), nullable=aggregate(sql).function != "count")
        for name, sql in table.values.items()
    ]
    return pa.schema([*_computed(table.group_by, known, schema), *computed])


def primary_key(pipeline: Pipeline, table: MartTable) -> tuple[str, ...]:
    """The primary key of a mart table: the event's key, or the groups (which may be NULL)."""
    return tuple(table.group_by) if table.is_aggregate else pipeline.stream.key


def _computed(expressions: Mapping[str, str], known: Names, schema: pa.Schema) -> list[pa.Field]:
    return [
        pa.field(name, stored_type(known.type_of(sql)), nullable=not _always_there(parse(sql), schema))
        for name, sql in expressions.items()
    ]


def _always_there(tree: exp.Expr, schema: pa.Schema) -> bool:
    """Whether an expression is never NULL, as far as that can be proven."""
    if isinstance(tree, exp.Literal):
        return True
    if isinstance(tree, exp.Coalesce):
        return any(_always_there(one, schema) for one in (tree.this, *tree.expressions))
    if isinstance(tree, exp.Paren | exp.Upper | exp.Lower | exp.Trim):
        return _always_there(tree.this, schema)
    if isinstance(tree, exp.Cast):  # the date of a time cannot fail, other casts can
        to_date = tree.to.is_type(exp.DType.DATE) and isinstance(tree.this, exp.Column)
        return to_date and _is_moment(tree.this, schema) and _always_there(tree.this, schema)
    found = _column(tree, schema) if isinstance(tree, exp.Column) else None
    return found is not None and not found.nullable


def _is_moment(column: exp.Column, schema: pa.Schema) -> bool:
    found = _column(column, schema)
    return found is not None and values.is_moment(found.type)


def _column(column: exp.Column, schema: pa.Schema) -> pa.Field | None:
    name = ".".join(part.name for part in column.parts)
    return schema.field(name) if name in schema.names else None


def _columns(names: Iterable[str], schema: pa.Schema, *, optional: bool = False) -> list[pa.Field]:
    return [
        pa.field(name, stored_type(schema.field(name).type), nullable=optional or schema.field(name).nullable)
        for name in names
    ]


def _needed(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)
