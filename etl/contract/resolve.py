"""A pipeline with the schemas of its masters: all types are known, so everything can be checked.

    Pipeline + {master: Arrow schema} ──check_against──▶ ResolvedPipeline ──tables.py──▶ schemas of all tables

    row       the stream's fields, then `master.column` for every master: the scope of measures
    enriched  the same with the measures: the scope of the mart

A column is nullable when its field is optional, when events may lack its master's row, or when the master says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from etl.contract import check_output
from etl.contract.errors import Mistake, PipelineFileError, TomlPath, unknown
from etl.contract.model import Master, Pipeline
from etl.contract.parsing.locate import line_of, lines_of
from etl.contract.words import names
from etl.contract.words.expressions import Names
from etl.contract.words.types import declared_name, stored_type

Schemas = Mapping[str, pa.Schema]
"""The columns of masters' tables, by master name."""


@dataclass(frozen=True, slots=True)
class ResolvedPipeline:
    """A pipeline with resolved masters. For masters without `columns`, all columns are listed."""

    pipeline: Pipeline
    masters: Schemas  # key columns, then columns
    row: pa.Schema
    measures: Mapping[str, pa.DataType]

    @property
    def name(self) -> str:
        return self.pipeline.name

    @property
    def enriched(self) -> pa.Schema:
        return pa.schema([*self.row, *(pa.field(name, kind) for name, kind in self.measures.items())])


def check_against(pipeline: Pipeline, master_schemas: Schemas) -> ResolvedPipeline:
    """Resolve a pipeline against its masters' schemas. Raises `PipelineFileError` with the first mistake."""
    errors = mistakes_against(pipeline, master_schemas)
    if errors:
        raise errors[0]
    complete = _with_columns(pipeline, master_schemas)
    row = row_schema(complete, master_schemas)
    measures = {name: Names(row).type_of(sql) for name, sql in pipeline.measures.items()}
    masters = {one.name: _projected(one, master_schemas[one.name]) for one in complete.masters}
    return ResolvedPipeline(complete, masters, row, measures)


def mistakes_against(pipeline: Pipeline, master_schemas: Schemas) -> list[PipelineFileError]:
    """All mistakes against the masters' schemas, with the line in the pipeline's file."""
    found = [one for master in pipeline.masters for one in _master(master, pipeline, master_schemas[master.name])]
    if not found:
        complete = _with_columns(pipeline, master_schemas)
        found = [*check_output.mistakes(complete, Names(row_schema(complete, master_schemas)))]
    return [located(pipeline, mistake) for mistake in found]


def located(pipeline: Pipeline, mistake: Mistake) -> PipelineFileError:
    """The error for a pipeline's mistake; at line 1 when the file no longer exists."""
    if pipeline.file is None or not pipeline.file.is_file():
        return PipelineFileError(f"{pipeline.name}.toml", 1, mistake.sentence)
    lines = lines_of(pipeline.file.read_text("utf-8"))
    return PipelineFileError(pipeline.file.name, line_of(lines, mistake.path), mistake.sentence)


def row_schema(pipeline: Pipeline, master_schemas: Schemas) -> pa.Schema:
    """Fields and master columns of an enriched row, in the types they have in a batch."""
    fields = list(pipeline.stream.accepted_schema)
    for master in pipeline.masters:
        for column in master.columns:
            one = master_schemas[master.name].field(column)
            kind = one.type.value_type if pa.types.is_dictionary(one.type) else one.type
            fields.append(pa.field(f"{master.name}.{column}", kind, nullable=one.nullable or pipeline.may_lack(master)))
    return pa.schema(fields)


def _with_columns(pipeline: Pipeline, schemas: Schemas) -> Pipeline:
    """The pipeline with the columns of masters that list none: all but the key."""
    masters = [
        master if master.columns else replace(master, columns=_others(master, schemas[master.name]))
        for master in pipeline.masters
    ]
    return replace(pipeline, masters=tuple(masters))


def _others(master: Master, schema: pa.Schema) -> tuple[str, ...]:
    return tuple(name for name in schema.names if name not in master.key_columns)


def _projected(master: Master, schema: pa.Schema) -> pa.Schema:
    return pa.schema([schema.field(column) for column in (*master.key_columns, *master.columns)])


def _master(master: Master, pipeline: Pipeline, schema: pa.Schema) -> Iterator[Mistake]:
    """Mistakes in a master's declaration against its table."""
    path: TomlPath = ("master", master.name)
    what = f"a column of {master.store}:{master.table}"
    for number, column in enumerate(master.columns or _others(master, schema)):
        place = (*path, "columns", number)
        if column not in schema.names:
            yield Mistake(place, unknown(what, column, schema.names, "columns"))
        elif wrong := [*names.column(place, column)]:  # of a master that lists none
            yield from wrong
        elif stored_type(schema.field(column).type) is None:
            kind = schema.field(column).type
            yield Mistake(
                place, f"{column!r} of {master.name!r} is {kind}, which no table can hold; leave it out of columns"
            )
    for name, column in master.on:
        place = (*path, "on", name)
        if column not in schema.names:
            yield Mistake(place, unknown(what, column, schema.names, "columns"))
            continue
        mine, theirs = pipeline.stream.field(name).type, schema.field(column).type
        if not _same_kind(mine, theirs):
            given = f"{name!r} is {declared_name(mine)} and {column!r} of {master.name!r} is {theirs}"
            yield Mistake(place, f"{given}; whole numbers match whole numbers, and texts match texts")
    yield from _version((*path, "version"), what, master, schema)


def _version(path: TomlPath, what: str, master: Master, schema: pa.Schema) -> Iterator[Mistake]:
    if master.version is None:
        return
    if master.version not in schema.names:
        yield Mistake(path, unknown(what, master.version, schema.names, "columns"))
    elif not pa.types.is_timestamp(schema.field(master.version).type):
        kind = schema.field(master.version).type
        yield Mistake(path, f"version {master.version!r} of {master.name!r} is {kind}; it must be a timestamp")


def _same_kind(mine: pa.DataType, theirs: pa.DataType) -> bool:
    """Whether values of the two types can be the same key."""
    flat = stored_type(theirs)
    integers = pa.types.is_integer(mine) and flat is not None and pa.types.is_integer(flat)
    return bool(integers or (pa.types.is_string(mine) and flat == pa.string()))
